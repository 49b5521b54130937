"""Why an engine departs from the rules in a scenario: the rule, what decided, whom it concerns.

The engine is recorded, and the recording is judged like any other trace: what the lockstep finds
and what ``nullblock check`` would say of the engine in production is one explanation.
"""

import json
import re
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nullblock.conformance import driver, scenario
from nullblock.conformance.checker import story
from nullblock.conformance.checker.check import BEFORE, check
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.explanation import Explanation
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.compare import Difference
from nullblock.conformance.engine import Engine
from nullblock.conformance.errors import InputError
from nullblock.conformance.lockstep.beside import Document, Ran, Subject, limited
from nullblock.conformance.lockstep.taped_states import StateTape
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.trace.configured import has_grammars, has_sessions, header
from nullblock.conformance.trace.tape import Tape
from nullblock.conformance.trace.writer import trace_file
from nullblock.spec.catalogue import catalogue
from nullblock.spec.profiles import Semantics

PATIENCE = 2.0
"""Seconds after which an engine counts as hanging in a small scenario."""
BY_PATH: tuple[tuple[str, str], ...] = (
    ("preempted", "PREEMPT-1"),
    ("order", "OUT-1"),
    ("spec", "OUT-11"),
    ("drafted", "DRAFT-6"),
    ("num_scheduled_tokens", "RUN-2"),
    ("total", "RUN-11"),
    ("new", "WAIT-9"),
    ("cached", "OUT-5"),
    ("finished", "OUT-6"),
    ("num_common_prefix_blocks", "OUT-4"),
    ("new_token_ids", "OUT-2"),
    ("outputs", "UPD-3"),
    ("sampled", "UPD-1"),
    ("kv_events", "OUT-8"),
    ("aborted", "LIFE-4"),
    ("ok", "LIFE-10"),
    ("state.free_queue", "QUEUE-10"),
    ("state.num_free", "QUEUE-4"),
    ("state.ref_cnt", "POOL-2"),
    ("state.block_hash", "HASH-12"),
    ("state.cached_map", "HASH-10"),
    ("state.running", "RUN-22"),
    ("state.waiting", "WAIT-1"),
    ("state.finished_req_ids", "LIFE-6"),
    ("state.requests", "LIFE-12"),
)
"""The rule for a difference that a trace cannot tell, by where it stands."""
OF_REQUESTS = {
    "computed": "UPD-1",
    "tokens": "UPD-3",
    "output": "UPD-3",
    "placeholders": "UPD-19",
    "discard": "UPD-18",
    "preemptions": "PREEMPT-4",
    "blocks": "POOL-10",
    "num_cached_block": "HASH-12",
    "spec": "DRAFT-7",
}
AT_EVENT = {("update", "computed"): "DRAFT-8", ("schedule", "spec"): "DRAFT-3"}
"""Of those the ones that have another rule where they differ first at such an event."""
_REQUEST = re.compile(r"^state\.requests\.(?P<id>.*)\.(?P<field>\w+)(\[\d+\])*$")
BY_EVENT = {
    "add": "LIFE-1",
    "schedule": "RUN-5",
    "update": "UPD-9",
    "abort": "LIFE-4",
    "reset_prefix_cache": "LIFE-8",
    "pause": "LIFE-7",
    "evict_blocks": "HASH-13",
    "draft": "DRAFT-7",
}
"""The first rule of what an engine was asked for, where nothing else places a difference."""


@dataclass(frozen=True, slots=True)
class Why:
    """The rule that an engine does not follow, and the story."""

    rule: str | None
    """None: the engine raised, which breaks no rule that could be named."""
    what: str
    """Which decision."""
    step: int
    sentence: str
    source: str = ""
    expected: str = ""
    recorded: str = ""
    explanation: Explanation | None = None
    """None: a trace cannot tell this difference; the rule follows from where it stands."""


def explain(
    document: Document, ran: Ran, subject: Subject, semantics: Semantics, label: str
) -> Why:
    """Why an engine departs. `label`: what the semantics is called."""
    difference = ran.difference
    assert difference is not None
    with tempfile.TemporaryDirectory(prefix="nullblock-") as folder:
        path = Path(folder) / "run.jsonl"
        with suppress(InputError):
            record(document, subject, semantics, label, path)
        verdict = check(path, semantics, label, deep=False) if path.exists() else None
        if verdict is not None and verdict.verdict == "VIOLATION":
            return _of_a_trace(verdict, path, _entered(ran, difference), semantics, label)
    step = int(difference.event.rpartition(" ")[2]) if " " in difference.event else 0
    if not difference.path:
        return Why(None, f"{difference.event} raises", step, "")
    rule = _by_path(difference)
    statement = next(s for s in catalogue() if s.id == rule)
    return Why(rule, difference.path, step, statement.sentence)


