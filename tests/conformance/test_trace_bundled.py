"""The recording that comes with the package: whole, real, and as rich as its page says."""

import re
from collections import Counter
from pathlib import Path

from nullblock.conformance import bundled
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Header,
    Output,
    Pause,
    Removed,
    Reset,
    Schedule,
    Stored,
    Update,
)

PAGE = Path(bundled.__file__).with_name("README.md")


def counts() -> Counter[str]:
    """What is in the trace, by the words of its page."""
    found: Counter[str] = Counter()
    for located in TraceReader(bundled.TRACE):
        match located.record:
            case Add():
                found["requests that arrived"] += 1
            case Schedule() as step:
                found["steps"] += 1
                found["that were admitted"] += len(step.new)
                found["first admissions"] += sum(new.computed > 0 for new in step.new)
                found["preemptions"] += len(step.preempted)
                assert step.state and step.state.num_running is not None
                found["most"] = max(found["most"], int(step.state.num_running))
                if step.cached:
                    computed = dict(zip(step.cached.ids, step.cached.computed or (), strict=True))
                    found["resumptions"] += len(step.cached.resumed)
                    hits = sum(computed[id] > 0 for id in step.cached.resumed)
                    found["resumptions with a prefix hit"] += hits
            case Output() as output:
                found["chunks"] += output.counts.count(0)
            case Update() as update:
                for end in update.finish:
                    found[f"{end.reason} {end.by_stop_id}"] += 1
            case Abort() as abort:
                found["aborts"] += len(abort.aborted or ())
            case Pause() | Reset():
                found["weight update"] += 1
            case _:
                pass
    return found


def test_the_page_says_what_is_in_the_trace() -> None:
    """Every count on the page that a trace shows by itself is right, and none of them is 0."""
    page, found = PAGE.read_text(), counts()
    rows = dict(re.findall(r"^\| (.*?) \| ([0-9, ]+) \|$", page, re.MULTILINE))
    numbers = {
        row: [int(n.replace(",", "")) for n in value.split(", ")] for row, value in rows.items()
    }
    for row, keys in {
        "requests that arrived, that were admitted": [
            "requests that arrived",
            "that were admitted",
        ],
        "first admissions and resumptions with a prefix hit": [
            "first admissions",
            "resumptions with a prefix hit",
        ],
        "prompt chunks that are not the last of their prompt": ["chunks"],
        "preemptions, resumptions (of those that the forced reset preempted, too)": [
            "preemptions",
            "resumptions",
        ],
        "ends by eos, by a stop id, at a length limit, by an abort": [
            "stop False",
            "stop True",
            "length False",
            "aborts",
        ],
        "most requests running at once": ["most"],
    }.items():
        assert numbers[row] == [found[key] for key in keys], row
        assert all(found[key] for key in keys), row
    assert found["weight update"] == 4
    assert f"{found['steps']:,} steps" in page


def test_it_was_recorded_from_the_real_engine_in_scope() -> None:
    """Its header names vLLM 0.22.1 and its scheduler class, exact block ids, and no feature."""
    for trace in (bundled.TRACE, bundled.CROWDED, bundled.AGENTS):
        _check_header(next(iter(TraceReader(trace))).record)


def _check_header(header: object) -> None:
    assert isinstance(header, Header)
    assert (header.engine.name, header.engine.version) == ("vllm", "0.22.1")
    assert header.engine.scheduler == "vllm.v1.core.sched.scheduler.Scheduler"
    assert (header.spec, header.block_ids, header.start) == ("vllm-0.22.1", "exact", "empty")
    assert header.features == [] and header.sealed


