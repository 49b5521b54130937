"""Every invariant can fail: for each, a reachable state that is damaged where it looks."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.facts import Chunk, Encoder, Group, Item, Request
from nullblock.spec.fields import (
    AWAY,
    BACK,
    IDLE,
    LEAVING,
    PAUSED_ALL,
    PAUSED_NEW,
    PREEMPTED,
    RUN_PHASE,
    RUNNING,
    UPDATE,
    WAIT_PHASE,
)
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import decide, schedule
from nullblock.spec.rules.drafts import propose

sys.path.insert(0, str(Path(__file__).parent))
from remote_scenes import (  # noqa: E402
    kept,
    loadable,
    loaded_step,
    loading,
    lose,
    shared_load,
    zeroing,
)
from world import CONFIG, arrive, new_state, put, step  # noqa: E402  (a module beside this one)


def busy() -> Any:
    """Three requests run, two share a block, one waits; all at rest between steps."""
    s = new_state()
    arrive(s, "a0", 4, 4)
    arrive(s, "a1", 4, 4)
    step(s)
    arrive(s, "b2", 3, 3)
    arrive(s, "b3", 3, 3)
    step(s)
    return s


def flying() -> Any:
    """Two steps are in flight, the second scheduled ahead; a0 is owed a token by both."""
    s = busy()
    s.k.asynchronous = True
    schedule(s)
    schedule(s)
    return s


def drafting() -> Any:
    """Two requests run with two drafts each, which an EAGLE-like method proposed."""
    s = new_state(replace(CONFIG, num_blocks=10, num_spec_tokens=2, spec_method="eagle"))
    arrive(s, "a0", 3, 6)
    arrive(s, "b1", 3, 6)
    step(s)
    for r in ("a0", "b1"):
        propose(s, r, 2)
    return s


def verifying() -> Any:
    """The same, with a step in flight that verifies the drafts."""
    s = drafting()
    schedule(s)
    return s


def windowed() -> Any:
    """A request runs whose layers see three tokens; the first of its blocks is null by now."""
    s = new_state(replace(CONFIG, groups=(Group(sliding_window=3),)))
    arrive(s, "a0", 7, 4)
    step(s)
    step(s)
    return s


def at_ends_of_steps() -> Any:
    """A request runs whose layers keep the states at ends of steps alone."""
    layers = Group(mamba=True, aligned=True)
    s = new_state(replace(CONFIG, groups=(layers,), mamba_split=2))
    arrive(s, "a0", 7, 4)
    step(s)
    return s


def attending() -> Any:
    """A request of an encoder-decoder model runs, which attends to two embeddings."""
    encoder = Encoder(4, 4, is_encoder_decoder=True)
    settings = {"enable_prefix_caching": False, "groups": (Group(), Group(cross=True))}
    s = new_state(replace(CONFIG, encoder=encoder, **settings))  # type: ignore[arg-type]
    arrive(s, "a0", 3, 4, items=(Item(1, 0, 2),))
    step(s)
    return s


def mixed() -> Any:
    """The same where other layers see all; another one like it waits."""
    s = new_state(replace(CONFIG, num_blocks=24, groups=(Group(), Group(sliding_window=3))))
    arrive(s, "a0", 7, 4)
    step(s)
    step(s)
    arrive(s, "a1", 7, 4)
    return s


def awaiting() -> Any:
    """Two requests wait for their grammars, one runs; at rest between steps."""
    s = new_state(replace(CONFIG, grammars=True))
    arrive(s, "a0", 3, 3, grammar=True)
    arrive(s, "b1", 3, 3, grammar=True)
    arrive(s, "c2", 3, 3)
    step(s)
    return s


def between_turns() -> Any:
    """A session waits for its next chunk, with its blocks; at rest between steps."""
    s = new_state(replace(CONFIG, sessions=True))
    arrive(s, "a0", 4, 1, resumable=True, chunks=(Chunk(2, 1),))
    step(s)
    return s


def seen_again() -> Any:
    """Another one like it waits, and its prefix was looked up: a hit behind a null block."""
    s = windowed()
    arrive(s, "a1", 7, 4)
    put(phase=WAIT_PHASE, looking=2, lr="a1", nhit=3, hit={0: 0, 1: 0, 2: s.tab["a0", 2]})(s)
    return s


def adapted() -> Any:
    """Two requests run with one adapter, the only one that may."""
    s = new_state(replace(CONFIG, max_loras=1))
    arrive(s, "a0", 3, 3, adapter=1)
    arrive(s, "a1", 3, 3, adapter=1)
    step(s)
    return s


def encoding() -> Any:
    """A step is decided that computes the two embeddings of a0's item, and four tokens of b1."""
    s = new_state(replace(CONFIG, encoder=Encoder(3, 4)))
    arrive(s, "a0", 4, 1, items=(Item(1, 0, 2),))
    arrive(s, "b1", 4, 1)
    decide(s)
    return s


