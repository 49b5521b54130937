"""The catalogue: IDs keep their meaning, and every rule fires and keeps the invariants."""

import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.catalogue import CATALOGUE, everything, register
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.facts import Encoder, Group, Request
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES, Disabled, require, rule
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import VLLM_0_22_1

sys.path.insert(0, str(Path(__file__).parent))
from statements import RETIRED, STATEMENTS  # noqa: E402  (a data file beside this one)
from world import CONFIG, arrive, new_state, observed, random_run, random_states  # noqa: E402


def test_ids_keep_their_meaning() -> None:
    """Every ID still names the definition that it was given to, and no retired one is back."""
    now = {s.id: s.definition.removeprefix("nullblock.spec.") for s in everything()}
    assert now == STATEMENTS
    assert not RETIRED & now.keys()


def test_an_id_is_never_given_twice() -> None:
    """A second definition under a used ID is refused, and so is a malformed ID."""

    def other() -> None:
        """Something else."""

    with pytest.raises(ValueError, match="POOL-1 is defined twice"):
        register("POOL-1", "clause", other)
    for bad in ("POOL-0", "POOL-01", "POOL", "FOO-1", "POOL-1 "):
        with pytest.raises(ValueError, match="is not FAMILY-n"):
            register(bad, "clause", other)
    assert CATALOGUE["POOL-1"].kind == "invariant"


RARE = {
    "uncache": "the explorer's PRIORITY scope has it as a witness",
    "withdraw_input": "vllm-0.22.1 has it, where ENC-31 does not hold: a test of the erased form",
    "hold_again": "vllm-0.32.0 has it: its recordings in tests/oracle",
    **dict.fromkeys(("put_off", "take_back", "hold_off"), "vllm-0.32.0 has it: its recordings"),
    "publish_end": "vllm-0.32.0 has it: tests/fuzz/test_second_line.py",
    "publish_again": "so it has this: conformance/vectors/aligned-state-cached-again.json",
    "give_room_again": "vllm-0.22.1 has it: tests/spec/test_cross.py",
    **dict.fromkeys(("order_heap", "pass_again"), "vllm-0.22.1 has it: tests/spec/test_heap.py"),
    "claim": "vllm-0.22.1 has it: below",
    "mark_lacking": "vllm-0.22.1 has it: below",
    "evict_lacking": "vllm-0.22.1 has it: below",
}
SCOPES = (
    *("sessions", "sessions-ahead", "rules-sessions", "sessions-hybrid", "clients"),
    *("loads", "sends", "lossy", "lossy-now", "lossy-now-ends", "rules-remote"),
    *("mamba-hybrid", "mamba-align", "rules-mamba-align"),
    *("remote-window", "remote-hybrid", "rules-cross", "two-loads", "loads-before-one"),
    *("hybrid-eagle", "silence", "items-loaded"),
)
"""Scopes whose random ways fire what the random runs have no world for: a client that sends
chunks, a remote side, Mamba layers, steps without a token, items that are loaded.
"""


FAILING = ("lossy-now-ends",)
"""Of those, where loads fail and nothing is asked: who is to end has gone back and still holds
blocks. The explorer asks later.
"""


def preempted_by_reset_then_finished() -> None:
    """The output of a request that a reset has preempted arrives, and is its last."""
    s = new_state()
    arrive(s, "a0", 3, 1)
    schedule(s)
    events.reset_prefix_cache(s, True)
    update_from_output(s)
    assert not s.nwait


def wander(name: str, seeds: int) -> None:
    """Random ways through a scope."""
    for seed in range(seeds):
        deque(random_states(STANDARD[name], seed, 200), maxlen=0)


