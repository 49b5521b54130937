"""Defects to plant in the control kernels, and the scene that has to notice each.

A scene is a function of `scenes.py`; for `game` a number follows, of the game to play.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One text of a file for another, and who notices."""

    name: str
    file: str
    old: str
    new: str
    scene: str


POOL = [
    Mutant("pop leaves one", "ring.py", "(rank <= n)", "(rank < n)", "taken"),
    Mutant(
        "pop keeps positions",
        "ring.py",
        "        tl.store(a.pool.position + block, NOT_FREE, mask=take)\n",
        "",
        "taken",
    ),
    Mutant("pop skips a place", "ring.py", "n, z.lanes, last + 1)", "n, z.lanes, last + 2)", "taken"),
    Mutant("blocks move too far", "ring.py", "new + tl.cumsum(live, 0) - live", "new + tl.cumsum(live, 0)", "holes"),
    Mutant("holes stay", "ring.py", "        tail = close_holes(a, head, tail, z)\n        if", "        if", "holes"),
    Mutant("room is not made", "ring.py", "tail - head + n > z.ring_capacity:\n        tail", "tail - head > z.ring_capacity:\n        tail", "holes"),
    Mutant("a touch leaves the ring as it is", "ring.py", "    tl.store(a.pool.ring + place_of(position, z), HOLE, mask=there)\n    tl.store(a.pool.position + block, NOT_FREE, mask=there)", "    tl.store(a.pool.position + block, NOT_FREE, mask=there)", "touched"),
    Mutant("touch leaves the queue as it is", "touch.py", "there & (holders == 0)", "there & (holders < 0)", "touched"),
    Mutant("touch sets one holder", "touch.py", "holders + 1, mask", "1, mask", "touched"),
    Mutant("new blocks keep their hash", "take.py", "    forget(a, block, there)\n", "", "taken"),
    Mutant("new blocks have no holder", "take.py", "block, 1, mask=there", "block, 0, mask=there", "taken"),
    Mutant("released from the front", "release.py", "held - 1 - nth", "nth", "shared"),
    Mutant("leaves with the first holder", "release.py", "tl.atomic_max(a.scratch.last + block, item", "tl.atomic_max(a.scratch.last + block, -item + 99", "shared"),
    Mutant("leaves though held", "release.py", "last & (keeps == 0)", "last", "shared"),
    Mutant("one release is counted", "release.py", "tl.atomic_add(a.scratch.releases + block, 1", "tl.atomic_max(a.scratch.releases + block, 1", "shared"),
    Mutant("groups in front in order of requests", "release.py", "head - bounds + nth", "head - in_front - tl.sum(rank, 0) + nth", "shared"),
    Mutant("all go behind", "release.py", "(tl.load(carried, mask=leaves, other=0) != 0)", "(tl.load(carried, mask=leaves, other=0) == tl.load(carried, mask=leaves, other=0))", "shared"),
    Mutant("scratch is not restored", "release.py", "        tl.store(a.scratch.last + block, -1, mask=last)\n", "", "shared"),
    Mutant("eviction leaves the entry", "cache.py", "    tl.store(a.cache.slots + slot, DELETED, mask=cached)\n", "", "cached"),
    Mutant("evicted slots look empty", "cache.py", "slot, DELETED, mask=cached", "slot, EMPTY, mask=cached", "clusters"),
    Mutant("the last copy is found", "cache.py", "best = tl.where(stamp < earliest", "best = tl.where(equal & (stamp > 0)", "cached"),
    Mutant("half a key is compared", "cache.py", "    equal = equal & (tl.load(carried + 1", "    _ = equal & (tl.load(carried + 1", "halves"),
    Mutant("stamps run backwards", "cache.py", "block, stamp + rank, mask", "block, stamp - rank, mask", "cached"),
    Mutant("the search stops at a deleted slot", "cache.py", "todo = todo & (held != EMPTY)", "todo = todo & (held >= 0)", "clusters"),
    Mutant("the index is never built anew", "cache.py", "if used + n > z.index_limit:\n        used = rebuild(a, z)", "if used + n > 4 * z.index_limit:\n        used = rebuild(a, z)", "rebuilt"),
    Mutant("a new index begins with what is deleted", "cache.py", "block, key, key != 0, z)", "block, key, there, z)", "rebuilt"),
]  # fmt: skip

