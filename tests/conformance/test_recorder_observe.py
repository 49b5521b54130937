"""A recording that tells less than it could: what is not known is named, and nobody is blamed."""

import json
from pathlib import Path
from typing import Any

import pytest
from altered import judge
from bases import UNCUT, Lines
from record_again import BEGUN, EVERY_THIRD, KEPT, record_all
from recorded_engine import engine, records, request
from test_recorded_again import NOT_KNOWN
from traces import documents, trace_of, unsealed

from nullblock.conformance.checker import check
from nullblock.conformance.trace.records import Evict, Header
from nullblock.spec.profiles import profile

OBSERVE = ("none", "counts", "events", "counts,events", "blocks", "blocks,counts", "all")
EVICTED = "which blocks were evicted"
NOT_TOLD = (EVICTED, "which blocks were not loaded", "of the state at step")
"""What a recording without blocks may lack."""

EVERY_CALL: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 24, "max_num_batched_tokens": 16, "kv_events": True},
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 9},
        {"op": "step", "n": 2},
        {"op": "evict_blocks", "ids": [1, 2]},
        {"op": "add", "id": "b", "prompt": {"range": [0, 9]}, "max_tokens": 12, "eos": 5},
        {"op": "step", "n": 2},
        {"op": "pause", "state": "PAUSED_NEW"},
        {"op": "add", "id": "c", "prompt": {"fill": 7, "n": 8}, "max_tokens": 20, "stop": [3]},
        {"op": "reset_prefix_cache"},
        {"op": "step"},
        {"op": "abort", "ids": ["b"]},
        {"op": "pause", "state": "UNPAUSED"},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "step", "n": 2},
        {"op": "evict_blocks", "ids": [3, 4, 5, 6]},
        {"op": "run", "max_steps": 60},
        {"op": "add", "id": "d", "prompt": {"range": [0, 13]}, "max_tokens": 9},
        {"op": "step", "n": 2},
        {"op": "abort", "ids": None},
        {"op": "step"},
    ],
}
"""Every call of an engine that has nothing besides, and evictions that cost hits."""