def runs() -> dict[str, Callable[[], Any]]:
    """Random runs, by name: of a model of one group, of others, and ways through scopes."""
    found: dict[str, Callable[[], Any]] = {"reset": preempted_by_reset_then_finished}

    def add(what: str, seed: int, **settings: Any) -> None:
        found[f"{what}-{seed}"] = partial(random_run, seed, **settings)

    for seed in range(24):
        add("core", seed)
    for seed in range(4):
        add("pooling", seed, pooling=True, num_spec_tokens=0, grammars=False)
    for seed in range(8):
        window = Group(sliding_window=1 + seed % 4)
        chunk = Group(attention_chunk_size=2 + seed % 4)
        add("window", seed, groups=(window,), num_spec_tokens=0)
        add("chunk", seed, groups=(chunk,), num_spec_tokens=0)
        if seed < 2:
            # Dear: what is asked of tables is asked of each pair, and theirs of blocks.
            groups = (Group(), (window, chunk)[seed])
            add("hybrid", seed, groups=groups, spec_method="ngram", num_blocks=14)
        add("encoder", seed, encoder=Encoder(3, 3, seed % 4 == 0), num_blocks=14)
    for name in SCOPES:
        seeds = 2 if len(STANDARD[name].config.groups) > 1 else 4
        found[name] = partial(wander, name, seeds)
    return found


RUNS = runs()


@pytest.mark.parametrize("name", RUNS)
def test_a_random_run_keeps_the_invariants(name: str) -> None:
    """Every invariant holds after every rule that fires."""
    asked = 0

    def after(s: Any, id: str) -> None:
        nonlocal asked
        if s.k.fails_loads:
            return
        broken = [name for name, holds in INVARIANTS.items() if not holds(s)]
        assert not broken, f"{broken} after {id}"
        asked += 1

    observed(after, RUNS[name])
    assert bool(asked) is (name not in FAILING)


@pytest.fixture(scope="module")
def fired() -> Counter[str]:
    """How often each rule fires in the random runs."""
    count: Counter[str] = Counter()
    for run in RUNS.values():
        observed(lambda s, id: count.update((id,)), run)
    return count


@pytest.mark.parametrize("name", [name for name in RULES if name not in RARE])
def test_every_rule_fires(name: str, fired: Counter[str]) -> None:
    """No rule is dead but those in RARE: each fires in those runs."""
    assert fired[RULES[name].id] > 0


def test_what_only_vllm_0_22_1_has_fires_there() -> None:
    """REMOTE-25, REMOTE-34, REMOTE-36: what vllm-0.22.1 does instead of starting over."""
    ids: set[str] = set()
    scope = STANDARD["lossy-now-ends"]
    observed(
        lambda s, id: ids.add(id), lambda: deque(random_states(scope, 0, 400, VLLM_0_22_1), 0)
    )
    assert {RULES[name].id for name in ("claim", "mark_lacking", "evict_lacking")} <= ids


@pytest.mark.parametrize("name", RULES)
def test_a_rejected_rule_changes_nothing(name: str) -> None:
    """In the middle of a step, where nearly every guard fails, a rejected rule leaves the state
    as it was.
    """
    s = new_state(replace(CONFIG, encoder=Encoder(3, 4)))
    s.k.requests["nobody"] = Request("nobody", 1, 1)
    s.phase, s.planner = 99, "nobody"
    before = s.copy()
    arguments = {"R": "nobody", "T": "nobody", "B": 1, "I": 0}
    with pytest.raises(Disabled) as refused:
        RULES[name](s, *(arguments[sort] for sort in RULES[name].sorts))
    assert RULES[name].id in str(refused.value)
    assert all(getattr(s, f) == getattr(before, f) for f in s.__slots__ if f != "k")


def test_rule_names_are_unique() -> None:
    """Two rules of one name are refused, because the prover and the checker tell rules by name."""

    def adopt(s: Any) -> None:
        """Another rule of that name."""
        require(True, "always")

    unused = f"POOL-{max(int(i[5:]) for i in CATALOGUE if i.startswith('POOL-')) + 1}"
    with pytest.raises(ValueError, match="two rules are called adopt"):
        rule(unused)(adopt)
    del CATALOGUE[unused]


def test_what_is_left_to_do_depends_on_the_pause_state() -> None:
    """LIFE-16: who waits counts while nothing is paused, who runs unless everything is."""
    s = new_state(CONFIG)
    assert not events.unfinished(s)
    arrive(s, "a", 3, 2)
    told = []
    for state in (UNPAUSED, PAUSED_NEW, PAUSED_ALL):
        events.pause(s, state)
        told.append(bool(events.unfinished(s)))
    events.pause(s, UNPAUSED)
    schedule(s)
    for state in (UNPAUSED, PAUSED_NEW, PAUSED_ALL):
        events.pause(s, state)
        told.append(bool(events.unfinished(s)))
    assert told == [True, False, False, True, True, False]