def record(
    document: Document, subject: Subject, semantics: Semantics, label: str, path: Path
) -> None:
    """Write the trace of the engine in that scenario, up to what it raises."""
    taken: Scenario = scenario.from_dict(document)
    engine: Engine = subject.make(taken.config, semantics)
    kind: type[Tape] = StateTape if subject.shows == "full" else Tape
    with trace_file(path) as writer:
        told = subject.short, version("nullblock"), label, semantics
        writer.write(
            header(
                taken.config,
                *told,
                grammars=has_grammars(taken),
                sessions=has_sessions(taken),
            )
        )
        tagged = semantics.extra_keys_tagged
        tape: Any = kind(engine, taken, writer.write, tagged_keys=tagged, semantics=semantics)
        with limited(PATIENCE):
            deque(driver.run(taken, tape, dump="none"), maxlen=0)


def _entered(ran: Ran, difference: Difference) -> list[bool]:
    """Of the requests that the rules schedule where the two part, which ones had waited."""
    line = json.loads(ran.rules[difference.line - 1])
    if line["ev"] != "schedule":
        return []
    known = {one["id"] for one in line["cached"] if not one["resumed"]}
    return [id not in known for id in line["order"]]


def _of_a_trace(
    verdict: Verdict, path: Path, entered: list[bool], semantics: Semantics, label: str
) -> Why:
    first, replay = verdict.first, verdict.replay
    assert first is not None and first.mismatch is not None and replay is not None
    mismatch = _refined(first.mismatch, entered, replay.s)
    last = tuple(verdict.last)[-BEFORE - 1 : -1]
    at = (path, first.line, first.file, first.step)
    case = story.Case(mismatch, replay, semantics, label, *at, last)
    told = story.explain(case)
    return Why(
        mismatch.rule,
        mismatch.what,
        first.step,
        told.sentence,
        told.source,
        told.expected,
        told.recorded,
        told,
    )


def _refined(m: Mismatch, entered: list[bool], s: Any) -> Mismatch:
    """A rule closer to the cause, where a state shows it."""
    both = (m.expected, m.actual)
    if m.rule == "QUEUE-10" and all(isinstance(queue, list) for queue in both):
        ours, theirs = map(list, both)
        moved = [b for b, c in zip(ours, theirs, strict=False) if b != c]
        back = ours[len(ours) - len(moved) :]
        # Only the end differs, and only in its order: what was freed last, in another order.
        if sorted(ours) == sorted(theirs) and sorted(moved) == sorted(back):
            return replace(m, rule="POOL-12", what="the order in which blocks were freed")
        if sorted(ours) == sorted(theirs) and moved:
            return replace(m, rule="POOL-12", what="where freed blocks queue")
    if m.rule == "HASH-12" and m.request is None:  # of the pool, not of a request's table
        blocks = [[block for block, _ in pairs] for pairs in both]
        if blocks[0] == blocks[1]:
            return replace(m, rule="HASH-1", what="what the cached blocks stand for")
    if m.rule == "OUT-1" and all(isinstance(order, list) for order in both):
        parts = [new for new, a, b in zip(entered, *both, strict=False) if a != b]
        if parts and all(parts):
            return replace(m, rule="WAIT-1", what="the order in which requests enter")
    lost = m.rule == "UPD-1" and m.request is not None and s.comp[m.request] == 0
    if lost and s.npre[m.request] and not s.tlen[m.request]:
        return replace(m, rule="PREEMPT-4")
    return m


def _by_path(difference: Difference) -> str:
    found = _REQUEST.match(difference.path)
    event = difference.event.partition(" ")[0]
    if found:
        field = found["field"]
        return AT_EVENT.get((event, field)) or OF_REQUESTS.get(field, "LIFE-12")
    for start, rule in BY_PATH:
        if difference.path.startswith(start):
            return rule
    return BY_EVENT.get(event, "RUN-5")
