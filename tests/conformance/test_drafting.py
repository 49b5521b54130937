"""Scenarios with drafts: what is read, what is refused, and what the driver's model does."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine

from nullblock.conformance import cli, driver, scenario
from nullblock.conformance.drafting import Proposer
from nullblock.conformance.engine import CORE_FEATURES
from nullblock.conformance.errors import InputError, OutOfScope
from nullblock.conformance.scenario_format import Config, Drafts
from nullblock.conformance.trace.tape import Tape

ADD: dict[str, Any] = {"op": "add", "id": "a", "prompt": [1, 2, 3], "max_tokens": 2}


class Alone(FakeEngine):
    """Every request has 10 tokens; of what is filled in for `a` and `b` it pads so many."""

    def __init__(self, **padded: int) -> None:
        super().__init__()
        self.padded = padded

    def fill_in(self, drafts: dict[str, list[int]]) -> dict[str, Any]:
        """As the test says."""
        return {**super().fill_in(drafts), "invalid": self.padded}

    def num_tokens(self, id: str) -> int | None:
        """None for one that is gone."""
        return None if id == "gone" else 10


def proposer(engine: FakeEngine, **config: Any) -> Proposer:
    """The model under a configuration."""
    return Proposer(Config(**config), engine)


@pytest.mark.parametrize(
    ("config", "events", "place", "what"),
    [
        ({"num_spec_tokens": -1}, [], "config.num_spec_tokens", ">= 0"),
        ({"num_spec_tokens": 2**17}, [], "config.num_spec_tokens", "<= 65536"),
        ({"num_spec_tokens": 1, "accept": []}, [], "config.accept", "empty list"),
        ({"accept": []}, [{"op": "draft", "tokens": {}}], "config.accept", "empty list"),
        ({"drafts": {"length": []}}, [], "config.drafts.length", ">= 1"),
        ({"drafts": {"length": [-1]}}, [], "config.drafts.length[0]", ">= 0"),
        ({"drafts": {"too": "all"}}, [], "config.drafts", "unknown key 'too'"),
        ({"drafts": None}, [], "config.drafts", "object"),
        ({}, [{"op": "draft"}], "events[0]", "'tokens' is missing"),
        ({}, [{"op": "draft", "tokens": {"a": 1}}], "events[0].tokens[...]", "array"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    config: dict[str, Any], events: list[Any], place: str, what: str
) -> None:
    """In one line, before anything runs."""
    with pytest.raises(InputError, match=what) as caught:
        scenario.from_dict({"config": config, "events": events})
    assert caught.value.place == place


def test_the_header_has_the_key_only_where_it_was_written() -> None:
    """Without it, it is the header of the driver of before."""
    for config in ({}, {"drafts": {"fill_in": True}}):
        taken = scenario.from_dict({"config": config, "events": []})
        assert taken.written_config.get("drafts") == config.get("drafts")


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"config": {"num_spec_tokens": 1}, "events": []}, True),
        ({"config": {"drafts": {}}, "events": []}, False),
        ({"events": [{"op": "draft", "tokens": {}}]}, False),
    ],
)
def test_an_engine_without_drafts_is_not_asked(document: dict[str, Any], told: bool) -> None:
    """The feature is named; nor can a trace tell of drafts that are not configured."""
    taken = scenario.from_dict(document)
    with pytest.raises(OutOfScope, match="speculative decoding"):
        list(driver.run(taken, FakeEngine(features=CORE_FEATURES)))
    tape = Tape(FakeEngine(), taken, lambda line: None, tagged_keys=False, names=False)
    with nullcontext() if told else pytest.raises(OutOfScope, match="speculative decoding"):
        list(driver.run(taken, tape))


@pytest.mark.parametrize(
    ("accept", "accepted"), [("all", [3, 3, 3]), ("none", [0, 0, 0]), ([0, 5, 2], [0, 3, 2])]
)
def test_the_model_accepts_what_the_scenario_says(accept: Any, accepted: list[int]) -> None:
    """One answer after another, and never more than there are."""
    model = proposer(Alone(), num_spec_tokens=3, accept=accept)
    model.scheduled(1, {"spec": {"a": [7, 8, 9]}})
    assert [model.num_accepted(1, "a") for _ in range(3)] == accepted
    assert model.num_accepted(1, "without") == 0 and model.num_draws == 3


def test_the_model_may_say_nothing() -> None:
    """Where it has drafts to verify: the request samples no token then."""
    model = proposer(Alone(), num_spec_tokens=1, accept=[None, 1])
    model.scheduled(1, {"spec": {"a": [7]}})
    assert [model.num_accepted(1, id) for id in ("a", "without", "a")] == [None, 0, 1]


def test_padding_is_never_accepted() -> None:
    """Of what was filled in only what the engine did not pad counts."""
    model = proposer(Alone(a=2), num_spec_tokens=3, accept="all")
    model.scheduled(1, {"spec": {"a": [-1, -1, -1], "b": [-1], "gone": [-1, -1]}})
    model.told({"a": [4], "b": [1, 2, 3], "gone": [], "unknown": [5]}, fill_in=True)
    assert [model.num_accepted(1, id) for id in ("a", "b", "gone")] == [1, 1, 2]


def test_drafts_go_to_the_newest_step_in_flight() -> None:
    """Not to the one that returns next."""
    model = proposer(Alone(a=2), num_spec_tokens=2, accept="all")
    for step in (1, 2):
        model.scheduled(step, {"spec": {"a": [-1, -1]}})
    model.told({"a": []}, fill_in=True)
    assert (model.num_accepted(1, "a"), model.num_accepted(2, "a")) == (2, 0)


@pytest.mark.parametrize(
    ("rules", "proposed"),
    [
        ({}, {"a": 2}),
        ({"to": "scheduled"}, {"a": 2, "chunk": 2, "gone": 2}),
        ({"length": [1, 0, 5], "to": "scheduled"}, {"a": 1, "chunk": 0, "gone": 5}),
        ({"length": "none"}, {}),
    ],
)
def test_the_drafts_that_follow_an_update(rules: dict[str, Any], proposed: dict[str, int]) -> None:
    """Who gets how many, and that the line tells them."""
    engine = Alone()
    model = proposer(engine, num_spec_tokens=2, drafts=Drafts(**rules))
    model.scheduled(1, {"spec": {}})
    told = model.updated(1, {"a": [5], "chunk": [], "gone": []})["drafted"]
    assert {id: len(tokens) for id, tokens in told["proposed"].items()} == proposed
    assert engine.calls == ([("propose", told["proposed"])] if proposed else [])


def test_scheduling_ahead_nobody_is_told() -> None:
    """Unless drafts are filled in, and then only while a step is in flight."""
    engine = Alone()
    for fill_in in (False, True):
        rules = Drafts(fill_in=fill_in)
        model = proposer(engine, num_spec_tokens=1, async_scheduling=True, drafts=rules)
        for step in (1, 2):
            model.scheduled(step, {"spec": {}})
        told = [model.updated(step, {"a": [5]})["drafted"] for step in (1, 2)]
        assert [bool(one["proposed"]) for one in told] == [fill_in, fill_in]
        assert [one["spec"] is not None for one in told] == [fill_in, False]
    assert [call[0] for call in engine.calls] == ["fill_in"]


def test_filling_in_with_nothing_in_flight_is_an_exception() -> None:
    """As in the driver of the real engine."""
    event = {"op": "draft", "tokens": {"a": [1]}, "fill_in": True}
    taken = scenario.from_dict({"events": [ADD, event]})
    lines = [json.loads(line) for line in driver.run(taken, FakeEngine())]
    assert lines[-2]["type"] == "IndexError"


def test_a_scenario_of_the_golden_ones_is_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    """``nullblock run`` plays it on the reference."""
    path = Path(__file__).parents[2] / "conformance" / "vectors" / "drafts-ahead.json"
    flags = ["--engine", "reference", "--profile", "vllm-0.22.1"]
    assert cli.main(["run", *flags, str(path)]) == 0
    assert '"spec":{"a":[-1,-1,-1]' in capfd.readouterr().out
