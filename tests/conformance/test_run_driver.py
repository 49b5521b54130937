"""The driver: what it asks of an engine, and what it prints."""

import hashlib
import json
import zlib
from importlib import import_module
from typing import Any

import pytest
from fake_engine import FakeEngine

from nullblock.conformance import driver, scenario
from nullblock.conformance.engine import ALL_FEATURES, Dump, Feature, Fields, NewRequest
from nullblock.conformance.engines import EngineName, make_engine
from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.spec.profiles import profile

ADD: dict[str, Any] = {"op": "add", "id": "a", "prompt": {"range": [0, 3]}, "max_tokens": 3}


def run(engine: Any, *events: dict[str, Any], dump: Dump = "none", **config: Any) -> list[Any]:
    """The lines of these events, read back."""
    taken = scenario.from_dict({"config": config, "events": list(events)})
    return [json.loads(line) for line in driver.run(taken, engine, dump=dump)]


def kinds(lines: list[Any]) -> list[str]:
    """What the lines between header and trailer are."""
    assert (lines[0]["ev"], lines[-1]["ev"]) == ("header", "trailer")
    return [line["ev"] for line in lines[1:-1]]


def test_an_event_prints_the_lines_of_the_format() -> None:
    """Each event prints its own line, each half step one, and ``step``, ``run`` none besides."""
    lines = run(
        FakeEngine(),
        ADD,
        {"op": "step"},
        {"op": "schedule"},
        {"op": "update"},
        {"op": "drain"},
        {"op": "run"},
        {"op": "pause", "state": "PAUSED_NEW"},
        {"op": "evict_blocks", "ids": [1]},
        {"op": "reset_prefix_cache"},
        {"op": "abort", "ids": ["zz"]},
    )
    halves = ["schedule", "update"]
    events = ["pause", "evict_blocks", "reset_prefix_cache", "abort"]
    assert kinds(lines) == ["add", *halves, *halves, *halves, *events]
    assert lines[1] == {"ev": "add", "n": 0, "id": "a"}
    assert lines[2] == {"ev": "schedule", "step": 1, "order": ["a"], "total": 1, "state": None}
    assert lines[8] == {"ev": "pause", "n": 6, "id": None}
    assert lines[10] == {"ev": "reset_prefix_cache", "n": 8, "ok": False, "state": None}
    assert lines[11] == {"ev": "abort", "n": 9, "aborted": [], "state": None}


def test_the_trailer_digests_the_lines_before_it() -> None:
    """The trailer counts the lines before it and holds their SHA-256, joined by line ends."""
    taken = scenario.from_dict({"events": [ADD, {"op": "run"}]})
    *lines, trailer = driver.run(taken, FakeEngine())
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert json.loads(trailer) == {"ev": "trailer", "lines": len(lines), "sha256": digest}


def test_the_model_samples_by_seed_id_and_position() -> None:
    """A sampled token is the checksum of seed, id and position, modulo the vocabulary."""
    lines = run(FakeEngine(), ADD, {"op": "run"}, seed=5, vocab=50)
    sampled = [line["sampled"]["a"] for line in lines if line["ev"] == "update"]
    assert sampled == [[zlib.crc32(f"5:a:{at}".encode()) % 50] for at in (3, 4, 5)]


def test_the_model_samples_eos_from_where_it_is_told() -> None:
    """From output ``eos_at`` on the model samples ``eos``."""
    lines = run(FakeEngine(), ADD | {"eos": 77777, "eos_at": 1}, {"op": "run"})
    sampled = [line["sampled"]["a"] for line in lines if line["ev"] == "update"]
    assert [tokens == [77777] for tokens in sampled] == [False, True, True]


def test_a_reused_id_keeps_the_models_end_token() -> None:
    """The model goes by the id: a later request with it still ends where the first was told to."""
    first = ADD | {"eos": 77777, "eos_at": 0, "max_tokens": 1}
    lines = run(FakeEngine(), first, {"op": "run"}, ADD | {"max_tokens": 1}, {"op": "run"})
    assert lines[6]["sampled"] == {"a": [77777]}


def test_a_prefill_chunk_samples_nothing() -> None:
    """A request with tokens left to compute gets an empty list."""
    engine = FakeEngine()
    engine.chunk = True
    assert run(engine, ADD, {"op": "step"})[3]["sampled"] == {"a": []}


def test_a_request_that_is_gone_samples_nothing() -> None:
    """A request aborted while its step is in flight gets an empty list."""
    engine = FakeEngine()
    engine.update = lambda sampled: []  # type: ignore[method-assign]
    abort = {"op": "abort", "ids": None}
    lines = run(engine, ADD, {"op": "schedule"}, abort, {"op": "update"})
    assert lines[4]["sampled"] == {"a": []}


