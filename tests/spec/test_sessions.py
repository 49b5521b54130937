"""Streaming sessions: SESS-1 to SESS-15."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.explorer.actions import Add, Send, Step, perform
from nullblock.spec.explorer.model import Scope, Template, beginning
from nullblock.spec.explorer.session_scopes import SESSIONS_ITEMS, SESSIONS_ITEMS_BEYOND
from nullblock.spec.explorer.transitions import sharing_agrees
from nullblock.spec.facts import Chunk, Config, Encoder, Group, Item
from nullblock.spec.fields import BACK, INPUT, PREEMPTED, UNBORN, WAITING
from nullblock.spec.flight import in_flight
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import events, sessions
from nullblock.spec.machine.blocks import free
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.rejection import why_refused
from nullblock.spec.rules.queues import leave_running, requeue
from nullblock.spec.rules.sessions import send_chunk, send_end, take_chunk
from nullblock.spec.sessions import chain, kept, max_tokens, num_output, prompt

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, step  # noqa: E402  (a module beside this one)

SESSIONS = replace(CONFIG, num_blocks=20, sessions=True)
AHEAD = replace(SESSIONS, async_scheduling=True)


def without(config: Config, *switches: str) -> Config:
    """The configuration with departures."""
    return replace(config, semantics=replace(NORMATIVE, **dict.fromkeys(switches, False)))


def session(s: Any, id: str, prompt: int, output: int, *chunks: tuple[int, int]) -> None:
    """A session arrives that may be sent so many tokens, and may answer with so many."""
    sent = tuple(Chunk(length, limit) for length, limit in chunks)
    arrive(s, id, prompt, output, resumable=True, chunks=sent)


def awaits(s: Any, id: str) -> bool:
    """Whether the session waits for a chunk."""
    return bool(s.awaits[id] == INPUT and s.skip[id] and s.stage[id] == WAITING)


def test_a_session_waits_for_its_next_chunk_with_its_blocks() -> None:
    """SESS-6, SESS-10, SESS-13: where it stops it gives nothing back, is no work, and takes the
    chunk when that comes.
    """
    s = new_state(SESSIONS)
    session(s, "a0", 3, 2, (2, 1))
    step(s)
    step(s)
    assert awaits(s, "a0") and (s.ntok["a0"], s.comp["a0"], s.tlen["a0"]) == (5, 4, 2)
    assert not events.unfinished(s) and s.nwait == 1
    assert not sessions.send(s, "a0")
    assert events.unfinished(s) and s.awaits["a0"] == 0
    assert (s.ntok["a0"], prompt(s, "a0"), num_output(s, "a0")) == (6, 6, 0)
    assert step(s).new[0].computed == 4
    assert awaits(s, "a0") and (s.comp["a0"], s.ntok["a0"]) == (6, 7)


def test_a_chunk_that_is_there_is_taken_where_the_turn_ends() -> None:
    """SESS-11, SESS-6: and its session waits behind everybody else."""
    s = new_state(replace(SESSIONS, max_num_seqs=1))
    session(s, "a0", 3, 1, (1, 1))
    arrive(s, "b1", 2, 2)
    sessions.send(s, "a0")
    step(s)
    assert (s.stage["a0"], s.awaits["a0"], s.skip["a0"]) == (WAITING, 0, 0)
    assert s.rank["b1"] < s.rank["a0"] and s.turns["a0"] == 1


def test_a_session_that_has_taken_a_chunk_is_not_looked_up() -> None:
    """SESS-9: what it has computed is in its table, whatever the cache says."""
    s = new_state(SESSIONS)
    session(s, "a0", 4, 1, (4, 1))
    step(s)
    table = [s.tab["a0", i] for i in range(s.tlen["a0"])]
    events.evict_blocks(s, table)
    sessions.send(s, "a0")
    out = step(s)
    assert (out.new[0].computed, list(out.new[0].blocks[:2])) == (4, table[:2])


def test_the_end_of_a_session_waits_for_its_chunks() -> None:
    """SESS-12: an end that arrives behind a chunk takes effect behind it; what is sent behind an
    end is ignored; one that waits ends at once.
    """
    s = new_state(SESSIONS)
    session(s, "a0", 3, 1, (1, 1), (1, 1))
    sessions.send(s, "a0")
    sessions.end(s, "a0")
    assert not sessions.send(s, "a0") and s.sent["a0"] == 1
    with pytest.raises(Disabled):
        send_chunk(s, "a0")
    step(s)
    assert s.stage["a0"] == WAITING
    step(s)
    assert s.stage["a0"] == UNBORN and s.nfree == s.k.usable
    session(s, "a0", 3, 1)
    step(s)
    with pytest.raises(Disabled):
        send_end(s, "a0")
    sessions.end(s, "a0")
    assert s.stage["a0"] == UNBORN and s.nfree == s.k.usable and s.nwait == 0


def test_a_session_that_waits_gives_its_blocks_back_when_it_is_aborted() -> None:
    """SESS-14."""
    s = new_state(SESSIONS)
    session(s, "a0", 3, 1, (1, 1))
    step(s)
    assert s.nfree < s.k.usable
    assert not events.reset_prefix_cache(s, reset_running=True)
    assert events.abort(s, "a0")
    assert (s.nfree, s.nwait, s.skip["a0"], s.sent["a0"]) == (s.k.usable, 0, 0, 0)
    assert events.reset_prefix_cache(s, reset_running=False)


def test_a_chunk_brings_its_limit() -> None:
    """SESS-2: in vllm-0.22.1 that of the first chunk holds."""
    for config, limit in ((SESSIONS, 1), (without(SESSIONS, "chunks_bring_limits"), 3)):
        s = new_state(config)
        session(s, "a0", 2, 3, (2, 1))
        sessions.send(s, "a0")
        for _ in range(3):
            step(s)
        assert max_tokens(s, "a0") == limit
        step(s)
        assert awaits(s, "a0") == (limit == 1)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_session_that_stops_while_it_is_preempted_keeps_its_tokens(keeps: bool) -> None:
    """SESS-3, SESS-7: all but the last output, and it stands in one queue; in vllm-0.22.1 nothing
    is left but the chunk, and it stands in none.
    """
    lost = () if keeps else ("sessions_keep_tokens", "sessions_stay_queued")
    s = new_state(without(AHEAD, *lost))
    session(s, "a0", 3, 1, (2, 1))
    sessions.send(s, "a0")
    schedule(s)
    _preempted(s, "a0")
    update_from_output(s)
    assert (s.stage["a0"], s.turns["a0"], s.skip["a0"]) == (WAITING, 1, 0)
    assert s.ntok["a0"] == (5 if keeps else 2)
    assert bool(s.rank["a0"]) == keeps and s.nwait == keeps
    if not keeps:
        assert num_output(s, "a0") == 0 and prompt(s, "a0") == 5
        assert events.abort(s, "a0") and s.stage["a0"] == UNBORN


def _preempted(s: Any, r: str) -> None:
    """Preempt r, which runs alone, as a step that lacks blocks does."""
    leave_running(s, 0, BACK)
    free(s, r)
    requeue(s, r)
    assert s.stage[r] == PREEMPTED


@pytest.mark.parametrize("dropped", [True, False])
def test_outputs_in_flight_are_of_the_turn_that_is_over(dropped: bool) -> None:
    """SESS-5: they are dropped; in vllm-0.22.1 the session takes them though it waits."""
    s = new_state(AHEAD if dropped else without(AHEAD, "late_outputs_dropped"))
    session(s, "e0", 3, 4, (2, 1))
    schedule(s)
    schedule(s)
    assert in_flight(s) == 2
    update_from_output(s)
    assert awaits(s, "e0") and s.ntok["e0"] == 4
    assert (s.drop["e0"], s.ph["e0"], s.comp["e0"]) == ((1, 0, 3) if dropped else (0, 1, 4))
    if dropped:
        update_from_output(s)
        assert (s.ntok["e0"], s.drop["e0"]) == (4, 0)


@pytest.mark.parametrize("rehashed", [True, False])
def test_a_hash_is_of_what_the_session_has(rehashed: bool) -> None:
    """SESS-4: the output that is dropped had filled a block, whose hash is another with the
    chunk; in vllm-0.22.1 it stays.
    """
    s = new_state(SESSIONS if rehashed else without(SESSIONS, "chunks_rehash"))
    session(s, "a0", 3, 1, (3, 1))
    step(s)
    before = [chain(s, "a0", i) for i in range(2)]
    assert s.ntok["a0"] == 4 and kept(s, "a0") == 3
    sessions.send(s, "a0")
    after = [chain(s, "a0", i) for i in range(2)]
    assert after[0] == before[0] and (after[1] == before[1]) is not rehashed


def test_a_chunk_that_cannot_be_served_is_refused() -> None:
    """SESS-8, SESS-15: it ends its session, at once or where the turn ends, and the next update
    tells why.
    """
    s = new_state(SESSIONS)
    session(s, "a0", 3, 1, (9, 1))
    step(s)
    with pytest.raises(Disabled):
        take_chunk(s, "a0")
    assert sessions.send(s, "a0")
    assert (s.stage["a0"], s.nrej, s.rej[0]) == (UNBORN, 1, "a0")
    session(s, "a0", 3, 1, (9, 1))
    assert not sessions.send(s, "a0")
    step(s)
    assert (s.stage["a0"], s.nrej, s.nfree) == (UNBORN, 1, s.k.usable)
    assert "no room" in str(why_refused(SESSIONS, 3, 9, 1, 0))
    assert why_refused(SESSIONS, 3, 0, 1, 0) == "the chunk is empty"
    assert why_refused(SESSIONS, 3, 8, 1, 0) is None


def test_the_reason_counts_what_cross_attention_sees() -> None:
    """ENC-51: blocks for the inputs of a session's encoder, beside those for its tokens."""
    config = replace(SESSIONS, groups=(Group(), Group(cross=True)), num_blocks=5)
    assert why_refused(config, 3, 2, 1, 4) == "5 tokens may need 5 blocks, the pool has 4"
    assert why_refused(config, 3, 2, 1, 2) is None


