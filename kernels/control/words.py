"""The control words: what there is one of, as places in one int64 array on the device."""

import triton.language as tl

HEAD = tl.constexpr(0)
"""The free queue's first position. Positions grow at the back and fall at the front."""
TAIL = tl.constexpr(1)
"""The position behind its last one."""
NUM_FREE = tl.constexpr(2)
"""Blocks in the free queue."""
STAMP = tl.constexpr(3)
"""Insertions into the hash index so far: the stamp of the next one (HASH-10)."""
SLOTS_USED = tl.constexpr(4)
"""Slots of the hash index that are or were in use since it was built."""
NUM_RUNNING = tl.constexpr(5)
WAITING_HEAD = tl.constexpr(6)
WAITING_TAIL = tl.constexpr(7)
"""The waiting queue's positions: it has no holes."""
PAUSE = tl.constexpr(8)
"""0: unpaused, 1: no admissions, 2: nothing is scheduled (LIFE-7)."""

# The step being decided ------------------------------------------------------------------------
BUDGET = tl.constexpr(9)
"""Tokens that it may still schedule."""
NUM_RAN = tl.constexpr(10)
"""How many of those scheduled ran before the step; the others were admitted in it."""
NUM_ADMITTED = tl.constexpr(11)
NUM_SCHEDULED = tl.constexpr(12)
NUM_TOKENS = tl.constexpr(13)
"""Tokens scheduled."""
NUM_NEW_BLOCKS = tl.constexpr(14)
"""Entries of `Decision.new_block_ids`."""
NUM_PREEMPTED = tl.constexpr(15)
NUM_COMMON_PREFIX_BLOCKS = tl.constexpr(16)
NUM_FINISHED = tl.constexpr(17)
"""Requests that ended since the step before: entries of `Decision.finished`."""
NUM_ENDED = tl.constexpr(18)
"""Requests that ended and that no step has told of: entries of `Queues.ended`."""
RESET_DONE = tl.constexpr(19)
"""1: the last reset emptied the cache (LIFE-10)."""
NUM_WORDS = tl.constexpr(32)

UNPAUSED = tl.constexpr(0)
PAUSED_NEW = tl.constexpr(1)
PAUSED_ALL = tl.constexpr(2)

# What a request is doing: `Requests.stage` ------------------------------------------------------
ABSENT = tl.constexpr(0)
"""The row is nobody's."""
WAITING = tl.constexpr(1)
RUNNING = tl.constexpr(2)

NOT_FREE = tl.constexpr(-1)
"""The position of a block that is not in the free queue."""
HOLE = tl.constexpr(-1)
"""What the ring has where no block stands."""
EMPTY = tl.constexpr(-1)
"""A slot of the hash index that was not in use since the index was built."""
DELETED = tl.constexpr(-2)
"""A slot of the hash index whose block is not cached any more."""
FIRST = tl.constexpr(1 << 40)
"""Where queues start: far from 0, so that no position is negative however many are put back in
front. A multiple of every capacity."""
