"""Speculative decoding in a recording: who has how many drafts, and how many were rejected.

Nothing in here is called where no drafts are configured.
"""

from functools import lru_cache
from itertools import compress
from operator import and_, gt
from typing import Any

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.numbering import RequestNumbers
from nullblock.conformance.adapters.vllm.seen import Many, Proposal, differing
from nullblock.conformance.adapters.vllm.step import Step, absent, without

Fields = dict[str, Any]
_ONE_MORE = bytes([*range(1, 256), 0])
_SMALL = bytes(range(127))


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of drafts; None where it has no words for it."""
    many, groups = scheduler.num_spec_tokens, scheduler.kv_cache_config.kv_cache_groups
    found: Fields = {}
    if len(groups) == 1 and groups[0].is_eagle_group:
        found["eagle_group"] = True
    if not many:
        return found
    lookahead = scheduler.num_lookahead_tokens
    drops = getattr(scheduler, "use_eagle_block_drop", scheduler.use_eagle)  # since 0.32.0
    if lookahead not in (0, many) or drops != scheduler.use_eagle:
        return None
    told: Fields = {"num_spec_tokens": many}
    if lookahead:  # ngram, which needs none, is the default
        told["spec_method"] = "eagle" if scheduler.use_eagle else "draft_model"
    batched = scheduler.scheduler_config.max_num_batched_tokens
    if lookahead and not scheduler.use_eagle and hasattr(scheduler, "use_eagle_block_drop"):
        # Since 0.32.0 a draft model takes places of it.
        if batched != scheduler.max_num_scheduled_tokens:
            found["max_num_batched_tokens"] = batched
    return told | found


def takes_other_slots(scheduler: Any) -> bool:
    """Whether a request takes other slots for drafting than the one of a draft model, or none:
    since 0.32.0, where drafts are made side by side.
    """
    told = getattr(scheduler.vllm_config, "speculative_config", None)
    if told is None or not hasattr(scheduler, "use_eagle_block_drop"):
        return False
    has_model = bool(scheduler.num_lookahead_tokens) and not scheduler.use_eagle
    return bool(told.max_num_new_slots_for_drafting != has_model)


def pairs(step: Step) -> list[tuple[int, int]]:
    """Those of a step that have drafts, and how many."""
    if step.drafts is None:
        return []
    return [pair for pair in zip(step.numbers, step.drafts, strict=True) if pair[1]]


def due(drafts: Many | None, tokens: list[int], before: Step | None) -> list[int]:
    """The tokens of each if nobody has others than its drafts and one more: ``tokens`` itself,
    where that is so. ``before``: the step before, whose lists may be these.
    """
    if before is not None and drafts is before.drafts and tokens is before.tokens:
        return before.due
    if drafts is None:
        found = [1] * len(tokens)
    elif isinstance(drafts, bytes) and 255 not in drafts:
        found = list(drafts.translate(_ONE_MORE))
    else:
        found = [n + 1 for n in drafts]
    return tokens if found == tokens else found


class Rejected:
    """Drafts that the model did not agree with, since the step decided last."""

    def __init__(self) -> None:
        self.since: list[tuple[list[str], Many | None]] = []
        """By output: requests, and how many of each; None: that has no number."""

    def output(self, step: Step, counts: Many | None) -> None:
        """A step has returned so many tokens of each; None: one each."""
        if step.drafts is not None:
            came = b"\1" * len(step.ids) if counts is None else counts
            self.since.append((step.ids, lacking(step.drafts, came)))

    def next_counts(self, before: Step) -> int | None:
        """What is expected of the step after it, if everybody stays; None: that has no number."""
        added = _added(before)
        if before.counts is None or added is None:
            return None
        counts = before.counts + added
        for ids, each in self.since:
            if each is not None and ids is not before.ids:
                each = _of(before, ids, each)
            rejected = None if each is None else expected.doubled(each)
            counts = -1 if rejected is None or counts < 0 else counts - rejected
        return counts if counts >= 0 else None


def lacking(drafts: Many, came: Many) -> Many | None:
    """How many of these drafts each lacks, where so many tokens came; None: somebody has more."""
    if not (isinstance(drafts, bytes) and isinstance(came, bytes)):
        return _one_by_one(drafts, came)
    if 0 in came or _large(drafts) or _large(came):
        return _one_by_one(drafts, came)
    many = len(came)
    tops = int.from_bytes(b"\x80" * many, "little")
    due = int.from_bytes(drafts.translate(_ONE_MORE), "little") | tops
    found = due - int.from_bytes(came, "little")  # no byte takes from the next, or tops go
    return (found ^ tops).to_bytes(many, "little") if found & tops == tops else None


def _one_by_one(drafts: Many, came: Many) -> list[int] | None:
    """The same; who samples nothing rejects nothing."""
    each = [d + 1 - n if n else 0 for d, n in zip(drafts, came, strict=True)]
    return None if min(each, default=0) < 0 else each


def _large(numbers: bytes) -> bytes:
    """Those that are beyond a byte's highest bit, or reach it with one more."""
    return numbers.translate(None, _SMALL)