def test_a_session_is_judged_by_what_each_chunk_may_make_of_it() -> None:
    """SESS-1, LIFE-11: its prompt grows with each chunk, and has to fit the pool."""
    s = new_state(replace(SESSIONS, num_blocks=4))
    session(s, "a0", 3, 2, (2, 1), (2, 1))
    sessions.send(s, "a0")
    sessions.send(s, "a0")
    for _ in range(3):
        step(s)
    assert (s.stage["a0"], s.nrej, s.nfree) == (UNBORN, 1, 3)


def test_a_session_that_waits_refers_only_to_what_ends_beyond_its_prompt() -> None:
    """ENC-30: while it waits it has an item of which it has computed a part, and none that its
    first prompt ends behind, nor one that it has not begun.
    """
    refers_rightly = INVARIANTS["ENC-30"]
    s: Any = beginning(SESSIONS_ITEMS_BEYOND, NORMATIVE)
    for action in (Add("a"), Step(), Step()):
        perform(s, action)
    assert awaits(s, "a") and s.comp["a"] == 3 and s.users[2] == {"a"}
    assert refers_rightly(s)
    perform(s, Send("a"))
    assert refers_rightly(s)
    s.comp["a"] = 2
    assert not refers_rightly(s)
    s.comp["a"] = 3
    s.users[1] = s.users[2]
    assert not refers_rightly(s)
    s = beginning(SESSIONS_ITEMS, NORMATIVE)
    for action in (Add("a"), Step(), Step(), Step()):
        perform(s, action)
    assert awaits(s, "a") and not s.users[1] and refers_rightly(s)
    s.users[1] = frozenset({"a"})
    assert not refers_rightly(s)


