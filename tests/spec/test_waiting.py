"""Requests that wait for something else than their turn: WAIT-40 to WAIT-51, OUT-12, OUT-13,
UPD-54.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.fields import PAUSED_NEW, REJECTED, UNPAUSED, WAITING
from nullblock.spec.kernel import Broken, Disabled
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.rules.drafts import propose
from nullblock.spec.rules.lookup import begin_lookup
from nullblock.spec.rules.steps import begin_step, end_running
from nullblock.spec.rules.waiting import come, pass_by, promote
from nullblock.spec.state import head
from nullblock.spec.waiting import is_masked, masked_later

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, World, arrive, new_state, step  # noqa: E402  (a module beside this one)

GRAMMARS = replace(CONFIG, num_blocks=20, grammars=True)
ADAPTERS = replace(CONFIG, num_blocks=20, max_loras=1)


def running(s: Any) -> list[str]:
    """The running list."""
    return [s.run[i] for i in range(s.nr)]


def skipped(s: Any) -> list[str]:
    """The skipped queue, as FCFS has it."""
    return sorted((r for r in s.skip if s.skip[r]), key=lambda r: int(s.skip[r]))


def phase_of_waiting(s: Any) -> Any:
    """The state in the waiting phase of a step that has run nobody."""
    begin_step(s)
    end_running(s)
    return s


def test_whoever_awaits_a_grammar_is_passed_over_until_it_is_compiled() -> None:
    """WAIT-43 to WAIT-45: others run meanwhile; the grammar may be compiled with a step in flight,
    and nobody runs before the waiting phase has found it.
    """
    s = new_state(GRAMMARS)
    arrive(s, "a0", 3, 4, grammar=True)
    arrive(s, "b1", 3, 4)
    assert (skipped(s), s.nwait) == (["a0"], 2)
    schedule(s)
    assert (running(s), skipped(s)) == (["b1"], ["a0"])
    assert events.compiled(s, "a0") and not events.compiled(s, "a0")
    update_from_output(s)
    assert s.awaits["a0"] and s.stage["a0"] == WAITING
    step(s)
    assert (running(s), skipped(s), s.awaits["a0"]) == (["b1", "a0"], [], 0)


def test_a_compiled_grammar_is_found_only_when_its_turn_comes() -> None:
    """WAIT-44: while admissions are paused nothing is promoted."""
    s = new_state(GRAMMARS)
    arrive(s, "a0", 3, 4, grammar=True)
    events.compiled(s, "a0")
    events.pause(s, PAUSED_NEW)
    step(s)
    assert s.awaits["a0"] and skipped(s) == ["a0"]
    events.pause(s, UNPAUSED)
    step(s)
    assert running(s) == ["a0"]


def test_the_skipped_queue_is_served_first() -> None:
    """WAIT-40: under FCFS whoever was passed over overtakes those who arrived before it and were
    never looked at.
    """
    s = new_state(replace(ADAPTERS, max_num_seqs=2))
    for id, adapter in (("a0", 1), ("b1", 2), ("c2", 0), ("c3", 0), ("c4", 0)):
        arrive(s, id, 2, 2, adapter=adapter)
    step(s)
    assert (running(s), skipped(s)) == (["a0", "c2"], ["b1"])
    step(s)
    assert not running(s)
    step(s)
    assert running(s) == ["b1", "c3"]


def test_the_skipped_queue_keeps_its_order() -> None:
    """WAIT-45: who is passed over again keeps its place, who is passed over first goes behind."""
    s = new_state(replace(ADAPTERS, grammars=True))
    arrive(s, "a0", 2, 9, adapter=1)
    arrive(s, "b1", 2, 2, adapter=2)
    step(s)
    arrive(s, "c2", 2, 2, grammar=True)
    arrive(s, "b3", 2, 2, adapter=3)
    step(s)
    assert skipped(s) == ["b1", "c2", "b3"]
    step(s)
    assert skipped(s) == ["b1", "c2", "b3"]


def test_priority_asks_who_comes_first_in_either_queue() -> None:
    """WAIT-40: under PRIORITY the skipped queue has no precedence."""
    s = new_state(replace(GRAMMARS, policy="priority", max_num_seqs=1))
    arrive(s, "a0", 2, 2, grammar=True, priority=5)
    step(s)
    arrive(s, "b1", 2, 2, priority=1)
    arrive(s, "b2", 2, 2, priority=9)
    events.compiled(s, "a0")
    step(s)
    assert running(s) == ["b1"]
    step(s)
    step(s)
    assert running(s) == ["a0"]


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_adapters_run_than_may(most: int) -> None:
    """WAIT-41, WAIT-42, WAIT-49: requests that share an adapter share its place, who has none
    needs none, and a place is free again when the last one leaves.
    """
    s = new_state(replace(ADAPTERS, max_loras=most, max_num_seqs=9, max_num_scheduled_tokens=99))
    for n, adapter in enumerate((1, 2, 1, 0, 3, -1)):
        arrive(s, f"a{n}", 2, 2, adapter=adapter)
    step(s)
    assert running(s) == {1: ["a0", "a2", "a3"], 2: ["a0", "a1", "a2", "a3"]}[most]
    step(s)
    step(s)
    assert running(s) == {1: ["a1"], 2: ["a4", "a5"]}[most]


def test_a_pause_keeps_the_place_and_in_vllm_does_not() -> None:
    """WAIT-41: a running request whose output is in flight keeps its adapter's place. In
    vllm-0.22.1 another one takes it, and the step that computes both raises.
    """
    for keeps in (True, False):
        sem = replace(NORMATIVE, adapters_keep_places=keeps)
        s = new_state(replace(ADAPTERS, semantics=sem))
        arrive(s, "a0", 2, 4, adapter=1)
        arrive(s, "b1", 2, 4, adapter=2)
        schedule(s)
        schedule(s)
        assert running(s) == (["a0"] if keeps else ["a0", "b1"])
        update_from_output(s)
        update_from_output(s)
        if keeps:
            schedule(s)
        else:
            with pytest.raises(Broken, match="no more adapters run than there are places"):
                schedule(s)


def test_a_request_that_stops_leaves_the_skipped_queue_and_in_vllm_does_not() -> None:
    """UPD-6: a request that was preempted with its last output in flight, and then passed over, is
    gone once that has come. In vllm-0.22.1 it stays queued, and the step that would admit it
    raises.
    """
    for leaves in (True, False):
        sem = replace(NORMATIVE, stops_leave_every_queue=leaves)
        s = new_state(replace(ADAPTERS, semantics=sem))
        arrive(s, "a0", 2, 1, adapter=1)
        arrive(s, "b1", 2, 2, adapter=2)
        schedule(s)
        events.reset_prefix_cache(s, True)
        s.skip["b1"], s.sback = s.sback, s.sback + 1
        schedule(s)
        assert (running(s), skipped(s)) == (["b1"], ["a0"])
        update_from_output(s)
        assert skipped(s) == ([] if leaves else ["a0"])
        update_from_output(s)
        step(s)
        if leaves:
            assert (s.nr, s.nwait) == (0, 0)
        else:
            with pytest.raises(Disabled, match="it has not ended"):
                step(s)


def test_an_abort_leaves_the_skipped_queue() -> None:
    """LIFE-5: nothing is left of a request that is aborted while it awaits its grammar, and its id
    may be used again.
    """
    s = new_state(GRAMMARS)
    arrive(s, "a0", 2, 2, grammar=True)
    events.compiled(s, "a0")
    events.abort(s, "a0")
    assert (s.skip["a0"], s.awaits["a0"], s.came["a0"], s.nline) == (0, 0, 0, 0)
    arrive(s, "a0", 2, 2, grammar=True)
    step(s)
    assert not running(s)


class Refusing(World):
    """A grammar rejects every second token of a request."""

    def last_token(self, s: Any, r: str) -> int:
        return REJECTED if s.ntok[r] % 2 == 0 else super().last_token(s, r)


def test_a_rejected_token_ends_its_request() -> None:
    """UPD-54: whatever is left to compute, and whatever min_tokens says."""
    s = new_state(GRAMMARS)
    s.k = Refusing(GRAMMARS, checks=True)
    arrive(s, "a0", 2, 9, min_tokens=5, grammar=True)
    events.compiled(s, "a0")
    noted: list[int] = []
    s.k.note = lambda s, r, why: noted.append(why)
    step(s)
    step(s)
    assert noted == [0, 4] and s.nr == 0


class RefusingOnwards(World):
    """A grammar rejects the second output of a request, and what is behind it."""

    def last_token(self, s: Any, r: str) -> int:
        return REJECTED if s.ntok[r] >= self.prompt_len(r) + 2 else super().last_token(s, r)


def test_a_grammar_sees_an_output_as_a_whole() -> None:
    """UPD-54: what it rejects among drafts is taken, and so is what is behind it in the output, up
    to where the request stops; then it ends with an error.
    """
    for max_tokens, outputs in ((9, 4), (3, 3), (2, 2)):
        s = new_state(replace(GRAMMARS, num_spec_tokens=2))
        s.k = RefusingOnwards(s.k.config, checks=True)
        arrive(s, "a0", 2, max_tokens, grammar=True)
        events.compiled(s, "a0")
        noted: list[tuple[int, int]] = []
        s.k.note = lambda s, r, why, told=noted: told.append((why, s.ntok[r] - 2))
        step(s)
        propose(s, "a0", 2)
        step(s)
        assert noted == [(0, 1), (4, outputs)] and s.nr == 0


def test_masks_are_told_of_those_who_sample() -> None:
    """OUT-12, OUT-13: a chunk of a prefill needs no mask, and scheduling ahead an earlier token in
    flight has to be seen first.
    """
    s = new_state(replace(GRAMMARS, async_scheduling=True, max_num_scheduled_tokens=3))
    arrive(s, "a0", 5, 4, grammar=True)
    events.compiled(s, "a0")
    told = []
    for _ in range(3):
        first = s.nframe
        schedule(s)
        told += [(is_masked(s, i), masked_later(s, i)) for i in range(first, s.nframe)]
    assert told == [(False, False), (True, False), (True, True)]


def test_rules_of_waiting_keep_to_whose_turn_it_is() -> None:
    """WAIT-43 to WAIT-45, WAIT-6: each guard rejects what the machine would never do."""
    s = new_state(replace(GRAMMARS, max_loras=1))
    arrive(s, "a0", 2, 2, grammar=True)
    arrive(s, "b1", 2, 2)
    for rule, r, why in (
        (come, "b1", "a grammar that is not there"),
        (promote, "a0", "tries next"),
        (pass_by, "a0", "tries next"),
    ):
        with pytest.raises(Disabled, match=why):
            rule(s, r)
    phase_of_waiting(s)
    for rule, r, why in (
        (come, "a0", "between steps"),
        (begin_lookup, "a0", "nothing but its turn"),
        (promote, "a0", "which is there"),
        (pass_by, "b1", "tries next"),
    ):
        with pytest.raises(Disabled, match=why):
            rule(s, r)
    pass_by(s, "a0")
    assert head(s) == "b1"
    with pytest.raises(Disabled, match="waits for something else"):
        pass_by(s, "b1")
    with pytest.raises(Disabled, match="tries next"):
        pass_by(s, "a0")
    begin_lookup(s, "b1")


def test_what_came_is_not_passed_over() -> None:
    """WAIT-45: a request whose grammar is compiled is let go on before anything else is said."""
    s = new_state(replace(GRAMMARS, max_loras=1))
    arrive(s, "b0", 2, 9, adapter=2)
    step(s)
    arrive(s, "a1", 2, 2, grammar=True, adapter=1)
    events.compiled(s, "a1")
    begin_step(s)
    s.at = 1
    end_running(s)
    with pytest.raises(Disabled, match="what it awaits is not there"):
        pass_by(s, "a1")
    promote(s, "a1")
    with pytest.raises(Disabled, match="nothing but its turn"):
        begin_lookup(s, "a1")
    pass_by(s, "a1")


def test_an_id_that_is_still_queued_is_not_used_again() -> None:
    """LIFE-1: in vllm-0.22.1 a request that has ended may still stand in a queue."""
    s = new_state(ADAPTERS)
    arrive(s, "a0", 2, 2)
    s.stage["a0"] = 0
    with pytest.raises(Disabled, match="stands in no queue"):
        arrive(s, "a0", 2, 2)
