"""Speculative decoding in a recording: who has how many drafts, and how many were rejected.

Nothing in here is called where no drafts are configured.
"""

from typing import Any

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.numbering import RequestNumbers
from nullblock.conformance.adapters.vllm.step import Step

Fields = dict[str, Any]


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of drafts; None where it has no words for it."""
    many, groups = scheduler.num_spec_tokens, scheduler.kv_cache_config.kv_cache_groups
    found: Fields = {}
    if len(groups) == 1 and groups[0].is_eagle_group:
        found["eagle_group"] = True
    if not many:
        return found
    lookahead = scheduler.num_lookahead_tokens
    if lookahead not in (0, many) or hasattr(scheduler, "use_eagle_block_drop"):  # 0.32.0
        return None
    told: Fields = {"num_spec_tokens": many}
    if lookahead:  # ngram, which needs none, is the default
        told["spec_method"] = "eagle" if scheduler.use_eagle else "draft_model"
    return told | found


def of_step(decided: Any, ids: list[str]) -> list[int] | None:
    """How many drafts a step has of each; None: of nobody."""
    drafts = decided.scheduled_spec_decode_tokens
    return [len(drafts.get(r, ())) for r in ids] if drafts else None


def pairs(step: Step) -> list[tuple[int, int]]:
    """Those of a step that have drafts, and how many."""
    if step.drafts is None:
        return []
    return [pair for pair in zip(step.numbers, step.drafts, strict=True) if pair[1]]


class Rejected:
    """Drafts that the model did not agree with, by request, since the step decided last."""

    def __init__(self) -> None:
        self.since: dict[str, int] = {}

    def output(self, step: Step, counts: list[int] | None) -> None:
        """A step has returned so many tokens of each; None: one each."""
        if step.drafts is None:
            return
        since = self.since
        came = [1] * len(step.ids) if counts is None else counts
        for r, drafts, count in zip(step.ids, step.drafts, came, strict=True):
            if count and count != drafts + 1:
                since[r] = since.get(r, 0) + drafts + 1 - count

    def next_counts(self, before: Step) -> int | None:
        """What is expected of the step after it, if everybody stays; None: that has no number."""
        if before.counts is None:
            return None
        outputs = [1] * len(before.ids)
        if before.drafts is not None:
            outputs = [n + 1 for n in before.drafts]
        added = expected.packed(before.tokens, outputs)
        if added is None:
            return None
        counts = before.counts + added
        if self.since:
            rejected = [self.since.get(r, 0) for r in before.ids]
            fewer = expected.packed(rejected, rejected)
            counts = -1 if fewer is None else counts - fewer
        return counts if counts >= 0 else None


def told(step: Step, many: int) -> Fields:
    """The fields of a short step: how many drafts the first so many of it have, and others."""
    if step.drafts is None:
        return {}
    staying = step.drafts[:many]
    usual = max(set(staying), key=staying.count, default=0)
    others = [
        pair
        for place, pair in enumerate(zip(step.numbers, step.drafts, strict=True))
        if pair[1] != (usual if place < many else 0)
    ]
    fields: Fields = {"drafts": usual} if usual else {}
    return fields | ({"drafted": others} if others else {})


def proposed(tokens: Any, last: Step | None, numbers: RequestNumbers) -> Fields:
    """A record of the drafts that are proposed; ``last``: the step whose output came last, if ids
    stand for the same requests still.
    """
    ids, counts = tokens.req_ids, list(map(len, tokens.draft_token_ids))
    if last is not None and ids != last.ids and len(ids) == len(last.ids):
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
        record["counts"] = counts
    elif each:
        record["each"] = each
    return record


def passed_on(
    step: Step, counts: list[int], ids: list[str], tokens: list[int]
) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Who sampled something and gets nothing, and who gets fewer tokens, and how many; None if
    that does not explain the outputs.
    """
    got = dict(zip(ids, tokens, strict=True))
    order: list[str] = []
    gone: list[int] = []
    cut: list[tuple[int, int]] = []
    for r, number, count in zip(step.ids, step.numbers, counts, strict=True):
        if count and r not in got:
            gone.append(number)
        elif count:
            order.append(r)
            if got[r] != count:
                cut.append((number, got[r]))
    return (gone, cut) if order == ids else None
