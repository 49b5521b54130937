"""KV that other engines have computed: REMOTE-1 to REMOTE-39."""

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import compare, driver, scenario
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import OutOfScope
from nullblock.spec.fields import BOTH_WAYS, KEPT, LOAD, REMOTE, SEND, WAITING
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import events
from nullblock.spec.machine.remote import received, remote_holds, remote_looks, report_failed, sent
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0
from nullblock.spec.rules.loads import end_load
from nullblock.spec.rules.remote import await_load, give_back, start_over
from nullblock.spec.state import live

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

REMOTE_KV = replace(CONFIG, num_blocks=20, max_num_scheduled_tokens=20, connector=True)
ENDS = replace(REMOTE_KV, fail_failed_loads=True)


def holding(config: Any, prompt: int, remote: int, output: int = 4, **facts: Any) -> Any:
    """A state in which `a0` waits, of which the remote side holds so many tokens."""
    s = new_state(config)
    arrive(s, "a0", prompt, output, **facts)
    remote_holds(s, "a0", remote)
    return s


def released(config: Any) -> Any:
    """The same configuration as the release has it."""
    return replace(config, semantics=VLLM_0_22_1)


def test_a_load_within_the_step_counts_as_a_hit() -> None:
    """REMOTE-1, REMOTE-10: all but the last token at most, and once."""
    s = holding(REMOTE_KV, 6, 99)
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 5)]
    assert dict(out.num_scheduled_tokens) == {"a0": 1} and s.remote["a0"] == 0
    assert s.ncached["a0"] == 3


def test_a_load_over_several_steps_waits_outside_of_the_running_list() -> None:
    """REMOTE-3, REMOTE-12 to REMOTE-15, REMOTE-8, REMOTE-30, REMOTE-39: it computes nothing, its
    blocks are not cached, and it goes on when its turn finds that the load has ended.
    """
    s = holding(REMOTE_KV, 6, 99, loads_over_steps=True)
    out = step(s)
    assert out.num_scheduled_tokens == () and s.nr == 0
    assert (s.awaits["a0"], s.comp["a0"], s.tlen["a0"], s.ncached["a0"]) == (REMOTE, 6, 3, 0)
    assert received(s, "a0") and s.awaits["a0"] == REMOTE
    with pytest.raises(Disabled):
        await_load(s, "a0")
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 5)] and s.awaits["a0"] == 0
    assert not received(s, "a0")


def test_the_last_block_is_cached_when_its_last_token_is_computed_again() -> None:
    """REMOTE-14: in vllm-0.22.1 as soon as it is loaded."""
    for last, cached in ((True, 1), (False, 2)):
        sem = replace(NORMATIVE, last_block_cached_last=last)
        s = holding(
            replace(REMOTE_KV, max_loras=1, semantics=sem), 4, 4, loads_over_steps=True, adapter=1
        )
        arrive(s, "b1", 2, 4, adapter=2)
        step(s)
        assert received(s, "a0")
        step(s)
        assert s.stage["a0"] == WAITING and s.awaits["a0"] == 0
        assert (s.comp["a0"], s.ncached["a0"]) == (3, cached)


def test_a_remote_side_that_has_to_look_first_is_asked_again() -> None:
    """REMOTE-2, REMOTE-11: others run meanwhile."""
    s = holding(REMOTE_KV, 6, 4)
    remote_looks(s, "a0")
    arrive(s, "b1", 2, 4)
    assert [r for r, _ in step(s).num_scheduled_tokens] == ["b1"]
    remote_holds(s, "a0", 4)
    assert "a0" in dict(step(s).num_scheduled_tokens)