STEP = [
    Mutant("threshold ignored", "grant.py", "tl.minimum(num_tokens - computed, z.threshold)", "num_tokens - computed", "game"),
    Mutant("budget not spent", "grant.py", "budget - before, 0)", "budget, 0)", "game"),
    Mutant("max_model_len reached", "grant.py", "z.max_model_len - 1 - computed", "z.max_model_len - computed", "full_length"),
    Mutant("one block too few", "grant.py", "blocks_for(slots, z.block_size) - held", "slots // z.block_size - held", "game"),
    Mutant("short by one", "grant.py", "(tl.cumsum(lacking, 0) > free)", "(tl.cumsum(lacking, 0) >= free)", "game"),
    Mutant("blocks at the wrong column", "runs.py", "first - start, mask", "first, mask", "game"),
    Mutant("cached as computed only", "publish.py", "computed + granted, num_tokens", "computed, num_tokens", "game"),
    Mutant("the extra is the first block's", "keys.py", "(column > 0).to(tl.int64)", "(column < 0).to(tl.int64)", "extras"),
    Mutant("keys forget what comes before", "keys.py", "    first = reduced(first + before.to(tl.uint64))\n    second", "    second", "game"),
    Mutant("all tokens are looked up", "lookup.py", "num_tokens + row) - 1, 0)", "num_tokens + row), 0)", "game"),
    Mutant("held hits count as free", "lookup.py", "(holders == 0)", "(holders >= 0) & hit", "game"),
    Mutant("the victim is the first", "preempt.py", "    victim = count - 1\n    if", "    victim = count * 0\n    if", "game"),
    Mutant("the last of equals is the victim", "preempt.py", "tl.min(tl.where(there, lane, count - 1), 0)", "tl.max(tl.where(there, lane, 0), 0)", "game"),
    Mutant("budget is not given back", "running_phase.py", "            budget += granted\n            if z.", "            if z.", "game"),
    Mutant("hashes are not taken back", "running_phase.py", "                _uncache(a, row, z)\n", "                pass\n", "game"),
    Mutant("the index stays", "running_phase.py", "((granted > 0) | (victim < index))", "(granted > 0)", "game"),
    Mutant("a self-preempted request ends nothing", "running_phase.py", "index = tl.where(place < 0, count, index)", "index = index + 0", "game"),
    Mutant("tokens are counted anew", "running_phase.py", "            fixed = asked\n", "            fixed = asked * 0 - 1\n", "game"),
    Mutant("paused admits", "waiting_phase.py", "(tl.load(a.words + PAUSE) == UNPAUSED) & ", "", "game"),
    Mutant("admits after a preemption", "waiting_phase.py", " & (tl.load(a.words + NUM_PREEMPTED) == 0)", "", "game"),
    Mutant("free hits are not counted", "waiting_phase.py", "(needed + unheld <= free)", "(needed <= free)", "game"),
    Mutant("the whole need not fit", "waiting_phase.py", "needed = tl.maximum(needed, whole - hits)", "needed = needed + 0 * whole", "game"),
    Mutant("hits are not touched", "waiting_phase.py", "            free -= _hold(a, row, hits, z)\n", "", "game"),
    Mutant("by arrival only", "next_waiting.py", "there = there & (by_priority == first)", "there = there & (by_priority >= first)", "game"),
    Mutant("waits at the back", "queues.py", "    tl.store(a.queues.waiting + waiting_place(head, z), row)", "    tl.store(a.queues.waiting + waiting_place(head + 1, z), row)", "game"),
    Mutant("computed stays", "release.py", "    tl.store(a.requests.num_computed + row, 0, mask=there)\n", "", "game"),
    Mutant("samples in every chunk", "decision.py", "(after >= num_tokens)", "(after >= 0)", "game"),
    Mutant("told again", "decision.py", "lay_out(a, row, told, held - told, there)", "lay_out(a, row, told * 0, held, there)", "game"),
    Mutant("common to one", "decision.py", "(holders != count)", "(holders < 1)", "game"),
    Mutant("resumed ones are known", "decision.py", "send_all = resumed | ran", "send_all = ran", "game"),
    Mutant("reset although held", "reset.py", "if tl.load(a.words + NUM_FREE) == z.num_blocks - 1:", "if tl.load(a.words + NUM_FREE) >= 0:", "game"),
    Mutant("reset in reverse", "reset.py", "front + count - 1 - lane", "front + lane", "game"),
]  # fmt: skip