def _added(step: Step) -> int | None:
    """What a step adds to the counts, if all of its drafts are taken."""
    if step.due is step.tokens and isinstance(step.drafts, bytes) and not _large(step.drafts):
        return _doubled(step.drafts)
    return expected.packed(step.tokens, step.due)


@lru_cache(16)
def _doubled(drafts: bytes) -> int | None:
    """What drafts, as few as fit, and one token more each add to the counts. Mostly each has as
    many as in the step before.
    """
    return expected.doubled(drafts.translate(_ONE_MORE))


def _of(step: Step, whose: list[str], rejected: Many) -> Many:
    """What was rejected of each in a step, of somebody else's drafts none."""
    ids = step.ids
    leads = whose is step.after and not _come_back(step)
    places = step.gone if leads else absent(whose, ids)
    many = len(whose) - len(places)
    if leads or ids[:many] == without(whose, places):
        # Mostly few have gone, and new ones are behind the others.
        kept = without(list(rejected), places)
        each = kept + [0] * (len(ids) - many)
    else:
        of = dict(zip(whose, rejected, strict=True))
        each = [of.get(r, 0) for r in ids]
    return bytes(each) if isinstance(rejected, bytes) else each


def _come_back(step: Step) -> bool:
    """Whether somebody has left the step before and stands behind its others in this one: it was
    reset and resumed at once, or has the id of one that ended. Outputs are told by number.
    """
    gone, after = step.gone, step.after
    tail = step.ids[len(after) - len(gone) :]
    return bool(gone and tail) and not set(tail).isdisjoint(map(after.__getitem__, gone))


def told(step: Step, many: int) -> Fields:
    """The fields of a short step: how many drafts the first so many of it have, and others."""
    if step.drafts is None:
        return {}
    first = step.drafts[0] if step.drafts else 0
    if first and step.drafts.count(first) == len(step.drafts) == many:
        return {"drafts": first}
    staying = step.drafts[:many]
    usual = max(set(staying), key=staying.count, default=0)
    fields: Fields = {"drafts": usual} if usual else {}
    others = step.drafts[many:]
    if staying.count(usual) != many or others.count(0) != len(others):
        due = [usual] * many + [0] * (len(step.drafts) - many)
        rows = zip(step.numbers, step.drafts, due, strict=True)
        fields["drafted"] = [(number, n) for number, n, likely in rows if n != likely]
    return fields


def proposed(proposal: Proposal, last: Step | None, numbers: RequestNumbers) -> Fields:
    """A record of the drafts that are proposed; ``last``: the step whose output came last, if ids
    stand for the same requests still.
    """
    ids, counts = proposal.ids, proposal.counts
    if last is not None and ids is not last.ids and ids != last.ids and len(ids) == len(last.ids):
        by_id = dict(zip(ids, counts, strict=True))
        if len(by_id) == len(ids) and all(map(by_id.__contains__, last.ids)):
            ids, counts = last.ids, [by_id[r] for r in last.ids]
    if last is None or ids != last.ids:
        known = [pair for pair in zip(ids, counts, strict=True) if pair[0] in numbers.of]
        record: Fields = {"ev": "draft", "ids": [numbers.of[r] for r, _ in known]}
        return record | {"counts": [n for _, n in known]}
    record = {"ev": "draft+", "step": last.number}
    each = counts[0] if counts else 0
    if counts.count(each) != len(counts):
        record["counts"] = list(counts)
    elif each:
        record["each"] = each
    return record


def passed_on(
    step: Step, counts: Many, ids: list[str], tokens: Many
) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Who sampled something and gets nothing, and who gets fewer tokens, and how many; None if
    that does not explain the outputs.
    """
    numbers, due, gone = step.numbers, counts, list[int]()
    if 0 in counts or ids != step.ids:
        sampled, here = list(map(bool, counts)), map(set(ids).__contains__, step.ids)
        stays = list(map(and_, sampled, here))
        if list(compress(step.ids, stays)) != ids:
            return None
        gone = list(compress(numbers, map(gt, sampled, stays)))
        numbers, due = list(compress(numbers, stays)), list(compress(counts, stays))
    return gone, [(numbers[place], tokens[place]) for place in differing(tokens, due)]