def test_blocks_are_kept_while_they_are_loaded_and_until_they_are_sent() -> None:
    """REMOTE-4, REMOTE-5, REMOTE-18, REMOTE-19, REMOTE-20, REMOTE-21, REMOTE-22, REMOTE-33,
    REMOTE-38: in vllm-0.22.1 the first report lets them go.
    """
    for apart in (True, False):
        sem = replace(NORMATIVE, transfers_end_apart=apart)
        s = holding(
            replace(REMOTE_KV, semantics=sem), 6, 4, loads_over_steps=True, delays_free=True
        )
        step(s)
        assert events.abort(s, "a0") and not events.abort(s, "a0")
        assert (s.stage["a0"], s.kept_for["a0"], s.tlen["a0"]) == (KEPT, BOTH_WAYS, 2)
        assert "a0" in s.finished and events.has_news(s)
        assert received(s, "a0")
        assert (s.tlen["a0"] > 0) == apart
        assert sent(s, "a0") == apart
        assert s.nfree == s.k.usable and not s.kept_for["a0"]
    assert LOAD + SEND == BOTH_WAYS


def test_what_arrived_of_a_load_stays_and_the_rest_is_computed() -> None:
    """REMOTE-6, REMOTE-7, REMOTE-23, REMOTE-24, REMOTE-26."""
    s = holding(REMOTE_KV, 8, 8, loads_over_steps=True)
    schedule(s)
    report_failed(s, [s.tab["a0", 2]])
    update_from_output(s)
    assert (s.comp["a0"], s.awaits["a0"]) == (4, REMOTE)
    received(s, "a0")
    assert dict(schedule(s).num_scheduled_tokens) == {"a0": 4}


def test_who_lost_all_gives_its_blocks_back_and_waits_anew() -> None:
    """REMOTE-16, REMOTE-17: and is looked up in the same step."""
    s = holding(REMOTE_KV, 8, 8, loads_over_steps=True)
    schedule(s)
    report_failed(s, [s.tab["a0", 0]])
    update_from_output(s)
    with pytest.raises(Disabled):
        give_back(s, "a0")
    received(s, "a0")
    out = schedule(s)
    assert [(q.id, q.computed) for q in out.new] == [("a0", 0)]


def test_who_runs_and_lacks_blocks_starts_over() -> None:
    """REMOTE-28, REMOTE-31, REMOTE-35, REMOTE-37: the sharer too, and nobody hits what was not
    loaded. In vllm-0.22.1 (REMOTE-25, REMOTE-27) the first of them computes it again in place.
    """
    s = holding(REMOTE_KV, 6, 4)
    schedule(s)
    b = s.tab["a0", 1]
    with pytest.raises(Disabled):
        start_over(s, 0)
    report_failed(s, [b])
    assert s.invalid[b] and s.hsh[b] is None
    update_from_output(s)
    assert (s.nr, s.comp["a0"], s.tlen["a0"], s.ntok["a0"], s.drop["a0"]) == (0, 0, 0, 6, 0)
    assert not s.invalid[b] and not s.seen and not s.missing
    s = holding(released(REMOTE_KV), 6, 4)
    schedule(s)
    report_failed(s, [s.tab["a0", 1]])
    update_from_output(s)
    assert (s.nr, s.comp["a0"], s.ntok["a0"], s.ncached["a0"]) == (1, 2, 6, 3)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_vector_of_blocks_that_were_not_loaded_is_none(asynchronous: bool) -> None:
    """REMOTE-28, UPD-19, UPD-51: it is owed no more, and made anew."""
    config = replace(REMOTE_KV, pooling=True, async_scheduling=asynchronous)
    s = holding(config, 6, 4, pooling=True)
    arrive(s, "b1", 4, 3)
    schedule(s)
    report_failed(s, [s.tab["a0", 1]])
    assert (s.ph["a0"], s.drop["a0"], s.ph["b1"]) == (0, 0, 1)
    assert all(holds(s) for holds in INVARIANTS.values())
    update_from_output(s)
    assert live(s, "a0") and s.nr == 1 and s.ntok["b1"] == 5
    step(s)
    assert not live(s, "a0")