def agents() -> Counter[str]:
    """What is in the trace of agents, scheduled in step."""
    found: Counter[str] = Counter()
    prompts: dict[int, int] = {}
    for located in TraceReader(bundled.AGENTS):
        match located.record:
            case Add() as add:
                prompts[add.id] = add.prompt
            case Schedule() as step:
                found["steps"] += 1
                found["asked"] += sum(prompts[new.id] for new in step.new)
                found["hit"] += sum(new.computed for new in step.new)
                found["requests with a hit"] += sum(new.computed > 0 for new in step.new)
                found["preempted"] += len(step.preempted)
                found["resumed"] += len(step.cached.resumed) if step.cached else 0
            case Output() as output:
                found["chunks"] += output.counts.count(0)
            case Update() as update:
                assert isinstance(update.events, list)
                found["updates that tell"] += bool(update.events)
                found |= Counter({"most events": len(update.events)})
                for event in update.events:
                    found[type(event).__name__] += 1
                    if isinstance(event, Stored):
                        found["behind a parent"] += event.parent is not None
                        runs = [run for run in event.chain if not isinstance(run, int)]
                        assert len(runs) == len(event.chain)
                        found["blocks stored"] += sum(many for _, many in runs)
                    elif isinstance(event, Removed):
                        found["blocks removed"] += len(event.chain)
            case _:
                pass
    return found | Counter({"requests": len(prompts)})


def test_the_page_says_what_the_agents_did() -> None:
    """Requests, hits, evictions and preemptions of the synchronous trace, and its KV events."""
    said, found = " ".join(PAGE.read_text().split()), agents()
    assert f"{found['requests']} requests of coding agents in {found['steps']:,} steps" in said
    assert f"{100 * found['hit'] / found['asked']:.1f} % of the prompt tokens" in said
    assert f"({found['hit']:,} of {found['asked']:,})" in said
    assert f"{found['requests with a hit']} requests at their first admission" in said
    assert found["preempted"] == found["resumed"] > 0
    assert f"{found['preempted']} preemptions" in said
    assert f"{found['chunks']:,} chunks of prompts" in said
    for row in (
        f"`stored` | {found['Stored']:,} events, {found['blocks stored']:,} blocks; "
        f"{found['behind a parent']:,} go on behind a parent",
        f"`removed` | {found['Removed']:,} events, {found['blocks removed']:,} blocks",
    ):
        assert row in said
    assert f"{found['updates that tell']:,} of the {found['steps']:,} updates" in said
    assert f"at most {found['most events']:,} of them" in said
    assert not found["Cleared"] and bundled.AGENTS.stat().st_size < 300_000


def test_the_agents_trace_tells_all_events() -> None:
    """Its header says that KV events are recorded, of all updates."""
    header = next(iter(TraceReader(bundled.AGENTS))).record
    assert isinstance(header, Header) and header.observed.events == "complete"


def test_vllm_as_it_is_by_default_is_there() -> None:
    """Asynchronous scheduling of both workloads, two steps in flight, and as many as are told."""
    page = PAGE.read_text()
    for name in ("mooncake-async", "weka-agents-async"):
        trace = PAGE.with_name(f"{name}.jsonl.zst")
        header, steps, flying, deepest = None, 0, 0, 0
        for located in TraceReader(trace):
            record = located.record
            header = record if isinstance(record, Header) else header
            steps += isinstance(record, Schedule)
            flying += isinstance(record, Schedule) - isinstance(record, Update)
            deepest = max(deepest, flying)
        assert isinstance(header, Header) and header.features == []
        assert header.engine.scheduler == "vllm.v1.core.sched.async_scheduler.AsyncScheduler"
        assert header.config.async_scheduling and deepest == 2
        assert f"{steps:,} steps" in page and trace.stat().st_size < 2**19


def test_it_is_small_and_keeps_the_notices() -> None:
    """About a megabyte, with the source, the licence and the changes beside it."""
    assert bundled.TRACE.stat().st_size + bundled.CROWDED.stat().st_size < 2**20
    page = PAGE.read_text()
    assert "kv-cache-tester" in page and "94f6046d" in page
    for words in ("Apache License 2.0", "Mooncake", "FAST '25", "3b5a5941", "What was changed"):
        assert words in page