def scenarios() -> dict[str, dict[str, Any]]:
    """By name: this one, and those whose recordings are kept, which have all other calls: as they
    are, and with blocks that are evicted in the middle.
    """
    found = {"every-call": EVERY_CALL}
    for kept in (KEPT, BEGUN):
        for name, scenario in json.loads((kept / "scenarios.json").read_text()).items():
            events = scenario["events"]
            at = max(2 * len(events) // 3, scenario.get("recorded_from", 0) + 1)
            blocks = range(1, min(scenario["config"].get("num_blocks", 64), 5))
            evict = {"op": "evict_blocks", "ids": list(blocks)}
            evicting = [*events[:at], evict, *events[at:]]
            found[f"{kept.name}-{name}"] = scenario
            found[f"{kept.name}-{name}-evicting"] = scenario | {"events": evicting}
    return found


def called(name: str, observe: str) -> str:
    """The name of a recording."""
    return f"{name}@{observe.replace(',', '+')}"


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the real engine's recorder makes of each, whatever it may observe."""
    folder = tmp_path_factory.mktemp("observed")
    asked = {
        called(name, observe): scenario | {"observe": observe}
        for name, scenario in scenarios().items()
        for observe in OBSERVE
    }
    record_all(oracle_python, asked, folder, EVERY_THIRD)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("observe", OBSERVE)
def test_nobody_is_blamed_for_what_was_not_observed(recorded: Path, observe: str) -> None:
    """With block ids all conforms. Without, what depends on them is named, and only that; where
    nothing does, all conforms as well.
    """
    conforms = 0
    for name in scenarios():
        verdict = check(recorded / f"{called(name, observe)}.jsonl", profile("vllm-0.22.1"))
        begun = name.removeprefix("begun-").removesuffix("-evicting")
        lacks = NOT_TOLD if observe in OBSERVE[:4] else ()
        lacks += (NOT_KNOWN[begun],) if name.startswith("begun-") and begun in NOT_KNOWN else ()
        assert verdict.verdict == ("INCONCLUSIVE" if verdict.missing else "CONFORMS"), name
        assert all(any(why in what for why in lacks) for what in verdict.missing), name
        conforms += verdict.verdict == "CONFORMS"
        if name == "every-call":
            assert verdict.missing == ([EVICTED] if lacks else [])
    assert conforms > len(scenarios()) // 3


@pytest.mark.oracle
def test_every_kind_of_input_is_there(recorded: Path) -> None:
    """Together the scenarios have whatever a recorder can see."""
    kinds: set[str] = set()
    for name in scenarios():
        for line in (recorded / f"{called(name, 'all')}.jsonl").read_text().splitlines():
            kinds.add(json.loads(line)["ev"])
    assert kinds >= {
        *("add", "abort", "pause", "reset", "evict", "compiled", "reset_encoder_cache", "chunk"),
        *("session_end", "matched", "transfers", "draft", "output", "state", "error"),
    }


def evicting(**config: Any) -> Lines:
    """A trace in which an eviction costs a hit, unsealed."""
    scenario = UNCUT | {"config": UNCUT["config"] | config}
    return documents(unsealed(documents(trace_of(scenario))))


def without_blocks(lines: Lines) -> Lines:
    """What the recorder writes of these where it is not to tell blocks."""
    lines[0]["block_ids"] = "absent"
    for line in lines:
        if line["ev"] == "evict":
            line["blocks"] = []
    return without_tables(lines)


def without_tables(lines: Lines) -> Lines:
    """These without the blocks of any request."""
    for line in lines:
        for holder in (*line.get("new", ()), line.get("cached") or {}):
            holder.pop("blocks", None)
    return lines


def test_an_eviction_of_nobody_knows_what_ends_the_judging() -> None:
    """A hit that is shorter behind it is not the engine's fault; before it all is judged."""
    lines = evicting()
    whole, told = judge(lines), judge(without_blocks(lines))
    assert (whole.verdict, told.verdict, told.missing) == ("CONFORMS", "INCONCLUSIVE", [EVICTED])
    assert 0 < told.decisions < whole.decisions
    step = next(line for line in lines if line["ev"] == "schedule")
    step["tokens"][0] += 1
    assert judge(lines).verdict == "VIOLATION"  # which nothing that comes later takes back


def test_an_eviction_out_of_an_empty_cache_changes_nothing() -> None:
    """Whichever blocks were named: nothing was cached."""
    assert judge(without_blocks(evicting(enable_prefix_caching=False))).verdict == "CONFORMS"


@pytest.mark.parametrize("named", [True, False])
def test_a_renamed_block_that_no_table_told(named: bool) -> None:
    """Under names of its own a trace need not tell the tables: an eviction by a name that none has
    told may be of any block whose name is not known.
    """
    lines = evicting()
    lines[0]["block_ids"] = "opaque"
    verdict = judge(lines if named else without_tables(lines))
    assert verdict.verdict == ("CONFORMS" if named else "INCONCLUSIVE"), verdict.first
    assert verdict.missing == ([] if named else ["which block 1 is, which was evicted"])


@pytest.mark.parametrize("field", ["new", "cached"])
def test_a_step_that_lacks_block_ids_though_there_are_some(field: str) -> None:
    """Everybody who is new has a table, and a list of those who got blocks may be empty: what is
    left out was not observed, and is named. A wrong decision is wrong all the same.
    """
    lines = evicting()
    step = next(line for line in lines if field in line)
    holder = step["new"][0] if field == "new" else step["cached"]
    blocks = holder.pop("blocks")
    verdict = judge(lines)
    named = f"`{field}.blocks` of step {step['step']}, though `block_ids` is `exact`"
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", [named])
    holder["blocks"] = blocks
    assert judge(lines).verdict == "CONFORMS"
    del holder["blocks"]
    next(line for line in reversed(lines) if line["ev"] == "schedule")["tokens"][0] += 1
    assert judge(lines).verdict == "VIOLATION"


@pytest.mark.parametrize("observe", OBSERVE)
def test_the_recorder_itself(where: Path, monkeypatch: pytest.MonkeyPatch, observe: str) -> None:
    """Around the reference's scheduler: that there was an eviction is always recorded."""
    monkeypatch.setenv("NULLBLOCK_TRACE_OBSERVE", observe)
    made = engine()
    made.add(request("a", prompt=9))
    made.schedule()
    made.update({"a": [1]})
    made.evict_blocks([1, 2])
    made.add(request("b", prompt=9))
    made.schedule()
    made.scheduler.shutdown()
    tells = observe in OBSERVE[4:]
    header, *others = records(where)
    assert isinstance(header, Header)
    assert (header.observed.evict, header.block_ids == "exact") == ("complete", tells)
    assert [r.blocks for r in others if isinstance(r, Evict)] == [[1, 2] if tells else []]
    verdict = check(where, profile("vllm-0.22.1"))
    assert verdict.missing == ([] if tells else [EVICTED])
    assert verdict.verdict == ("CONFORMS" if tells else "INCONCLUSIVE")
