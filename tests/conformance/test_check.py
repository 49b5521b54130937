"""The verdict: what conforms, and that every decision is really looked at."""

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.trace import source
from nullblock.spec.catalogue import catalogue

Lines = list[dict[str, Any]]


def judge(lines: Lines, profile: str | None = None) -> Verdict:
    """The verdict on a trace of these lines, without a seal."""
    from nullblock.spec.profiles import PROFILES

    chosen = None if profile is None else PROFILES[profile]
    stream = io.BytesIO(unsealed(copy.deepcopy(lines)))
    return check(Path("trace"), chosen, profile or "", stream=stream)


@pytest.fixture(scope="module")
def recorded() -> Lines:
    """The first 1,500 steps that vLLM decided under the Mooncake workload."""
    with bundled.TRACE.open("rb") as stream:
        text = b"\n".join(source.lines(stream))
    lines = documents(text)
    last = next(i for i, line in enumerate(lines) if line.get("step") == 1500)
    return lines[:last]


@pytest.fixture(scope="module")
def busy() -> Lines:
    """A small trace with every kind of event."""
    return documents(trace_of(BUSY))


def test_the_real_vllm_conforms() -> None:
    """Every decision of the bundled recording is the rules' own, and most rules had a say."""
    verdict = check(bundled.TRACE)
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1")
    assert verdict.steps == 5000
    assert verdict.decisions > 10_000
    assert len(verdict.rules) == 34
    assert verdict.rules["PREEMPT-2"] == 135
    assert verdict.exit_code == 0


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("profile", ["normative", "vllm-0.22.1"])
def test_our_engines_conform(engine: str, profile: str) -> None:
    """A trace of an engine of ours conforms to the profile that it followed."""
    verdict = judge(documents(trace_of(BUSY, engine, profile)))
    assert (verdict.verdict, verdict.first) == ("CONFORMS", None)
    assert verdict.profile == profile


def first(lines: Lines, kind: str, suits: Callable[[Any], bool] = lambda line: True) -> int:
    """The index of the first record of a kind that suits."""
    found = (i for i, line in enumerate(lines) if line["ev"] == kind and suits(line))
    return next(found)


def has(*path: str) -> Callable[[Any], bool]:
    """Whether a record has something at that path."""

    def suits(line: Any) -> bool:
        for name in path:
            line = line.get(name) if isinstance(line, dict) else None
        return bool(line)

    return suits


def grown(line: Any) -> None:
    """One more token for the last one scheduled."""
    line["tokens"][-1] += 1


def decoding(line: Any) -> bool:
    """Somebody runs, and nobody enters."""
    return bool(line["ids"]) and not line.get("new") and line["tokens"][-1] == 1


def hit(line: Any) -> bool:
    """The first new request has a prefix hit."""
    return bool(line.get("new")) and line["new"][0]["computed"] > 0


def swap(values: list[Any]) -> None:
    """The first two members change places."""
    values[0], values[1] = values[1], values[0]


def several(line: Any) -> bool:
    """At least two are scheduled."""
    return len(line["ids"]) > 1


def drop_last(line: Any) -> None:
    """The last one scheduled is not."""
    line["ids"].pop()
    line["tokens"].pop()


def enter(line: Any) -> None:
    """A request that is not there is scheduled."""
    line["ids"].append(999)
    line["tokens"].append(1)


def unresumed(line: Any) -> None:
    line["cached"]["resumed"] = []


def block(groups: list[list[int]], at: int) -> None:
    """Another block, in place of the one there."""
    groups[0][at] += 1