def of_items(*items: Item, prompt: int, sent: int) -> Template:
    """A session whose prompt begins with those items, which may go on beyond it."""
    chunks = ((1,) * sent,)
    return Template(f"s{items[0].number}", (9,) * prompt, 1, items=items, chunks=chunks)


def test_the_true_content_of_a_block_has_its_items_after_a_chunk() -> None:
    """HASH-18: a session shares a block with a request that has the same items, and they agree
    before a chunk has come and after it.
    """
    items = Item(1, 0, 2), Item(2, 2, 2)
    same = Template("b", (9, 9, 9, 9), 4, items=items)
    config = replace(SESSIONS, block_size=3, encoder=Encoder(4, 4))
    scope = Scope("", "", config, (of_items(*items, prompt=3, sent=2), same))
    s: Any = beginning(scope, NORMATIVE)
    for action in (Add("s1"), Add("b"), Step(), Step()):
        perform(s, action)
    shared = s.tab["s1", 0]
    assert awaits(s, "s1") and shared == s.tab["b", 0]
    perform(s, Send("s1"))
    assert s.past["s1"] and s.tlen["s1"] and s.tlen["b"] and sharing_agrees(s)
    assert shared == s.tab["s1", 0] == s.tab["b", 0]


def test_a_block_that_a_chunk_fills_is_identified_by_the_items_in_it() -> None:
    """HASH-1: its tokens and the blocks before it are those of another session."""
    config = replace(SESSIONS, block_size=3, encoder=Encoder(5, 5))
    two = [of_items(Item(n, 0, n), prompt=1, sent=2) for n in (2, 3)]
    s: Any = beginning(Scope("", "", config, tuple(two)), NORMATIVE)
    for action in (Add("s2"), Add("s3"), Step(), Step(), Send("s2"), Send("s3")):
        perform(s, action)
    past = [s.past["s2"], s.past["s3"]]
    assert all(past)
    assert s.k.chained("s2", 0, past[0]) != s.k.chained("s3", 0, past[1])
    assert s.k.content("s2", 0, past[0]) != s.k.content("s3", 0, past[1])
