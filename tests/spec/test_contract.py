"""What workers and clients are told of a step, and requests of other kinds."""

import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, PREEMPTED, UNPAUSED
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.keys import embeds_in, extra_keys, told_keys
from nullblock.spec.machine import events
from nullblock.spec.machine.output import by_client
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.rules.pooling import take_vector
from nullblock.spec.rules.steps import begin_update
from nullblock.spec.state import live

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

CROWDED = replace(CONFIG, num_blocks=5, scheduler_reserve_full_isl=False)


def resumed(second_runner: bool) -> Any:
    """The step that resumes a request, with one that is new beside it."""
    s = new_state(replace(CROWDED, use_v2_model_runner=second_runner))
    arrive(s, "a0", 3, 4)
    arrive(s, "b1", 3, 4)
    while not s.npre["b1"]:
        step(s)
    events.abort(s, "a0")
    arrive(s, "c2", 1, 2)
    return step(s)


def test_a_resumed_request_is_known_to_the_first_runner() -> None:
    """OUT-5, OUT-16, OUT-17: with its whole table, and all its tokens again."""
    out = resumed(False)
    assert [(q.id, q.prefill) for q in out.new] == [("c2", None)]
    assert [(q.id, q.resumed, q.all_tokens) for q in out.cached] == [("b1", True, 5)]


def test_a_resumed_request_is_new_to_the_second_runner() -> None:
    """OUT-16, OUT-17: behind those that it has never seen, though it was admitted before them."""
    out = resumed(True)
    assert [r for r, _ in out.num_scheduled_tokens] == ["b1", "c2"]
    assert [(q.id, q.prefill) for q in out.new] == [("c2", 1), ("b1", 5)]
    assert not out.cached


@pytest.mark.parametrize("second_runner", [False, True])
def test_who_runs_on_is_told_alike(second_runner: bool) -> None:
    """OUT-5: the second runner knows who was scheduled before."""
    s = new_state(replace(CONFIG, use_v2_model_runner=second_runner))
    arrive(s, "a0", 3, 4)
    step(s)
    out = step(s)
    assert not out.new
    assert [(q.id, q.resumed, q.computed) for q in out.cached] == [("a0", False, 3)]


def test_unfinished_requests_are_counted_as_the_pause_has_it() -> None:
    """LIFE-16: one runs and one waits."""
    s = new_state(replace(CONFIG, max_num_seqs=1))
    arrive(s, "a0", 3, 4)
    arrive(s, "b1", 3, 4)
    step(s)
    counted = []
    for state in (UNPAUSED, PAUSED_NEW, PAUSED_ALL):
        events.pause(s, state)
        counted.append(events.num_unfinished(s))
    assert counted == [2, 1, 0]


def test_an_end_is_news_until_a_step_tells_it() -> None:
    """LIFE-18: there is no work left, and something to tell."""
    s = new_state(CONFIG)
    arrive(s, "a0", 3, 4)
    step(s)
    assert not events.has_news(s)
    events.abort(s, "a0")
    assert events.has_news(s) and not events.unfinished(s)
    schedule(s)
    assert not events.has_news(s)


def test_a_refusal_is_news_until_an_update_tells_it() -> None:
    """LIFE-18: the request is no request that there is work for."""
    s = new_state(CONFIG)
    arrive(s, "a0", 12, 4)
    assert events.has_news(s) and not events.unfinished(s)
    schedule(s)
    assert events.has_news(s)
    update_from_output(s)
    assert not events.has_news(s)


def test_each_client_is_told_of_the_ends_of_its_requests() -> None:
    """OUT-18, OUT-20: with the next update, once, whatever ended them; the others of nothing."""
    s = new_state(replace(CONFIG, include_finished_set=True))
    arrive(s, "a0", 3, 1, client=2)
    arrive(s, "b1", 3, 4, client=1)
    arrive(s, "c2", 3, 4, client=1)
    schedule(s)
    events.abort(s, "c2")
    assert INVARIANTS["OUT-20"](s)
    assert update_from_output(s) == {2: {"a0"}, 1: {"c2"}}
    schedule(s)
    assert update_from_output(s) == {}


def test_nobody_is_told_of_ends_unless_asked_for() -> None:
    """OUT-18."""
    s = new_state(CONFIG)
    arrive(s, "a0", 3, 1, client=2)
    schedule(s)
    assert update_from_output(s) is None and not s.ends