ALTERATIONS: dict[str, tuple[str, str, Callable[[Any], bool], Callable[[Any], Any]]] = {
    "a decode gets a token too many": ("RUN-2", "schedule", decoding, grown),
    "a request is left out": ("RUN-4", "schedule", decoding, drop_last),
    "a stranger is scheduled": ("RUN-4", "schedule", decoding, enter),
    "the order is another": (
        "OUT-1",
        "schedule",
        several,
        lambda x: (swap(x["ids"]), swap(x["tokens"])),
    ),
    "a hit is longer": (
        "HASH-11",
        "schedule",
        hit,
        lambda x: x["new"][0].update(computed=x["new"][0]["computed"] + 16),
    ),
    "a hit is lost": ("HASH-11", "schedule", hit, lambda x: x["new"][0].update(computed=0)),
    "a hit is another block": (
        "HASH-10",
        "schedule",
        hit,
        lambda x: block(x["new"][0]["blocks"], 0),
    ),
    "a new block is another": (
        "POOL-10",
        "schedule",
        has("new"),
        lambda x: block(x["new"][-1]["blocks"], -1),
    ),
    "a table is short": (
        "POOL-10",
        "schedule",
        has("new"),
        lambda x: x["new"][0]["blocks"][0].pop(),
    ),
    "an added block is another": (
        "POOL-10",
        "schedule",
        has("cached", "blocks"),
        lambda x: block(x["cached"]["blocks"][0][1], 0),
    ),
    "nobody is new": ("WAIT-9", "schedule", has("new"), lambda x: x.pop("new")),
    "nobody is known": ("OUT-5", "schedule", has("cached"), lambda x: x.pop("cached")),
    "computed is one off": (
        "UPD-1",
        "schedule",
        decoding,
        lambda x: x["cached"]["computed"].__setitem__(0, x["cached"]["computed"][0] + 1),
    ),
    "output is one off": (
        "UPD-3",
        "schedule",
        decoding,
        lambda x: x["cached"]["num_output"].__setitem__(0, x["cached"]["num_output"][0] + 1),
    ),
    "tokens are sent again": (
        "OUT-3",
        "schedule",
        decoding,
        lambda x: x["cached"]["all_tokens"].append([x["ids"][0], 5]),
    ),
    "somebody is preempted": (
        "ALLOC-1",
        "schedule",
        decoding,
        lambda x: x.update(preempted=[x["ids"][0]]),
    ),
    "nobody is preempted": (
        "PREEMPT-2",
        "schedule",
        has("preempted"),
        lambda x: x.pop("preempted"),
    ),
    "another is preempted": (
        "PREEMPT-1",
        "schedule",
        has("preempted"),
        lambda x: x.update(preempted=[max(0, x["preempted"][0] - 1)]),
    ),
    "nobody is resumed": ("WAIT-9", "schedule", has("cached", "resumed"), unresumed),
    "somebody is finished": (
        "OUT-6",
        "schedule",
        decoding,
        lambda x: x.update(finished=[x["ids"][0]]),
    ),
    "nobody is finished": ("OUT-6", "schedule", has("finished"), lambda x: x.pop("finished")),
    "the common prefix is longer": (
        "OUT-4",
        "schedule",
        has("common_prefix"),
        lambda x: x["common_prefix"].__setitem__(0, x["common_prefix"][0] + 1),
    ),
    "fewer blocks are free": (
        "QUEUE-4",
        "schedule",
        has("state", "num_free"),
        lambda x: x["state"].update(num_free=x["state"]["num_free"] - 1),
    ),
    "more run": (
        "RUN-19",
        "schedule",
        has("state", "num_running"),
        lambda x: x["state"].update(num_running=x["state"]["num_running"] + 1),
    ),
    "more wait": (
        "WAIT-14",
        "schedule",
        has("state"),
        lambda x: x["state"].update(num_waiting=x["state"]["num_waiting"] + 1),
    ),
    "an output is lost": (
        "UPD-3",
        "update",
        has("ids"),
        lambda x: (x["ids"].pop(), x["tokens"].pop()),
    ),
    "an output is invented": (
        "UPD-2",
        "update",
        has("ids"),
        lambda x: (x["ids"].append(999), x["tokens"].append(1)),
    ),
    "two tokens come out": (
        "UPD-3",
        "update",
        has("ids"),
        lambda x: x["tokens"].__setitem__(0, 2),
    ),
    "outputs change places": ("UPD-9", "update", several, lambda x: swap(x["ids"])),
    "an end is missed": ("UPD-4", "update", has("finish"), lambda x: x.pop("finish")),
    "an end has another reason": (
        "UPD-4",
        "update",
        has("finish"),
        lambda x: x["finish"][0].update(reason="error"),
    ),
    "an end is a stop id's": (
        "UPD-4",
        "update",
        has("finish"),
        lambda x: x["finish"][0].update(by_stop_id=not x["finish"][0].get("by_stop_id", False)),
    ),
    "an end comes early": (
        "UPD-4",
        "update",
        lambda x: x["ids"] and not x.get("finish"),
        lambda x: x.update(finish=[{"id": x["ids"][0], "reason": "length"}]),
    ),
    "nobody is aborted": ("LIFE-4", "abort", has("aborted"), lambda x: x.update(aborted=[])),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_decision_is_a_violation_there(recorded: Lines, name: str) -> None:
    """One decision of the real recording is changed: VIOLATION on that line, by that rule."""
    rule, kind, suits, alter = ALTERATIONS[name]
    at = first(recorded, kind, suits)
    lines = copy.deepcopy(recorded[: at + 3])
    alter(lines[at])
    assert lines[at] != recorded[at]
    verdict = judge(lines)
    assert verdict.verdict == "VIOLATION", verdict
    assert verdict.first is not None
    assert (verdict.first.line, verdict.first.rule) == (at + 1, rule)
    assert verdict.first.step == max(
        line["step"] for line in lines[: at + 1] if line["ev"] == "schedule"
    )
    assert verdict.first.expected != verdict.first.actual
    assert verdict.first.rule in "\n".join(verdict.first.story)
    assert verdict.exit_code == 1


def test_the_unaltered_beginning_conforms(recorded: Lines) -> None:
    """What the alterations start from conforms: it is they that are noticed."""
    assert judge(recorded).verdict == "CONFORMS"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where there are numbers and truth values inside a record."""
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return [path] if isinstance(value, int) else []
    return [found for key, inner in items for found in numbers(inner, (*path, key))]


def changed(line: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """A record with one number changed, or one truth value turned."""
    line = copy.deepcopy(line)
    inside: Any = line
    for key in path[:-1]:
        inside = inside[key]
    old = inside[path[-1]]
    inside[path[-1]] = (not old) if isinstance(old, bool) else old + 1
    return line


DECISIONS = ("schedule", "update", "abort", "reset", "state")


def test_every_number_in_every_decision_counts(busy: Lines) -> None:
    """Whichever number of whichever decision changes, the trace does not conform, and the line
    that is named is that one.
    """
    rules, judged = {s.id for s in catalogue()}, 0
    for at, line in enumerate(busy):
        if line["ev"] not in DECISIONS:
            continue
        for path in numbers(line):
            if path in (("step",), ("reset_running",)) or path[0] == "asked":
                continue  # the order of records, and inputs
            lines = [*busy[:at], changed(line, path), *busy[at + 1 :]]
            verdict = judge(lines)
            assert verdict.verdict == "VIOLATION", (at, path)
            assert verdict.first is not None
            assert verdict.first.line == at + 1, (at, path)
            assert verdict.first.rule in rules
            judged += 1
    assert judged > 300


def test_a_departure_is_a_violation_of_normative() -> None:
    """vLLM lets an unservable request in; judged by the normative rules that is a violation."""
    scenario = {
        "config": {"block_size": 4, "num_blocks": 4, "max_num_batched_tokens": 8},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 100},
            {"op": "step", "n": 2},
        ],
    }
    lines = documents(trace_of(scenario, semantics="vllm-0.22.1"))
    assert judge(lines).verdict == "CONFORMS"
    verdict = judge(lines, "normative")
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "LIFE-2")
    assert verdict.profile == "normative"


def renamed(lines: Lines, name: Callable[[int], int]) -> Lines:
    """The trace with other block ids, and a header that says so."""
    lines = copy.deepcopy(lines)
    lines[0]["block_ids"] = "opaque"
    for line in lines:
        tables = [new["blocks"] for new in line.get("new", [])]
        tables += [pair[1] for pair in (line.get("cached") or {}).get("blocks", [])]
        for table in tables:
            table[0] = [name(b) for b in table[0]]
        if line["ev"] == "evict":
            line["blocks"] = [name(b) for b in line["blocks"]]
    return lines


def test_block_ids_may_be_renamed_one_to_one(busy: Lines) -> None:
    """Under a renaming a trace conforms; where two blocks share a name it does not."""
    assert judge(renamed(busy, lambda b: 1000 - 7 * b)).verdict == "CONFORMS"
    verdict = judge(renamed(busy, lambda b: 1 if b == 2 else b))
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "POOL-10")


def test_memory_holds_the_requests_alive_only(recorded: Lines) -> None:
    """After hundreds of requests the replay remembers those that have not ended."""
    from nullblock.conformance.checker.replay import Replay
    from nullblock.conformance.trace.reader import TraceReader
    from nullblock.spec.profiles import PROFILES
    from nullblock.spec.state import live

    stream = io.BytesIO(unsealed(copy.deepcopy(recorded)))
    records = (located.record for located in TraceReader(Path("trace"), stream=stream))
    replay = Replay(next(records), PROFILES["vllm-0.22.1"])  # type: ignore[arg-type]
    for record in records:
        replay.take(record)
    s = replay.s
    alive = {r for r in replay.k.requests if live(s, r)}
    assert set(replay.k.requests) - alive <= set(s.finished)
    assert {r for r, _ in s.tab} <= set(replay.k.requests)
    ended = [r for r in range(max(alive)) if r not in replay.k.requests]
    assert len(ended) > 50 and not any(r in s.npre or r in s.arr for r in ended)