def test_the_engine_may_cut_the_lists_it_is_given() -> None:
    """The line shows what was sampled even if the engine empties its list."""
    assert run(FakeEngine(), ADD, {"op": "step"})[3]["sampled"]["a"] != []


def test_a_request_arrives_complete() -> None:
    """Defaults, the arrival by count and the written-out prompt reach the engine."""
    engine = FakeEngine()
    run(engine, ADD, ADD | {"id": "b", "lora": "", "salt": "s", "arrival": 7, "stop": [4]})
    first, second = (call[1] for call in engine.calls)
    assert first == NewRequest(
        id="a",
        prompt=[0, 1, 2],
        max_tokens=3,
        min_tokens=0,
        priority=0,
        arrival=1.0,
        lora=None,
        salt=None,
        stop=None,
        eos=None,
        skip_cache_read=None,
    )
    assert isinstance(second, NewRequest)
    assert (second.arrival, second.lora, second.salt, second.stop) == (7.0, None, "s", [4])


@pytest.mark.parametrize("raise_on", ["add", "schedule", "update", "pause", "abort"])
def test_what_the_engine_raises_is_a_line(raise_on: str) -> None:
    """An exception of the engine is the last line before the trailer, and no error."""
    pause, abort = {"op": "pause", "state": "UNPAUSED"}, {"op": "abort", "ids": None}
    lines = run(FakeEngine(raise_on), ADD, {"op": "step"}, pause, abort, {"op": "step"})
    assert kinds(lines)[-1] == "EXCEPTION"
    assert (lines[-2]["type"], lines[-2]["msg"]) == ("RuntimeError", f"{raise_on} on purpose")
    assert lines[-2]["where"][-1].startswith("fake_engine.py:")


def test_an_update_without_a_step_is_an_exception() -> None:
    """As in the driver of the real engine, an update with nothing in flight is an EXCEPTION."""
    assert kinds(run(FakeEngine(), ADD, {"op": "update"}, {"op": "step"})) == ["add", "EXCEPTION"]


def test_an_input_error_of_the_engine_is_the_users() -> None:
    """An engine may find the scenario out of scope: that is no observation."""
    engine = FakeEngine()

    def refuse() -> Any:
        raise OutOfScope("a feature")

    engine.schedule = refuse  # type: ignore[method-assign]
    with pytest.raises(OutOfScope):
        run(engine, ADD, {"op": "step"})


def test_a_mistake_of_the_driver_is_not_taken_for_the_engines() -> None:
    """Only what the engine raises becomes a line: anything else is a bug and must be seen."""
    engine = FakeEngine()
    engine.schedule = lambda: {"order": None}  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        run(engine, ADD, {"op": "step"})


def test_a_live_id_may_not_be_added_again() -> None:
    """Adding an id that is alive is an error of the scenario, with its place."""
    with pytest.raises(ScenarioError) as caught:
        run(FakeEngine(), ADD, {"op": "step"}, ADD)
    assert caught.value.place == "events[2].id"
    assert '"a"' in caught.value.what


def test_a_finished_id_may_be_added_again() -> None:
    """Once a request has ended its id is free."""
    assert kinds(run(FakeEngine(), ADD, {"op": "run"}, ADD))[-1] == "add"


@pytest.mark.parametrize("again", ["schedule", "step", "run"])
def test_an_engine_may_do_without_a_second_step_in_flight(again: str) -> None:
    """Whatever schedules while a step is in flight is refused then, by name and place."""
    engine = FakeEngine(features=ALL_FEATURES - {Feature.several_in_flight})
    with pytest.raises(OutOfScope, match="second step in flight") as caught:
        run(engine, ADD, {"op": "schedule"}, {"op": again})
    assert caught.value.place == "events[2]"


