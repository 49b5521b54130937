"""Replays: the clock, who arrives when, what engines decide, and what is told of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workload_files
from workload_files import write

from nullblock.conformance.checker.check import check
from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import features_of
from nullblock.conformance.errors import InputError
from nullblock.conformance.replaying import configuration, summary
from nullblock.conformance.replaying.arrivals import Arrivals, Pace
from nullblock.conformance.replaying.clock import Clock, StepTime
from nullblock.conformance.replaying.engine import ReplayEngineName, Request
from nullblock.conformance.replaying.numbering import Numbering
from nullblock.conformance.replaying.run import Plan, Result, replay
from nullblock.conformance.replaying.seen import Seen
from nullblock.conformance.replaying.series import BINS, Distribution, Timeline
from nullblock.conformance.workloads.content import Content
from nullblock.conformance.workloads.session import Session, Turn
from nullblock.spec.profiles import profile

REQUESTS = 24
TIGHT = "vllm-sync,num_blocks=300,max_num_batched_tokens=512,max_num_seqs=8"
"""A pool in which the workloads of these tests are preempted and evicted."""


def plan(path: Path, engine: str, config: str = TIGHT, **more: Any) -> Plan:
    """A replay of a file."""
    pace = Pace(**more.pop("pace", {}))
    name = more.pop("profile", "vllm-0.22.1")
    fields: dict[str, Any] = {
        "workload": path,
        "format": None,
        "scale": 1,
        "shared_prefix": 0,
        "pace": pace,
        "step_time": StepTime(),
        "engine": ReplayEngineName(engine),
        "config": configuration.configuration(config),
        "semantics": profile(name),
        "profile": name,
    }
    return Plan(**fields | more)


def played(path: Path, engine: str, config: str = TIGHT, **more: Any) -> Result:
    """What comes of it."""
    return replay(plan(path, engine, config, **more), lambda figures: None)


def decisions(result: Result) -> dict[str, Any]:
    """What two engines have to agree on."""
    said = summary.as_json(result)
    return {key: said[key] for key in said if key not in ("engine", "profile", "trace", "wall")}


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A workload that the tight pool cannot hold."""
    return write(tmp_path / "crowded.jsonl", workload_files.mooncake(REQUESTS))