def told() -> Any:
    """A request of the first client is gone, and no update has told so."""
    s = new_state(replace(CONFIG, include_finished_set=True))
    arrive(s, "a0", 3, 3)
    events.abort(s, "a0")
    return s


def pooling() -> Any:
    """A request that wants a vector runs, all of its prompt computed; the vector is in flight."""
    s = new_state(replace(CONFIG, pooling=True))
    arrive(s, "a0", 3, 1, pooling=True)
    schedule(s)
    return s


def idle() -> Any:
    """Everybody has finished; their blocks are free and still hashed."""
    s = busy()
    while s.nr or s.nwait:
        step(s)
    return s


def looking(s: Any) -> None:
    """A lookup for the waiting request b3, as if the waiting phase were open."""
    put(phase=WAIT_PHASE, looking=1, lr="b3", budget=3, limit=3, used=0)(s)


def after_looking(**fields: Any) -> Callable[[Any], None]:
    """Open a lookup, then set fields."""

    def change(s: Any) -> None:
        looking(s)
        put(**fields)(s)

    return change


def hashed_free(s: Any) -> int:
    """A free block with a hash that has a parent."""
    return next(b for b in s.hsh if s.hsh[b] and len(s.hsh[b]) > 1 and s.ref[b] == 0)


BREAKS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "POOL-1": (busy, put(ref={1: -1})),
    "POOL-2": (busy, put(ref={1: 7})),
    "POOL-3": (busy, put(stamp={1: 50}, back=60)),
    "QUEUE-1": (idle, put(back=1)),
    "QUEUE-2": (idle, lambda s: s.stamp.update({1: s.stamp[2]})),
    "QUEUE-4": (busy, put(nfree=5)),
    "QUEUE-5": (busy, put(freeset=frozenset({1}))),
    "HASH-2": (busy, put(hstamp={1: 0})),
    "HASH-3": (idle, lambda s: s.hstamp.update(dict.fromkeys((b for b in s.hsh if s.hsh[b]), 1))),
    "HASH-4": (idle, lambda s: s.hsh.update({s.pw[hashed_free(s)]: None})),
    "HASH-5": (busy, put(ncached={"a0": 3})),
    "HASH-6": (idle, lambda s: s.done.update({hashed_free(s): 0})),
    "HASH-7": (busy, put(na=2)),
    "HASH-8": (busy, after_looking(nhit=1, hit={0: 6})),
    "HASH-9": (idle, lambda s: put(looking=1, evset=frozenset({hashed_free(s)}), nevict=1)(s)),
    "HASH-17": (idle, lambda s: s.pos.update({("a0", s.pw[hashed_free(s)]): 5})),
    "HASH-22": (busy, put(ncached={"a0": 1})),
    "HASH-21": (busy, lambda s: s.ntok.update({"a0": 1})),
    "TABLE-1": (busy, put(ncached={"a0": 9})),
    "TABLE-2": (busy, lambda s: s.tab.update({("a0", 1): s.tab["a0", 0]})),
    "TABLE-3": (busy, put(pos={("a0", 6): 0})),
    "TABLE-4": (busy, put(own={6: frozenset({"a0"})})),
    "TABLE-5": (busy, lambda s: s.hsh.update({s.tab["a0", 0]: ("other",)})),
    "TABLE-6": (busy, lambda s: s.ncached.update({"a0": 0})),
    "TABLE-7": (busy, put(stage={"a0": PREEMPTED})),
    "TABLE-8": (busy, put(comp={"a0": 11})),
    "TABLE-12": (busy, lambda s: s.comp.update({"a0": 0, "a1": 0})),
    "TABLE-9": (busy, lambda s: s.comp.update({"a0": 0})),
    "ALLOC-2": (busy, after_looking(turned=1)),
    "ALLOC-3": (busy, put(phase=RUN_PHASE, asked=9, budget=3, actor="a0", at=0)),
    "RUN-8": (busy, put(nr=4)),
    "RUN-9": (busy, lambda s: s.stage.update({s.run[0]: PREEMPTED})),
    "RUN-10": (busy, lambda s: s.run.update({1: s.run[0]})),
    "RUN-11": (busy, put(budget=-1)),
    "RUN-12": (busy, put(halted=2)),
    "RUN-13": (busy, lambda s: put(phase=RUN_PHASE, at=0, sched={s.run[0]: 1})(s)),
    "RUN-14": (busy, put(sched={"b3": 1})),
    "RUN-15": (busy, put(sched={"a0": 1})),
    "RUN-29": (busy, put(comp={"a0": 12})),
    "RUN-17": (busy, put(comp={"b3": 1})),
    "RUN-18": (busy, lambda s: s.comp.update({"a0": s.ntok["a0"]})),
    "RUN-19": (busy, put(ix={"a0": 2})),
    "WAIT-12": (busy, put(rank={"a0": 9}, hi=20)),
    "WAIT-13": (busy, put(hi=1)),
    "WAIT-14": (busy, put(nwait=0)),
    "WAIT-15": (busy, put(arr={"a0": 9}, aclk=20)),
    "WAIT-16": (busy, put(phase=WAIT_PHASE, pause=PAUSED_NEW, adm=1)),
    "PREEMPT-5": (busy, put(leaving=BACK, leaver="a0")),
    "PREEMPT-6": (busy, put(turned=1, adm=1)),
    "OUT-7": (busy, put(told={"a0": 6})),
    "UPD-11": (flying, lambda s: s.fend.update({s.oldest: s.nframe + 1})),
    "UPD-12": (flying, lambda s: s.grant.update({s.cur: 0})),
    "UPD-19": (flying, put(ph={"a0": 3})),
    "UPD-20": (flying, put(ph={"a0": 0})),
    "UPD-21": (flying, lambda s: s.entry.update({("a0", s.base["a0"] + 1): s.cur - 1})),
    "UPD-22": (flying, lambda s: s.spot.update({s.cur: 99})),
    "LIFE-17": (flying, put(ph={"a0": 9})),
    "TABLE-11": (flying, lambda s: s.tlen.update({"a0": 1})),
    "RUN-27": (busy, put(phase=RUN_PHASE, pause=PAUSED_ALL, budget=1)),
    "RUN-26": (flying, lambda s: put(sched={"a0": 9})(s)),
    "LIFE-12": (busy, put(stage={"a0": LEAVING}, leaving=AWAY, leaver="a1")),
    "LIFE-13": (
        busy,
        lambda s: s.k.requests.update({"a0": Request("a0", 12, 1)}),
    ),
    "LIFE-14": (busy, put(ntok={"a0": 11})),
    "GROUP-8": (windowed, lambda s: s.comp.update({"a0": 3})),
    "GROUP-9": (windowed, lambda s: s.tab.update({("a0", 0): 6})),
    "GROUP-10": (windowed, lambda s: s.hsh.update({0: s.k.want("a0", 0)})),
    "GROUP-11": (seen_again, lambda s: s.hit.update({2: 0})),
    "GROUP-12": (windowed, put(tlen={"a0": 8}, tab={("a0", i): i + 1 for i in range(8)})),
    "GROUP-15": (mixed, put(looking=2, lr="a1", span=2)),
    "GROUP-16": (mixed, put(tlen={("a0", 1): 3})),
    "GROUP-17": (mixed, lambda s: s.pos.update({(("a0", 0), s.tab[("a0", 1), 2]): 0})),
    "GROUP-33": (at_ends_of_steps, lambda s: s.tab.update({("a0", s.tlen["a0"] - 1): 0})),
    "WAIT-46": (awaiting, lambda s: s.skip.update({"a0": s.skip["b1"]})),
    "WAIT-47": (awaiting, put(skip={"a0": 0})),
    "WAIT-48": (awaiting, put(passed=frozenset({"a0"}))),
    "WAIT-49": (
        adapted,
        lambda s: s.k.requests.update({"a0": replace(s.k.requests["a0"], adapter=2)}),
    ),
    "WAIT-51": (awaiting, put(nline=1)),
    "WAIT-52": (awaiting, put(looking=1, lr="a0")),
    "DRAFT-12": (drafting, put(spec={"a0": 3})),
    "DRAFT-13": (drafting, put(drafted={"a0": 1})),
    "DRAFT-14": (verifying, lambda s: s.ndraft.update({s.cur: 3})),
    "DRAFT-15": (verifying, put(pd={"a0": 1})),
    "DRAFT-16": (verifying, put(old={"a0": 2})),
    "DRAFT-21": (busy, put(comp={"a0": 12})),
    "DRAFT-20": (verifying, put(landed={"a0": -1}, flown={"a0": 1})),
    "DRAFT-17": (drafting, put(phase=RUN_PHASE, sched={"a0": 2})),
    "DRAFT-18": (drafting, put(phase=UPDATE, open=1, taker="a0", ntok={"a0": 2})),
    "OUT-20": (told, put(ends={1: frozenset({"a0"})})),
    "UPD-52": (pooling, put(ntok={"a0": 4})),
    "ENC-20": (encoding, put(kept={1: 0})),
    "ENC-21": (encoding, put(unused={1: 1}, uback=2)),
    "ENC-22": (encoding, put(eroom=1)),
    "ENC-30": (encoding, put(users={1: frozenset({"a0", "b1"})})),
    "ENC-24": (encoding, put(users={1: frozenset()})),
    "ENC-31": (encoding, put(made={1: 0})),
    "ENC-26": (encoding, put(ebudget=0)),
    "ENC-27": (encoding, put(inputs={0: 0})),
    "ENC-28": (encoding, put(planning=2, planner="a0", nplan=1)),
    "ENC-32": (encoding, put(gone={0: 1}, ngone=1, newly={1: 0})),
    "ENC-53": (attending, put(eroom=5, efree=5)),
    "ENC-55": (attending, put(phase=RUN_PHASE, sched={"a0": 1}, comp={"a0": 0})),
    "GROUP-51": (attending, lambda s: s.tlen.update({("a0", 1): 2})),
    "SESS-20": (between_turns, put(turns={"a0": 1})),
    "SESS-21": (between_turns, put(ended={"a0": 1})),
    "SESS-22": (between_turns, put(lost={"a0": 1})),
    "SESS-26": (between_turns, put(comp={"a0": 5})),
    "SESS-24": (between_turns, put(ph={"a0": 1})),
    "SESS-25": (between_turns, put(ntok={"a0": 6})),
    "GROUP-37": (windowed, put(phase=WAIT_PHASE, fresh={"a0": 1}, ntok={"a0": 12}, nfree=0)),
    "REMOTE-30": (loading, shared_load),
    "REMOTE-31": (loading, lose),
    "REMOTE-58": (zeroing, lambda s: s.zero.update({0: s.tab[("a0", 0), 1]})),
    "REMOTE-39": (loading, put(tlen={"a0": 1})),
    "REMOTE-33": (kept, put(kept_for={"a0": 0})),
    "REMOTE-53": (loadable, lambda s: s.ncached.update({("a0", 1): 1})),
    "REMOTE-37": (loaded_step, put(missing=frozenset({"b1"}))),
    "REMOTE-55": (loading, lambda s: lose(s, phase=UPDATE)),
    "REMOTE-56": (loading, lambda s: lose(s, phase=UPDATE, seen=frozenset({"b1"}))),
}


@pytest.mark.parametrize("id", INVARIANTS)
def test_every_invariant_can_fail(id: str) -> None:
    """The invariant holds in a reachable state and falls when that state is damaged where it
    looks.
    """
    make, damage = BREAKS[id]
    s = make()
    assert INVARIANTS[id](s)
    damage(s)
    assert not INVARIANTS[id](s)


def test_the_scenes_are_what_they_say() -> None:
    """Three run and one waits; blocks are shared; at the end all blocks are free and some
    hashed.
    """
    s = busy()
    assert (s.nr, s.nwait, s.phase) == (3, 1, IDLE)
    assert max(s.ref.values()) > 1 and s.stage["a0"] == RUNNING
    done = idle()
    assert done.nfree == done.k.usable and any(done.hsh.values())
    schedule(done)
