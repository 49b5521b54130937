"""A counterexample to an obligation, told: a state that satisfies every invariant, and a step
from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.concrete import State
from nullblock.spec.explorer.frame import frame
from nullblock.spec.explorer.reads import reads
from nullblock.spec.explorer.story import standing
from nullblock.spec.fields import (
    ADVANCE,
    BACK,
    DECIDED,
    FIELDS,
    IDLE,
    RESETTING,
    RUN_PHASE,
    UPDATE,
    WAIT_PHASE,
)
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Rule

PHASE = {
    IDLE: "between steps",
    RUN_PHASE: "the running phase",
    WAIT_PHASE: "the waiting phase",
    DECIDED: "decided",
    ADVANCE: "the advance",
    UPDATE: "the update",
    RESETTING: "a reset",
}
INDUCTION = (
    "a step from a state that satisfies every invariant; whether that state can be reached, "
    "nullblock explore tells"
)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A step that breaks an obligation, told by the fields that matter."""

    setting: str
    """The constants of the configuration."""
    before: tuple[str, ...]
    step: str
    """The rule and its arguments."""
    changes: tuple[str, ...]
    """The fields that the step wrote."""
    falls: str
    """What fell: an invariant with its sentence, or a guard."""
    values: tuple[str, ...]
    """The values with which it is false."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The story as text."""
        yield f"where:  {self.setting}"
        yield from (f"before: {line}" for line in self.before)
        yield f"step:   {self.step}"
        yield from (f"        {change}" for change in self.changes)
        yield f"falls:  {self.falls}"
        yield from (f"        {value}" for value in self.values)
        yield f"({INDUCTION})"


@dataclass(frozen=True, slots=True)
class Fallen:
    """What went wrong: the state after, and what it is that fell."""

    after: State
    what: str
    falls: str
    values: tuple[str, ...]


def told(s: State, rule: Rule, arguments: tuple[Any, ...], fell: Fallen) -> Counterexample:
    """A step that breaks something, as a story."""
    named = ", ".join(f"{_kind(sort)} {x}" for sort, x in zip(rule.sorts, arguments, strict=True))
    said = CATALOGUE[rule.id].sentence if rule.id in CATALOGUE else rule.name
    return Counterexample(
        setting(s),
        tuple(_before(s)),
        f"{rule.id} {rule.name}({named}): {said}",
        tuple(_changes(s, fell)),
        fell.falls,
        fell.values,
    )


def _kind(sort: str) -> str:
    return {"B": "block", "R": "request", "T": "request", "I": "number"}[sort]


def setting(s: State) -> str:
    """The constants of a configuration, in a line."""
    c = s.k.config
    parts = [
        f"{c.num_blocks - 1} blocks of {c.block_size} tokens",
        f"budget {c.max_num_scheduled_tokens}",
        f"at most {c.max_num_seqs} running",
        f"max_model_len {c.max_model_len}",
        c.policy,
    ]
    if c.long_prefill_token_threshold:
        parts.append(f"threshold {c.long_prefill_token_threshold}")
    for said, holds in (
        ("asynchronous", c.async_scheduling),
        ("no prefix caching", not c.enable_prefix_caching),
        ("no chunked prefill", not c.enable_chunked_prefill),
        ("whole sequences reserved", c.scheduler_reserve_full_isl),
    ):
        if holds:
            parts.append(said)
    return ", ".join(parts)


def _before(s: Any) -> Iterator[str]:
    """The state, and who is half-way."""
    yield standing(frame(s))
    half = [f"the phase is {PHASE[s.phase]}"]
    if s.leaving:
        held = " ".join(f"{b}*" if s.hsh[b] else str(b) for b in _table(s, s.leaver))
        where = "back to the queue" if s.leaving == BACK else "away"
        half.append(f"{s.leaver} [{held}] is on its way {where}")
    if s.asked:
        half.append(f"{s.actor} asks for {s.asked} tokens")
    if s.looking:
        half.append(f"{s.lr} is looked up: {s.nhit} hits, {s.na} adopted")
    if s.steps > s.oldest:
        flown = ", ".join(f"{s.frame[i]} {s.grant[i]}" for i in range(s.cur, s.nframe))
        half.append(f"in flight: {flown or 'nothing'}")
    yield "; ".join(half)
    for r, q in s.k.requests.items():
        if s.stage[r] or s.phase == 0:
            least = f", min_tokens {q.min_tokens}" if q.min_tokens else ""
            rank = f", priority {q.priority}" if s.k.priority else ""
            yield f"{r}: prompt {q.prompt_len}, max_tokens {q.max_tokens}{least}{rank}"


def _table(s: Any, r: Any) -> list[Any]:
    return [s.tab[r, i] for i in range(s.tlen[r])]


def _changes(before: State, fell: Fallen) -> Iterator[str]:
    """What the step wrote of what the fallen invariant reads."""
    after, statement = fell.after, INVARIANTS.get(fell.what)
    matters = FIELDS.keys() if statement is None else reads(statement)
    for f, sort in FIELDS.items():
        if f not in matters:
            continue
        was, now = getattr(before, f), getattr(after, f)
        if ">" not in sort:
            if was != now:
                yield f"{f} {_text(was)} -> {_text(now)}"
            continue
        for key in sorted(was.keys() | now.keys(), key=str):
            if was[key] != now[key]:
                at = ", ".join(map(str, key)) if isinstance(key, tuple) else key
                yield f"{f}[{at}] {_text(was[key])} -> {_text(now[key])}"


def _text(value: Any) -> str:
    match value:
        case frozenset():
            return "{" + ", ".join(sorted(map(str, value))) + "}"
        case None:
            return "none"
        case _:
            return str(value)