@pytest.mark.parametrize("name", ["normative", "vllm-0.22.1"])
@pytest.mark.parametrize("ends_by_eos", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_engines_agree_and_their_traces_conform(
    crowded: Path, tmp_path: Path, name: str, ends_by_eos: bool, policy: str
) -> None:
    """Engines give the same figures, and traces that the checker finds nothing wrong with."""
    found = []
    for engine in ("spec", "reference", "impl"):
        trace = tmp_path / f"{engine}.jsonl.zst"
        pace = {"ends_by_eos": ends_by_eos}
        config = f"{TIGHT},policy={policy}"
        found.append(played(crowded, engine, config, trace=trace, pace=pace, profile=name))
        verdict = check(trace, profile(name))
        assert verdict.verdict == "CONFORMS", verdict
    assert all(decisions(one) == decisions(found[0]) for one in found)
    totals = found[0].figures.totals
    assert totals.finished == REQUESTS
    # A case that shows nothing would agree about nothing.
    assert totals.preemptions and totals.evictions and totals.hit_tokens
    assert totals.recomputed_tokens


ASYNCHRONOUS = [
    name for name in ("spec", "reference", "impl") if Feature.async_scheduling in features_of(name)
]


@pytest.mark.parametrize("name", ["normative", "vllm-0.22.1"])
@pytest.mark.parametrize("ends_by_eos", [False, True])
@pytest.mark.parametrize("more", ["queue_depth=2", "queue_depth=3,policy=priority"])
def test_engines_agree_when_steps_are_in_flight(
    crowded: Path, tmp_path: Path, name: str, ends_by_eos: bool, more: str
) -> None:
    """Scheduling asynchronously, the engines that do give the same figures, and their traces
    conform."""
    config = f"{TIGHT.replace('vllm-sync', 'vllm')},{more}"
    found = []
    for engine in ASYNCHRONOUS:
        trace = tmp_path / f"{engine}.jsonl.zst"
        pace = {"ends_by_eos": ends_by_eos}
        found.append(played(crowded, engine, config, trace=trace, pace=pace, profile=name))
        verdict = check(trace, profile(name))
        assert verdict.verdict == "CONFORMS", verdict
    assert all(decisions(one) == decisions(found[0]) for one in found)
    totals = found[0].figures.totals
    assert totals.finished == REQUESTS and totals.preemptions and totals.hit_tokens


@pytest.mark.parametrize("format", list(workload_files.FILES))
def test_every_format_is_played_to_its_end(tmp_path: Path, format: str) -> None:
    """All requests of each format finish, with as many tokens as the workload says."""
    path = write(tmp_path / "w", workload_files.FILES[format]())
    result = played(path, "reference", pace={"users": 2})
    requests, tokens = _asked(path)
    totals = result.figures.totals
    assert (totals.arrived, totals.finished, result.unfinished) == (requests, requests, 0)
    # The last token of a request is sampled and never computed.
    assert totals.decode_tokens == tokens - requests
    assert totals.prefill_tokens + totals.hit_tokens == totals.looked_up_tokens


def _asked(path: Path) -> tuple[int, int]:
    from nullblock.conformance.workloads.formats import open_workload

    outputs = [t.output_length for s in open_workload(path).sessions for t in s.turns]
    return len(outputs), sum(outputs)


def test_a_replay_is_reproducible(crowded: Path, tmp_path: Path) -> None:
    """The same plan gives the same figures and the same bytes: no wall time decides."""
    traces = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    first, second = (decisions(played(crowded, "reference", trace=t)) for t in traces)
    assert first == second
    assert traces[0].read_bytes() == traces[1].read_bytes()


def test_what_a_prompt_shares_is_hit(tmp_path: Path) -> None:
    """The second of two equal prompts that come apart hits all of its full blocks but the last;
    with the cache off, nothing."""
    row = '"input_length": 1024, "output_length": 4, "hash_ids": [0, 1]}\n'
    path = write(tmp_path / "w", f'{{"timestamp": 0, {row}{{"timestamp": 9000, {row}')
    for caching, hits in ((True, 1008), (False, 0)):
        config = f"{TIGHT},enable_prefix_caching={str(caching).lower()}"
        for engine in ("spec", "reference"):
            totals = played(path, engine, config).figures.totals
            assert totals.hit_tokens == hits
            assert totals.hit_blocks == hits // 16
            assert totals.seen_tokens == 1023


def test_an_unlimited_cache_bounds_the_hit_rate(crowded: Path) -> None:
    """A pool that holds everything hits what had arrived before and was computed; never more."""
    large = played(crowded, "reference", "vllm-sync,num_blocks=100000", pace={"speed": 0.01})
    totals = large.figures.totals
    assert totals.evictions == 0
    # With everybody alone, only the last block of a prompt that is all seen is missed.
    assert totals.seen_tokens - 16 * totals.arrived <= totals.hit_tokens <= totals.seen_tokens


def test_too_long_requests_are_left_out_and_long_outputs_cut(tmp_path: Path) -> None:
    """What no engine of that size takes never reaches it, and that is told."""
    rows = [
        '{"timestamp": 0, "input_length": 512, "output_length": 900, "hash_ids": [0]}',
        '{"timestamp": 0, "input_length": 1024, "output_length": 3, "hash_ids": [0, 1]}',
    ]
    path = write(tmp_path / "w", "\n".join(rows))
    result = played(path, "reference", "vllm-sync,max_model_len=600")
    assert (result.too_long, result.shortened, result.figures.totals.finished) == (1, 1, 1)
    assert result.figures.totals.decode_tokens == 600 - 512 - 1
    assert any("1 requests are left out" in note for note in summary.notes(result))
    nobody = played(path, "reference", "vllm-sync,num_blocks=2")
    assert nobody.too_long == 2 and nobody.figures.totals.arrived == 0


def test_limit_and_seconds_cut_a_workload(crowded: Path) -> None:
    """--limit counts requests, --seconds looks at the clock."""
    assert played(crowded, "reference", pace={"limit": 7}).figures.totals.arrived == 7
    rows = crowded.read_text().splitlines()
    times = [json.loads(row)["timestamp"] for row in rows]
    early = sum(time <= 2000 for time in times)
    cut = played(crowded, "reference", pace={"seconds": 1.0, "speed": 2.0})
    assert 0 < cut.figures.totals.arrived == early < REQUESTS


def sessions(*more: Session) -> Iterator[Session]:
    """An iterator of sessions."""
    return iter(more)


def turn(delay: float = 0.0, *after: int) -> Turn:
    """A small request."""
    return Turn(Content(10, 64, ((0, 1),)), 2, after, delay)


def test_turns_wait_for_what_they_follow() -> None:
    """A turn arrives its delay after the last of those it waits for, in scaled time; a delay that
    is too long is cut."""
    session = Session((turn(), turn(4.0, 0), turn(1000.0, 0, 1)))
    arrivals = Arrivals(sessions(session), Pace(speed=2.0, max_think=60.0), 100)
    (first,) = arrivals.take(0.0)
    assert first.arrival == 0.0 and arrivals.next_time() is None
    arrivals.ended(first.number, 3.0)
    assert list(arrivals.take(4.9)) == []
    (second,) = arrivals.take(5.0)
    arrivals.ended(second.number, 7.0)
    assert arrivals.next_time() == 7.0 + 30.0


def test_only_so_many_users_at_once() -> None:
    """Sessions without times begin one gap apart, and wait for a user to be done."""
    three = [Session((turn(),)) for _ in range(3)]
    arrivals = Arrivals(sessions(*three), Pace(users=2, gap=5.0), 100)
    (first,) = arrivals.take(0.0)
    assert arrivals.next_time() == 5.0
    (second,) = arrivals.take(5.0)
    assert arrivals.next_time() is None
    arrivals.ended(second.number, 40.0)
    assert arrivals.next_time() == 40.0
    (third,) = arrivals.take(40.0)
    assert [r.number for r in (first, second, third)] == [0, 1, 2]
    assert third.arrival == 40.0


def test_what_is_left_out_keeps_nobody_waiting() -> None:
    """A turn that is too long for the engine counts as ended when it would have arrived."""
    long = Turn(Content(500, 64, ((0, 8),)), 2, (), 0.0)
    arrivals = Arrivals(sessions(Session((long, turn(1.0, 0)))), Pace(), 100)
    (request,) = arrivals.take(1.0)
    assert (request.arrival, arrivals.too_long) == (1.0, 1)


def test_steps_take_turns_on_the_device() -> None:
    """A step begins when it is scheduled or when the one before ends; an empty one is free."""
    clock = Clock(StepTime(1.0, 0.1))
    assert clock.start(10) == 2.0
    assert clock.start(5) == 3.5
    clock.advance(2.0)
    assert (clock.now, clock.start(0)) == (2.0, 3.5)
    clock.advance(10.0)
    assert clock.start(1) == 11.1


class Lying:
    """An engine that says it has work and does none."""

    def __init__(self, raises: bool = False) -> None:
        self.raises = raises

    def add(self, request: Request) -> None:
        """Take it."""
        if self.raises:
            raise ValueError("no")

    def schedule(self) -> dict[str, Any]:
        """Nothing."""
        empty: dict[str, Any] = {key: [] for key in ("new", "cached", "preempted", "finished")}
        return {"num_scheduled_tokens": {}, "total": 0, **empty}

    def update(self, sampled: dict[str, list[int]]) -> list[dict[str, Any]]:
        """Nothing."""
        return []

    def __getattr__(self, name: str) -> Any:
        return {"has_requests": lambda: True, "pool_use": lambda: None}.get(name, lambda *_: 0)


@pytest.mark.parametrize("raises", [False, True])
def test_an_engine_that_fails_ends_the_replay(
    crowded: Path, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    """An engine that serves nobody is stuck, one that raises has raised: no hang, no crash."""
    monkeypatch.setattr(
        "nullblock.conformance.replaying.run.make_engine", lambda *_: Lying(raises)
    )
    result = played(crowded, "reference")
    assert result.stuck != raises and (result.raised == "ValueError: no") == raises
    assert summary.end(result).startswith("the engine raised" if raises else "stuck")


def test_levels_are_weighed_by_time_however_long_it_goes_on() -> None:
    """A timeline keeps its sums when its stretches become longer, in bounded memory."""
    timeline = Timeline()
    total = 0.0
    for place in range(3000):
        begin = place * 1.7
        timeline.hold(begin, begin + 1.7, {"x": place % 7})
        timeline.at(begin).counts["n"] = timeline.at(begin).counts.get("n", 0) + 1
        total += place % 7 * 1.7
    assert len(timeline.bins) <= BINS
    assert sum(one.levels.get("x", 0.0) for one in timeline.bins) == pytest.approx(total)
    assert sum(one.counts.get("n", 0.0) for one in timeline.bins) == 3000
    assert sum(one.span for one in timeline.bins) == pytest.approx(3000 * 1.7)


def test_quantiles_are_one_per_cent_exact() -> None:
    """Shares and quantiles are those of the values, to within a bucket; nothing is lost."""
    distribution = Distribution()
    values = [0.0, *(1.01**n / 1000 for n in range(999))]
    for value in values:
        distribution.add(value)
    for share in (0.001, 0.1, 0.5, 0.99, 1.0):
        exact = sorted(values)[max(0, round(share * 1000) - 1)]
        found = distribution.quantile(share)
        assert found is not None and exact <= found * 1.0001 and found <= exact * 1.011 + 1e-9
    assert distribution.figures()["max"] == max(values)
    assert Distribution().quantile(0.5) is None


def test_what_was_seen_before_is_a_prefix() -> None:
    """As many tokens count as the prompt has in common with earlier ones, never the last one."""
    seen = Seen()
    assert seen.arrive(Content(1024, 512, ((0, 2),))) == 0
    assert seen.arrive(Content(1500, 512, ((0, 2), (9, 1)))) == 1024
    assert seen.arrive(Content(1024, 512, ((0, 2),))) == 1023
    assert seen.arrive(Content(10, 512, ((2**39, 1),))) == 0 and not seen.complete


def test_numbers_are_forgotten_when_nobody_can_tell() -> None:
    """A content keeps its number while it may be cached: until the request is gone and as many
    blocks as there are were given out since. What is numbered is counted without a gap."""
    numbering = Numbering(num_blocks=10, sweep_above=5)
    assert numbering.add("a", range(100, 106)) == [(0, 6)]
    assert numbering.add("b", [100, 101, 7]) == [(0, 2), (6, 1)]
    assert numbering.fresh() == 7
    numbering.remove("a")
    numbering.given_out = 9
    assert numbering.add("c", [105]) == [(5, 1)]
    numbering.remove("c")
    numbering.given_out = 10
    assert numbering.add("d", range(200, 215)) == [(8, 15)]
    assert numbering.add("e", [104, 105, 101]) == [(23, 1), (5, 1), (1, 1)]


def test_a_configuration_is_made_of_parts(tmp_path: Path) -> None:
    """Presets, files and single values follow one another; the last word counts."""
    json_file = write(tmp_path / "a.json", '{"config": {"num_blocks": 7, "block_size": 32}}')
    toml_file = write(tmp_path / "b.toml", "block_size = 64\npolicy = 'priority'\n")
    made = configuration.configuration(f"vllm-sync,{json_file},{toml_file},num_blocks=9")
    assert (made.num_blocks, made.block_size, made.policy) == (9, 64, "priority")
    assert made.max_num_seqs == 1024


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "num_blocks", "num_blocks=many", "blocks=7", "kv_events=true", "a=1,b=2"]
    + ["num_spec_tokens=2", "pipeline_parallel_size=2"],
)
def test_a_configuration_that_is_none_is_refused(text: str) -> None:
    """A mistake gets one line that names the option."""
    with pytest.raises(InputError) as caught:
        configuration.configuration(text)
    assert "--config" in str(caught.value) and "\n" not in str(caught.value)
