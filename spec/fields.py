"""The fields of a state, and the values that some of them take.

A sort is written `B>I`: a map from blocks to integers; `{B}`: a set of blocks. B block, R request,
T table, I integer, H hash. A table is of a request and a KV-cache group; where there is one group
it goes by the name of its request. Only rules write fields. Ghost fields exist for proofs and
invariants and decide nothing.
"""

POOL = {
    "ref": "B>I",  # how many tables hold the block
    "stamp": "B>I",  # place in the free queue, least first; 0: not in it
    "back": "I",  # the next stamp at the back of the free queue
    "front": "I",  # below every stamp given out at its front
    "gate": "I",  # the next stamp at the front for the request that leaves
    "nfree": "I",  # blocks in the free queue
    "hsh": "B>H",  # chain hash of the block's content, or NOHASH
    "hstamp": "B>I",  # when that hash was set; among equal hashes the first is found
    "hclock": "I",
    "anew": "B>I",  # 1: it was cached in the open step, and holds a state of Mamba layers
    "zero": "I>B",  # blocks that full attention beside Mamba layers took in the open step
    "zerofor": "I>I",  # the groups that they were taken for
    "nzero": "I",
}
TABLE = {
    "tab": "TI>B",  # block table: append-only while the request runs
    "tlen": "T>I",
    "ncached": "T>I",  # leading blocks whose hash was set or hit; or left out (GROUP-19)
    "told": "T>I",  # leading blocks that the worker knows
    "before": "T>I",  # one after the place of the state before the last growth; 0: there is none
    "grows": "T>I",  # one more than its places when the actor's began to grow; 0: it has not
    "inner": "T>I",  # tokens that the last growth which kept an inner state made room for; 0: none
    "swept": "T>I",  # blocks that the actor gives back of it, counted from behind
}
POOL_GHOST = {
    "freeset": "{B}",  # the free queue as a set
    "own": "B>{T}",  # the tables that hold a block
    "pos": "TB>I",  # where a block stands in a table; -1: it does not
    "pw": "B>B",  # the block before this one in the table that released it last
    "done": "B>I",  # 1: the content was computed when its last holder released it
    "evicted": "I",  # 1: evict_blocks has removed hashes from the middle of chains
}
LOOKUP = {
    "looking": "I",  # 0 no lookup, 3 kinds of layers are asked in turn, 1 scanning, 2 scan over
    "lr": "R",
    "hit": "I>B",
    "nhit": "I",
    "span": "I",  # tokens that the hits of every group cover, where there are several groups
    # Only with an EAGLE-like method these are not 0, see in_turn.py.
    "tried": "I",  # tokens with which the round began
    "kind": "I",  # the kind of layers that is asked next
    "calm": "I",  # kinds asked since one that drops no hit shortened the length: so many at most
    "reach": "I>I",  # tokens of a hit, as each kind has said last
    "junct": "R>I",  # tokens that one kind was hit by and not all, as lines after 0.22.1 note
    "holds_some": "I",  # 1: whoever is looked up holds blocks already; beside loads alone
    "na": "I",  # hits already adopted
    "nevict": "I",  # pending hits that stand in the free queue
    "evset": "{B}",
}
QUEUES = {
    "stage": "R>I",
    "arr": "R>I",  # order of arrival
    "aclk": "I",
    "run": "I>R",  # the running list, in admission order
    "nr": "I",
    "ix": "R>I",  # ghost: where a running request stands in it
    "rank": "R>I",  # place in the waiting queue, least first; 0: not in it
    "lo": "I",
    "hi": "I",
    "nwait": "I",
    "waitset": "{R}",  # ghost: the waiting queue as a set
    "leaving": "I",  # 0 nobody, BACK or AWAY: where the leaver goes
    "leaver": "R",
}
WAITS = {
    "skip": "R>I",  # place in the skipped queue, least first; 0: not in it
    "sback": "I",  # the next place at its back
    # Only vllm-0.22.1 has these nine, see SESS-7.
    "again": "RI>I",  # further places there of a session that stands there more than once
    "againfrom": "R>I",  # the first of those that it still has
    "againto": "R>I",  # one after the last
    "also": "R>I",  # 1: who stands there stands in the waiting queue as well
    "more": "RI>I",  # further places in that of a session that stands there more than once
    "morefrom": "R>I",  # the first of those that it still has
    "moreto": "R>I",  # one after the last
    "queue": "I>R",  # the waiting queue, as a heap, where the skipped one is kept as one
    "extra": "I",  # sessions counted once more as waiting for a chunk than there are
    # Only released lines, under PRIORITY with sessions, have these two, see WAIT-53.
    "heap": "I>R",  # the skipped queue, as a heap
    "loose": "I",  # 1: both were left from outside, and are out of order; 2: the waiting one was
    "passed": "{R}",  # passed over in this step
    "nline": "I",  # of those that wait, how many have not been
    "lineset": "{R}",  # ghost: those
    "awaits": "R>I",  # what a request waits for besides its turn: GRAMMAR, INPUT, REMOTE, or 0
    "came": "R>I",  # 1: that is there
}
SESSIONS = {
    "turns": "R>I",  # chunks that a session has taken since its first
    "sent": "R>I",  # chunks that have arrived for it since
    "ended": "R>I",  # 1: no more will come
    "grown": "R>I",  # what these have made its prompt longer by, outputs that it kept included
    "lost": "R>I",  # what it counts of that, and has no more
    "past": "R>I",  # which tokens it has had, as a number of the environment; 0: its first chunk's
}
STEP = {
    "comp": "R>I",  # num_computed_tokens
    "ntok": "R>I",  # num_tokens: prompt and output so far
    "sched": "R>I",  # tokens granted in the open step
    "phase": "I",
    "at": "I",  # index into the running list
    "limit": "I",  # token budget of this step
    "budget": "I",  # what is left of it
    "used": "I",  # ghost: what is granted
    # Only lines after 0.22.1 have these two, see rules/later.py.
    "slots": "I",  # places of the step that a draft model takes
    "mates": "I",  # of running requests the step has 0 none, 1 those that decode, 2 a prefill too
    "actor": "R",  # the request that asks for slots
    "asked": "I",  # tokens it asks for; 0: nobody asks
    "goal": "I",  # tokens it then has slots for
    "halted": "I",  # 1: a request preempted itself, the running phase is over
    "turned": "I",  # preemptions in this step
    "adm": "I",  # ghost: admissions in this step
    "blocked": "I",  # 1: the head of the waiting queue cannot be admitted in this step
    "pause": "I",
}
FLIGHT = {
    "frame": "I>R",  # who is in the steps in flight, in schedule order, the oldest step first
    "born": "I>I",  # when the request of an entry arrived: a later one may have its id
    "grant": "I>I",  # tokens that an entry computes
    "due": "I>I",  # what it owes: CHUNK or TOKEN
    "cur": "I",  # the entry that is settled next
    "nframe": "I",  # one after the last entry
    "fend": "I>I",  # one after the last entry of a step, by its number
    "oldest": "I",  # number of the oldest step in flight
    "steps": "I",  # steps scheduled so far: the number of the next one
    "upto": "I",  # one after the last entry of the step whose output is applied
    "ph": "R>I",  # outputs in flight that the request will take; with `pd`, its placeholders
    "drop": "R>I",  # async_tokens_to_discard: tokens in flight that it will not
    "open": "I",  # 1: the taker has a new token, it may stop; 2: it does not, and has more to take
    "taker": "R",
    # Only lines after 0.22.1 have these, see rules/later.py.
    "aloft": "R>I",  # num_in_flight_tokens: tokens of steps in flight
    "stale": "R>I",  # num_stale_output_tokens: those of them from before a preemption
    "paced": "R>I",  # the number of the first step that may run it after the last that samples
    "tossed": "R>I",  # drop_stale_output: 1: what is stale will not be taken
}
FLIGHT_GHOST = {
    "spot": "I>I",  # tokens of the request that are computed once the entry is
    "nth": "I>I",  # place of an entry among the outputs of its request
    "entry": "RI>I",  # the entry at a place
    "base": "R>I",  # the first place that is in flight
    "since": "R>I",  # entries before this one were scheduled before the last admission
}
DRAFTS = {
    "spec": "R>I",  # len(spec_token_ids): drafts that the next step of a request may verify
    "drafted": "R>I",  # drafts that the open step verifies
    "ndraft": "I>I",  # drafts of an entry that are neither taken nor rejected
    "pd": "R>I",  # drafts in flight: ph + pd is num_output_placeholders
    "old": "R>I",  # outputs in flight from before the last admission, where there may be drafts
    "chunk": "R>I",  # is_prefill_chunk: the last step left it short of a token; where that counts
}
DRAFTS_GHOST = {
    "cum": "RI>I",  # drafts put in flight for a request up to a place among its outputs
    "flown": "R>I",  # drafts put in flight for a request so far
    "landed": "R>I",  # of those, how many were taken or rejected, or are to be dropped
    "slip": "R>I",  # how many drafts of a request were rejected
}
ENCODER = {
    "kept": "I>I",  # embeddings of an item in the encoder cache, by its number; 0: it is not there
    "users": "I>{R}",  # who refers to them
    "holds": "RI>I",  # 1: r refers to its i-th item for the sake of this place; later lines only
    "unused": "I>I",  # place among those that nobody refers to, least first; 0: not among them
    "uback": "I",  # the next such place
    "eroom": "I",  # num_free_slots: embeddings that fit without an eviction
    "efree": "I",  # num_freeable_slots: that fit once all that nobody refers to are evicted
    "ebudget": "I",  # embeddings that the open step may still compute
    "inputs": "I>I",  # what it computes: places of items in their prompts, from 1; 0: withdrawn
    "inputof": "I>R",  # whose those are
    "ninput": "I",
    "newly": "I>I",  # which of them computes an item, by its number, from 1; 0: none
    "gone": "I>I",  # numbers of the items evicted in the open step, in order
    "ngone": "I",
    # Only beside an encoder connector:
    "asks": "I>I",  # what it is told of: places of items that took room in the open step, from 1
    "asksof": "I>R",  # whose those are
    "nask": "I",
}
PLAN = {
    "planning": "I",  # 0 nobody's encoder inputs are planned, 1 they are being, 2 they are
    "planner": "R",  # whose
    "pfrom": "I",  # tokens of it computed before the step
    "ptokens": "I",  # tokens that the step computes
    "pitem": "I",  # place of the item that is looked at, from 0
    "plan": "I>I",  # places of the items that the step is to compute
    "nplan": "I",
    "ntaken": "I",  # of those, how many have their room
    "pcost": "I",  # embeddings of those, and of those that are loaded
    "loads": "I>I",  # places of the items that an encoder connector is to load
    "nload": "I",
    "nloaded": "I",  # of those, how many have their room
    "pload": "I",  # embeddings of those that are loaded
    "pbudget": "I",  # `ebudget` when the plan was begun
}
ENCODER_GHOST = {
    "made": "I>I",  # 1: a step computes the embeddings of an item, by its number, or has
}
REMOTE_KV = {
    "remote": "R>I",  # tokens of a request that the remote side holds and has not been asked for
    "unsure": "R>I",  # 1: the remote side does not know yet how many
    "ext": "I",  # tokens that are loaded for the request that is looked up
    "failed": "R>I",  # of a load: PARTLY or WHOLLY, if blocks did not arrive; 0: none is missing
    # Only lines after 0.22.1 have these nine, see rules/later.py and rules/deferred.py.
    "filling": "R>I",  # 1: r is loaded, or computes its prompt
    "gap": "I",  # the next place in the queue before all who wait without blocks
    "off": "I>B",  # blocks that were given up, and are free when a step has come back
    "offuntil": "I>I",  # one after the number of that step
    "offlen": "I>I",  # how many there are from there on of the request that gave them up
    "offfrom": "I",  # the place of the first
    "offto": "I",  # one after the place of the last
    "lastin": "R>I",  # one after the number of the last step that computes a request
    "lastfull": "I",  # one after the number of the last step that computes anything
    "kept_for": "R>I",  # what the blocks of a request that has ended are kept for: LOAD, SEND
    "invalid": "B>I",  # 1: reported with the update that comes, as not loaded
    "claimed": "B>I",  # who computes it again: somebody that waits (1) or runs (2); 0: nobody yet
    "seen": "{R}",  # who was looked at for that report
    "missing": "{R}",  # who lacks blocks by it, and takes nothing of the update
    "left": "I",  # tokens that stay computed of the request that was found last
    "cutoff": "I",  # the next place in its table whose block is to leave the prefix cache
    "evict": "B>I",  # 1: a block that is to
}
REMOTE_GHOST = {
    "loadfrom": "R>I",  # tokens of a request before those that are loaded
    "loadto": "R>I",  # tokens up to the last that is; 0: no load is under way
}
REPORT = {
    "fresh": "R>I",  # NEW or RESUMED in the open step, 0 otherwise
    "preempted": "{R}",  # preempted in this step
    "finished": "{R}",  # finished since the last step
    "prev": "{R}",  # scheduled in the previous step
    "ends": "I>{R}",  # by client, who has ended since the last update, where clients are told
    "npre": "R>I",  # num_preemptions
    "rej": "I>R",  # rejected at arrival and not yet reported, in order
    "nrej": "I",
}
FIELDS: dict[str, str] = (
    POOL
    | TABLE
    | POOL_GHOST
    | LOOKUP
    | QUEUES
    | WAITS
    | SESSIONS
    | STEP
    | FLIGHT
    | FLIGHT_GHOST
    | REPORT
    | DRAFTS
    | DRAFTS_GHOST
    | ENCODER
    | PLAN
    | ENCODER_GHOST
    | REMOTE_KV
    | REMOTE_GHOST
)
GHOSTS = frozenset(REMOTE_GHOST | POOL_GHOST | FLIGHT_GHOST | DRAFTS_GHOST | ENCODER_GHOST) | {
    "evset",
    "waitset",
    "lineset",
    "used",
    "adm",
    "ix",
}
HANDED = frozenset(POOL) | frozenset(TABLE) | frozenset(POOL_GHOST)
"""What taking and releasing blocks may change."""
MOVED = (
    frozenset(QUEUES)
    | frozenset(WAITS)
    | frozenset(SESSIONS)
    | frozenset(ENCODER | PLAN | ENCODER_GHOST)
    | frozenset(REMOTE_KV | REMOTE_GHOST)
    | {"fresh", "npre", "preempted", "turned", "since"}
    | {
        *("spec", "drafted", "old"),
    }
)
"""What queueing, leaving and admitting may change."""

IDLE, RUN_PHASE, WAIT_PHASE, DECIDED, ADVANCE, UPDATE, RESETTING = range(7)
UNBORN, WAITING, PREEMPTED, RUNNING, LEAVING, KEPT = range(6)
BACK, AWAY, ANEW = 1, 2, 3
CHUNK, TOKEN = 1, 2
NEW, RESUMED = 1, 2
UNPAUSED, PAUSED_NEW, PAUSED_ALL = range(3)
PLAIN, EOS, STOP_ID, REJECTED, REPEATS = range(5)
CONTINUE, STOPPED, STOPPED_BY_ID, LENGTH, ERROR, REPETITION = range(6)
GRAMMAR, INPUT, REMOTE = 1, 2, 3
PARTLY, WHOLLY = 1, 2
LOAD, SEND, BOTH_WAYS = 1, 2, 3