def test_of_two_vectors_the_one_before_a_reset_is_as_good_as_ever() -> None:
    """REMOTE-28, UPD-51: what was made anew is none, and then what is being made anew is not
    there to be dropped.
    """
    config = replace(REMOTE_KV, pooling=True, async_scheduling=True)
    for budget in (20, 3):
        s = holding(replace(config, max_num_scheduled_tokens=budget), 6, 4, pooling=True)
        schedule(s)
        events.reset_prefix_cache(s, True)
        schedule(s)
        assert (s.drop["a0"], s.ph["a0"]) == (1, 1 if budget == 20 else 0)
        report_failed(s, [s.tab["a0", 0]])
        assert (s.drop["a0"], s.ph["a0"], s.nr) == (1, 0, 0)
        assert all(holds(s) for holds in INVARIANTS.values())
        update_from_output(s)
        assert not live(s, "a0")


def test_where_failed_loads_fail_requests_they_end_with_the_update() -> None:
    """REMOTE-29; in vllm-0.22.1 their hashes go together (REMOTE-34, REMOTE-36)."""
    for config in (ENDS, released(ENDS)):
        s = holding(config, 6, 4)
        schedule(s)
        blocks = [s.tab["a0", i] for i in range(3)]
        report_failed(s, [blocks[1]])
        update_from_output(s)
        assert not s.nr and s.nfree == s.k.usable and "a0" in s.finished
        assert [s.hsh[b] is None for b in blocks] == [False, True, True]


def test_a_load_ends_only_for_who_waits_for_it() -> None:
    """REMOTE-13, and reports of others are nobody's."""
    s = holding(REMOTE_KV, 6, 4)
    assert not received(s, "a0") and not sent(s, "a0")
    with pytest.raises(Disabled):
        end_load(s, "a0")


CROSS = {"type": "cross_attention"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"groups": [{"type": "full"}, CROSS], "enable_prefix_caching": False},
            "beside cross-attention",
        ),
        (
            {"groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 4}]},
            "takes the blocks of one group",
        ),
    ],
)
def test_what_nobody_has_shown_beside_a_connector_is_refused_by_name(
    more: dict[str, Any], said: str
) -> None:
    """One line says what, and why."""
    events_ = [{"op": "add", "id": "a", "prompt": list(range(9)), "max_tokens": 2}]
    document = {"config": {"connector": {"async": True}, **more}, "events": events_}
    with pytest.raises(OutOfScope, match=said):
        play(document, NORMATIVE)


