"""Drafts in a scenario: who proposes how many, and how many of them the model finds right."""

from collections.abc import Iterable, Set
from typing import Any

from nullblock.conformance.trace.records import Draft, Drafted, Output, TraceConfig

Right = tuple[tuple[int, int], ...]
"""Of one output: request, and how many of its drafts were right, in schedule order."""


def right(drafts: Drafted, output: Output | None) -> Right:
    """How many of a step's drafts its output says were right."""
    if output is None:
        return ()
    counts = dict(zip(output.ids, output.counts, strict=True))
    return tuple((r, counts[r] - 1) for r, _ in drafts if counts.get(r))


def config(c: TraceConfig, outputs: Iterable[Right], there: Set[int]) -> dict[str, Any]:
    """What a scenario says of drafts. Each is proposed by an event, and each answer is told, of
    the requests that are there.
    """
    if not c.num_spec_tokens:
        return {}
    accept = [n for output in outputs for r, n in output if r in there]
    found = {"num_spec_tokens": c.num_spec_tokens, "spec_method": c.spec_method}
    return found | {"accept": accept or "none", "drafts": {"length": "none"}}


def event(record: Draft, names: dict[int, str], there: Set[int]) -> dict[str, Any]:
    """Drafts are proposed; which they are does not matter."""
    rows = zip(record.ids, record.counts, strict=True)
    return {"op": "draft", "tokens": {names[r]: [0] * n for r, n in rows if r in there}}