NEEDS: dict[str, dict[str, Any]] = {
    "async_scheduling": {"async_scheduling": True},
    "pipeline": {"pipeline_parallel_size": 2},
    "kv_events": {"kv_events": True},
    "mamba": {"groups": [{"type": "mamba"}]},
    "aligned_mamba": {"groups": [{"type": "mamba", "mamba_cache_mode": "align"}]},
    "sinks": {"groups": [{"type": "sink", "sink_len": 16}]},
    "cross_attention": {"groups": [{"type": "full"}, {"type": "cross_attention"}]},
    "encoder_decoder": {"encoder": {"is_encoder_decoder": True}},
    "hybrid": {"groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 8}]},
    "windows": {"groups": [{"type": "sliding_window", "sliding_window": 8}]},
    "block_sizes": {"groups": [{"type": "full", "block_size": 8}, {"type": "full"}]},
    "priority": {"policy": "priority"},
    "prefix_caching": {"enable_prefix_caching": True},
    "unchunked": {"enable_chunked_prefill": False},
    "silence": {"accept": [None]},
    "lora_cap": {"max_loras": 1},
    "kv_connector": {"connector": {"async": True}},
    "encoder_inputs": {"encoder": {}},
    "clients": {"include_finished_set": True},
    "v2_model_runner": {"use_v2_model_runner": True},
    "decode_ranks": {"decode_context_parallel_size": 2},
    "prefill_ranks": {"prefill_context_parallel_size": 2},
}
ASKS: dict[str, dict[str, Any]] = {
    "adapters": {**ADD, "salt": "s"},
    "stop_tokens": {**ADD, "eos": 1},
    "repetition": {**ADD, "repetition_detection": {"max_pattern_size": 1, "min_count": 2}},
    "abort": {"op": "abort", "ids": None},
    "pause": {"op": "pause", "state": "PAUSED_NEW"},
    "reset": {"op": "reset_prefix_cache"},
    "evict": {"op": "evict_blocks", "ids": [1]},
    "unchecked_input": {**ADD, "prompt": {"range": [0, 256]}},
    "streaming": {**ADD, "resumable": True},
    "structured_output": {**ADD, "grammar": {"ready": False}},
    "drafts": {"op": "draft", "tokens": {"a": [1]}},
    "prompt_embeds": {**ADD, "prompt_embeds": {"seed": 1}},
    "pooling": {**ADD, "pooling": True},
    "counts": {"op": "counts"},
}


WITH = {"cross_attention": {Feature.hybrid}, "encoder_decoder": {Feature.encoder_inputs}}
WITH |= {"aligned_mamba": {Feature.mamba}}
"""What a configuration that needs a feature cannot but need as well."""


@pytest.mark.parametrize("name", NEEDS)
def test_an_engine_may_do_without_a_feature(name: str) -> None:
    """A configuration that needs it is refused before anything runs, by name and place."""
    feature = Feature[name]
    (key,) = NEEDS[name]
    engine = FakeEngine(features=ALL_FEATURES - {feature})
    with pytest.raises(OutOfScope, match=feature.value) as caught:
        run(engine, ADD, **NEEDS[name])
    assert caught.value.place == f"config.{key}"
    assert not engine.calls
    least = {"enable_prefix_caching": False, **NEEDS[name]}
    engine = FakeEngine(features=frozenset({feature, *WITH.get(name, ())}))
    assert kinds(run(engine, ADD, **least))


@pytest.mark.parametrize("name", ASKS)
def test_an_engine_may_do_without_an_event(name: str) -> None:
    """An event that needs a feature is refused before anything runs, by name and place."""
    feature, engine = Feature[name], FakeEngine(features=ALL_FEATURES - {Feature[name]})
    with pytest.raises(OutOfScope, match=feature.value) as caught:
        run(engine, {"op": "step"}, ASKS[name])
    assert caught.value.place == "events[1]"
    assert not engine.calls
    engine = FakeEngine(features=frozenset({feature}))
    assert kinds(run(engine, ASKS[name], enable_prefix_caching=False))


def test_every_feature_can_be_refused() -> None:
    """No feature is named that nothing asks for."""
    assert {*NEEDS, *ASKS, "several_in_flight"} == {feature.name for feature in Feature}


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("name", NEEDS)
def test_an_engine_is_not_made_for_what_it_does_without(
    engine: EngineName, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an adapter does not list is refused with its engine's name; nothing is left out."""
    adapter = import_module(f"nullblock.conformance.adapters.{engine}")
    monkeypatch.setattr(adapter, "FEATURES", ALL_FEATURES - {Feature[name]})
    config = scenario.from_dict({"config": NEEDS[name], "events": []}).config
    with pytest.raises(OutOfScope, match=f"{Feature[name].value}.*{engine}"):
        make_engine(engine, config, profile("normative"))


def halves(lines: list[Any]) -> str:
    """The half steps in order: s1 is the first schedule, u1 its update."""
    kinds_of = {"schedule": "s", "update": "u"}
    return " ".join(f"{kinds_of[e['ev']]}{e['step']}" for e in lines if e["ev"] in kinds_of)


@pytest.mark.parametrize(
    ("depth", "order"),
    [
        (1, "s1 u1 s2 u2 s3 u3"),
        (2, "s1 s2 u1 s3 u2 u3"),
        (3, "s1 s2 s3 u1 u2 u3"),
        (0, "s1 u1 s2 u2 s3 u3"),
    ],
)
def test_asynchronously_a_step_is_a_turn_of_the_batch_queue(depth: int, order: str) -> None:
    """A turn schedules, and updates the oldest step once as many are in flight as may be."""

    class Ahead(FakeEngine):
        """Has three steps to schedule, and takes their updates when they come."""

        def schedule(self) -> Fields:
            self.left["a"] -= 1
            if self.left["a"] == 0:
                self.live.clear()
            return {"order": [], "total": 1}

    config = {"async_scheduling": True, "queue_depth": depth}
    assert halves(run(Ahead(), ADD, {"op": "run"}, **config)) == order


def test_asynchronously_a_step_with_nothing_to_schedule_updates() -> None:
    """Where nothing was scheduled the oldest step in flight returns, though the queue has room."""
    engine = FakeEngine()
    engine.schedule = lambda: {"order": [], "total": 0}  # type: ignore[method-assign]
    config = {"async_scheduling": True, "queue_depth": 4}
    assert halves(run(engine, ADD, {"op": "step"}, **config)) == "s1 u1"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_halves_may_be_several_ahead(asynchronous: bool) -> None:
    """Updates take the steps in their order, and ``drain`` takes all that are left."""
    events = [{"op": op} for op in ("schedule", "schedule", "update", "schedule", "drain")]
    lines = run(FakeEngine(), *events, async_scheduling=asynchronous)
    assert halves(lines) == "s1 s2 u1 s3 u2 u3"


def test_events_are_asked_for_at_updates_where_they_are_on() -> None:
    """The line of an update carries them; where they are off nobody asks."""
    engine = FakeEngine()
    (line,) = (e for e in run(engine, ADD, {"op": "step"}) if e["ev"] == "update")
    assert line["kv_events"] == [] and ("kv_events",) not in engine.calls
    on = run(engine, ADD | {"id": "b"}, {"op": "step"}, kv_events=True)
    (line,) = (e for e in on if e["ev"] == "update")
    assert line["kv_events"] == [{"t": "Asked"}] and engine.calls[-1] == ("kv_events",)


@pytest.mark.parametrize(
    ("adapter", "number"),
    [
        ({}, None),
        ({"lora": ""}, None),
        ({"lora": "X"}, 836),
        ({"lora": "X", "lora_id": 7}, 7),
        ({"lora": "X", "lora_id": None}, None),
    ],
)
def test_an_adapter_has_a_number(adapter: dict[str, Any], number: int | None) -> None:
    """The one that is written, or one that follows from its name."""
    engine = FakeEngine()
    run(engine, ADD | adapter)
    (request,) = (call[1] for call in engine.calls)
    assert isinstance(request, NewRequest) and request.lora_id == number


def test_run_ends_when_nothing_is_unfinished_or_at_its_limit() -> None:
    """``run`` takes as many steps as there is work for, and no more than it may."""
    assert kinds(run(FakeEngine(), ADD, {"op": "run"})).count("schedule") == 3
    assert kinds(run(FakeEngine(), ADD, {"op": "run", "max_steps": 2})).count("schedule") == 2
    assert kinds(run(FakeEngine(), {"op": "run"})) == []


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario that would step for ever is refused when it passes the limit."""
    monkeypatch.setattr(driver, "MAX_STEPS", 5)
    with pytest.raises(ScenarioError, match="more than 5 steps"):
        run(FakeEngine(), ADD | {"max_tokens": 99}, {"op": "step", "n": 6})


def test_the_dump_decides_how_much_state_is_asked_for() -> None:
    """``full`` and ``brief`` reach the engine; ``none`` is null."""
    dumps: list[Dump] = ["full", "brief", "none"]
    states = [run(FakeEngine(), ADD, {"op": "step"}, dump=dump)[2]["state"] for dump in dumps]
    assert states == [{"dump": "full"}, {"dump": "brief"}, None]


def test_several_aborts_take_an_order_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids aborted together go in the listed order, or in a set's where string hashes are fixed."""
    ids = [f"r{i}" for i in range(20)]
    monkeypatch.setattr(driver, "HASHES_ARE_FIXED", False)
    assert driver.abort_order([*ids, "r3"]) == ids
    monkeypatch.setattr(driver, "HASHES_ARE_FIXED", True)
    assert driver.abort_order(ids) == list(set(ids))
    assert driver.abort_order(None) is None


@pytest.mark.parametrize("name", EngineName)
def test_two_engines_with_different_hash_seeds_do_not_disturb_each_other(name: str) -> None:
    """Two engines stepped in turn print what each prints alone."""

    def lines(seed: str) -> Any:
        document = {
            "config": {"block_size": 1, "hash_seed": seed, "policy": "priority"},
            "events": [ADD, {"op": "step", "n": 2}, ADD | {"id": "b"}, {"op": "run"}],
        }
        taken = scenario.from_dict(document)
        engine = make_engine(name, taken.config, profile("vllm-0.22.1"))
        return driver.run(taken, engine)

    alone = [list(lines(seed)) for seed in ("0", "1")]
    together = zip(lines("0"), lines("1"), strict=True)
    assert [list(column) for column in zip(*together, strict=True)] == alone