@pytest.mark.parametrize(
    ("more", "add"),
    [
        ({"max_model_len": 8}, {}),
        ({}, {"prompt": []}),
        ({}, {"pooling": True}),
        ({"groups": [{"type": "sliding_window", "sliding_window": 4}]}, {"resumable": True}),
        ({"groups": [{"type": "mamba", "mamba_cache_mode": "all"}]}, {}),
        ({"groups": [{"type": "mamba", "mamba_cache_mode": "align"}]}, {}),
        ({"groups": [{"type": "sink", "sink_len": 16}]}, {}),
    ],
    ids=[
        *("a prompt beyond max_model_len", "an empty one", "a vector", "a session with a window"),
        *("a state", "an aligned state", "a sink"),
    ],
)
@pytest.mark.parametrize("semantics", [VLLM_0_22_1, NORMATIVE], ids=["vllm-0.22.1", "normative"])
@pytest.mark.parametrize("over_steps", [True, False], ids=["over steps", "within one"])
def test_it_is_taken_beside_a_connector(
    more: dict[str, Any], add: dict[str, Any], semantics: Any, over_steps: bool
) -> None:
    """As the reference has it, to the end or the exception."""
    first = {"op": "add", "id": "a", "prompt": list(range(9)), "max_tokens": 2, **add}
    connector = {"matched": {"a": 9}, "async": over_steps, "delay_free": True}
    done = {"op": "kv_done", "recv": ["a"]} if over_steps else {"op": "step"}
    events_ = [first, {"op": "step"}, done, {"op": "step", "n": 6}]
    document = {"config": {"block_size": 4, "connector": connector, **more}, "events": events_}
    ours, theirs = (lines(document, semantics, engine) for engine in ("spec", "reference"))
    assert compare.first_difference(ours, theirs) is None


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
def test_a_report_of_the_null_block_concerns_whoever_has_it(semantics: Any) -> None:
    """Nobody loads into it: in normative it is refused by name, and vLLM computes the tokens again
    that nobody sees any more.
    """
    config = {
        "groups": [{"type": "sliding_window", "sliding_window": 4}],
        "connector": {"matched": {"a": 8}, "all_groups": True},
    }
    events_ = [
        {"op": "add", "id": "a", "prompt": list(range(40)), "max_tokens": 3},
        {"op": "step"},
        {"op": "kv_done", "invalid": [0]},
        {"op": "step"},
    ]
    document = {"config": config | {"block_size": 4}, "events": events_}
    ours, theirs = (lines(document, semantics, engine) for engine in ("spec", "reference"))
    assert compare.first_difference(ours, theirs) is None
    states = [json.loads(line)["state"]["requests"] for line in ours if '"state"' in line]
    computed = [state["a"]["computed"] for state in states if "a" in state]
    assert any(later < sooner for sooner, later in pairwise(computed))
    with pytest.raises(OutOfScope, match="the null block"):
        lines(document, NORMATIVE, "spec")


def lines(document: dict[str, Any], semantics: Any, engine: str) -> list[str]:
    """What an engine prints of a scenario."""
    taken = scenario.from_dict(document)
    return list(driver.run(taken, make_engine(engine, taken.config, semantics, "cpu")))


def play(document: dict[str, Any], semantics: Any) -> None:
    """Run a scenario on the specification."""
    lines(document, semantics, "spec")


ASKED_AGAIN = {
    "config": {
        **{"block_size": 1, "num_blocks": 7, "async_scheduling": True, "queue_depth": 3},
        "connector": {"matched": {"b3": 4, "a7": 5}, "async": ["b3", "a4", "a7"]},
    },
    "events": [
        {"op": "add", "id": "b3", "prompt": [1000, 0, 0], "max_tokens": 4},
        {"op": "add", "id": "a4", "prompt": [1000, 1001, 0], "max_tokens": 2},
        {"op": "add", "id": "h5", "prompt": [2000], "max_tokens": 2},
        {"op": "add", "id": "a7", "prompt": [2], "max_tokens": 1},
        {"op": "step"},
        {"op": "kv_done", "recv": ["b3"]},
        *[{"op": "step"}] * 6,
        {"op": "kv_match", "matched": {"b3": None}},
        *[{"op": "step"}] * 3,
    ],
}
"""In vllm-0.22.1 `b3` stops in the skipped queue, stays there, and is asked for again."""
OWED_NO_LONGER = {
    "config": {
        "block_size": 1,
        "connector": {"async": False, "delay_free": True, "failure_policy": "fail"},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": [1, 2, 3], "max_tokens": 1},
        {"op": "kv_done", "invalid": [3]},
        {"op": "step"},
    ],
}
"""Whoever ends for a failed load is shown, while its blocks are kept, without an output owed."""


@pytest.mark.parametrize(
    ("document", "profile"), [(ASKED_AGAIN, VLLM_0_22_1), (OWED_NO_LONGER, NORMATIVE)]
)
def test_specification_and_reference_are_one(document: dict[str, Any], profile: Any) -> None:
    """REMOTE-11 and REMOTE-29 where random scenarios once found them apart."""
    given = scenario.from_dict(document)
    ours = [
        list(driver.run(given, make_engine(name, given.config, profile)))
        for name in ("spec", "reference")
    ]
    assert compare.first_difference(*ours) is None