def test_outputs_go_to_one_client_after_the_other() -> None:
    """OUT-19: each in its order."""
    assert by_client([(1, "a"), (0, "b"), (1, "c"), (0, "d")]) == ["b", "d", "a", "c"]


def pooling(asynchronous: bool = False, **more: Any) -> Any:
    """A state of a world in which requests may want vectors."""
    return new_state(replace(CONFIG, pooling=True, async_scheduling=asynchronous, **more))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_vector_ends_its_request_once_its_prompt_is_computed(asynchronous: bool) -> None:
    """UPD-50, UPD-51: a chunk brings none, and an end token of others is none of its own."""
    s = pooling(asynchronous, max_num_scheduled_tokens=3)
    arrive(s, "e0", 4, 1, pooling=True)
    step(s)
    assert live(s, "e0") and s.ntok["e0"] == 4
    schedule(s)
    assert INVARIANTS["UPD-52"](s)
    update_from_output(s)
    assert not live(s, "e0") and not s.nr and s.nfree == s.k.usable


def test_a_vector_comes_to_whoever_was_preempted() -> None:
    """UPD-51, UPD-6: it leaves the queue, and computes its prompt no second time."""
    s = pooling()
    arrive(s, "a0", 3, 1, pooling=True)
    schedule(s)
    events.reset_prefix_cache(s, True)
    assert s.stage["a0"] == PREEMPTED
    update_from_output(s)
    assert not live(s, "a0") and not s.nwait


def test_a_reset_drops_tokens_and_no_vectors() -> None:
    """UPD-18, UPD-51: scheduling ahead, of two requests that a reset preempts."""
    s = pooling(True)
    arrive(s, "a0", 3, 1, pooling=True)
    arrive(s, "b1", 3, 4)
    schedule(s)
    events.reset_prefix_cache(s, True)
    assert (s.drop["a0"], s.drop["b1"]) == (1, 1)
    update_from_output(s)
    assert not live(s, "a0")
    assert live(s, "b1") and s.ntok["b1"] == 3


def test_a_vector_of_an_earlier_run_is_enough() -> None:
    """UPD-51, UPD-52: the step that makes it again is for nobody."""
    s = pooling(True)
    arrive(s, "a0", 3, 1, pooling=True)
    schedule(s)
    events.reset_prefix_cache(s, True)
    schedule(s)
    assert (s.drop["a0"], s.ph["a0"]) == (1, 1) and INVARIANTS["UPD-52"](s)
    update_from_output(s)
    assert not live(s, "a0")
    update_from_output(s)
    assert not s.nr and not s.nwait


def test_a_vector_is_taken_by_whom_it_was_made_for() -> None:
    """UPD-51: the guards name who is next, and that it wants one."""
    s = pooling()
    arrive(s, "a0", 3, 1, pooling=True)
    arrive(s, "b1", 3, 4)
    schedule(s)
    begin_update(s)
    with pytest.raises(Disabled, match="it is the next one"):
        take_vector(s, "b1")
    take_vector(s, "a0")
    with pytest.raises(Disabled, match="the request before is settled"):
        take_vector(s, "b1")


def test_who_wants_tokens_takes_no_vector() -> None:
    """UPD-50, UPD-51."""
    s = pooling()
    arrive(s, "b1", 3, 4)
    schedule(s)
    begin_update(s)
    with pytest.raises(Disabled, match="it wants a vector"):
        take_vector(s, "b1")


def test_embeddings_identify_the_blocks_that_they_stand_in() -> None:
    """HASH-23: each block by its own, in one digest; behind the prompt by that of nothing."""
    rows = [b"a", b"b", b"c"]
    assert embeds_in(rows, 0, 2) == (sha256(b"ab").digest(),)
    assert embeds_in(rows, 2, 4) == (sha256(b"c").digest(),)
    assert embeds_in(rows, 4, 6) == (sha256(b"").digest(),)
    assert embeds_in([], 0, 2) == (sha256(b"").digest(),)
    assert embeds_in(None, 0, 2) == ()


@pytest.mark.parametrize("semantics", [NORMATIVE, VLLM_0_22_1])
def test_embeddings_come_behind_all_other_keys(semantics: Any) -> None:
    """HASH-1, HASH-23: in letters where events tell them."""
    digest = embeds_in([b"a"], 0, 1)
    keys = extra_keys(semantics, "X", "Y", True, (("m", 0),), digest)
    assert told_keys(keys) == ["X", ("m", 0), "Y", digest[0].hex()]
