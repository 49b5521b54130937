"""Steps between which a few requests end and a few come: all others go on with a token each,
or with their drafts.

Those who come are new, and stand behind the others. Where that is all, what such a step should be
is made of the step before, whose lists are cut and lengthened in one go each, and compared in one.
Whatever else happens is told in the ordinary way.
"""

from array import array

from nullblock.conformance.adapters.vllm import drafts, expected
from nullblock.conformance.adapters.vllm.filling import a_token_on, positions
from nullblock.conformance.adapters.vllm.seen import NO_OTHERS, Seen
from nullblock.conformance.adapters.vllm.step import FEW, Step, absent, without


def turned(seen: Seen, before: Step, rejected: drafts.Rejected | None) -> Step | None:
    """The step, with the numbers and fillings of those who stay; None: not all is as expected.
    ``rejected``: where there may be drafts.
    """
    others, tokens, at = seen.others, seen.tokens, before.at
    words, many, gone = seen.words, len(seen.known), gone_between(before.ids, seen)
    if at is None or words is None or not many or gone is None:
        return None
    further = tokens[many:]
    due = tokens if rejected is None else drafts.due(seen.drafts, tokens, before)
    if seen.drafts is None:
        if tokens.count(1) - further.count(1) != many:
            return None
    elif due is not tokens and due[:many] != tokens[:many]:
        return None
    try:
        alike, counts = _as_expected(words, before, gone, rejected)
        if not alike:
            return None
        if further:
            computed = [request.computed for request in others.new]
            words = expected.extended(words, [(n, 0) for n in computed])
    except OverflowError:  # a count that has no word
        return None
    at = a_token_on(at)
    for place in reversed(gone):
        at = at[:place] + at[place + 1 :]
    if further:
        at += positions(computed, further)
    numbers, fillings = before.numbers, before.fillings
    if gone:
        numbers, fillings = without(numbers, gone), without(fillings, gone)
    single = seen.drafts is None and further.count(1) == len(further)
    step = Step(seen.number, seen, seen.ids, numbers, fillings, tokens, single, words=words, at=at)
    step.after, step.base, step.gone = before.ids, before.fillings, gone
    step.drafts, step.due = seen.drafts, [] if rejected is None else due
    if not further:
        step.packed = counts
    return step


def gone_between(before: list[str], seen: Seen) -> list[int] | None:
    """The places of those who were in the step before and are not in this one, in which the others
    stand before new ones, if there are any. None: somebody does something else.
    """
    others, known, gone = seen.others, seen.known, list[int]()
    if others is not NO_OTHERS and (others.preempted or others.resumed or others.sent):
        return None
    if known is not before and known != before:
        gone = _gone(before, others.finished, known)
        if known != without(before, gone):
            return None
    if seen.ids is not known:
        came = [request.id for request in others.new]
        if seen.ids != known + came or any(before[place] in came for place in gone):
            return None
    return gone


def _as_expected(
    words: "array[int]", before: Step, gone: list[int], rejected: drafts.Rejected | None
) -> tuple[bool, int | None]:
    """Whether the counts of those who stay are; and the counts packed, where they are at hand.
    Raises ``OverflowError``.
    """
    if len(gone) > FEW:
        return False, None
    if rejected is None:
        was = before.counted()
        return was is not None and expected.one_more(was, before.tokens, gone, words), None
    due = rejected.next_counts(before)
    if due is None or gone:
        return due is not None and words == expected.kept(due, len(before.ids), gone), None
    return due == expected.number(words), due


def _gone(ids: list[str], ended: list[str], known: list[str]) -> list[int]:
    """The places of those who have ended, if that is who is gone; else of whoever is."""
    if len(ids) - len(known) == len(ended) <= FEW:
        try:
            return sorted(map(ids.index, ended))
        except ValueError:  # who ended was gone before
            pass
    return absent(ids, known)
