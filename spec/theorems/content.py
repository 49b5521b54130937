"""What blocks hold: sharing, publishing, and whose tokens are known."""

from nullblock.spec.explorer.transitions import CLAIMS
from nullblock.spec.fields import LEAVING, RUNNING, UNBORN
from nullblock.spec.kernel import State, Value, both, either, ensure, implies, require
from nullblock.spec.state import kept
from nullblock.spec.theorems.chain import CHAIN, IDEAL, UNTOUCHED, has_parent, no_orphan
from nullblock.spec.theorems.outline import kept_by_every_rule
from nullblock.spec.theorems.theorem import Found, followed, theorem

TABLES = (
    *("TABLE-1", "TABLE-2", "TABLE-3", "TABLE-4", "TABLE-5", "TABLE-6", "POOL-2", "POOL-3"),
    *("HASH-2", "HASH-7", "HASH-8", "ALLOC-2", "ALLOC-3"),
)
PUBLISHED = (
    *("ALLOC-2", "HASH-2", "HASH-5", "HASH-6", "LIFE-12", "POOL-1", "POOL-2", "RUN-12"),
    "TABLE-3",
)


def sharing(s: State) -> Value:
    """All who hold a block want the same content in it."""
    return s.k.forall(
        "RRB",
        lambda r, q, b: implies(
            both(s.pos[r, b] >= 0, s.pos[q, b] >= 0),
            s.k.want(r, s.pos[r, b]) == s.k.want(q, s.pos[q, b]),
        ),
    )


def sharing_by_hash(s: State) -> Value:
    """False: all who hold a block hold it at one place for one hash that it carries."""
    return s.k.forall(
        "RB",
        lambda r, b: implies(s.pos[r, b] >= 0, s.hsh[b] == s.k.want(r, s.pos[r, b])),
    )


def ideal(s: State) -> Value:
    """Equal chain hashes, equal content from the start."""
    return s.k.forall(
        "RIRI",
        lambda r, i, q, j: implies(
            both(i >= 0, j >= 0, s.k.want(r, i) == s.k.want(q, j)),
            s.k.truth(r, i) == s.k.truth(q, j),
        ),
    )


def _agree(s: State) -> None:
    """From equal hashes to equal content."""
    require(sharing(s), "all who hold a block want the same content in it")
    require(ideal(s), "equal chain hashes, equal content")
    ensure(CLAIMS["HASH-18"](s), "HASH-18")


@theorem(
    "HASH-18",
    engine="Z3, unbounded; induction over the rules",
    rests_on=TABLES,
    assumes=(IDEAL,),
    canaries={
        "whoever holds a block finds its own hash there": lambda: kept_by_every_rule(
            "canary", (sharing_by_hash,), TABLES
        ),
    },
)
def sharing_agrees() -> Found:
    """Requests that share a block agree on its content: every rule keeps that they want the same
    hash, and an ideal hash does the rest.
    """
    return (
        *kept_by_every_rule("HASH-18", (sharing,), TABLES),
        *followed("HASH-18", _agree, "", ("TABLE-2",)),
    )


def _without_orphans(s: State, b: Value) -> None:
    """The statement, of any one block."""
    no_orphan(s, b)
    there = s.k.exists("B", lambda c: s.hsh[c] == s.k.par(s.hsh[b]))
    ensure(there, "HASH-19, for any block")


def _orphans_or_not(s: State) -> None:
    """The statement as it stands, from that."""

    def fine(b: Value) -> Value:
        there = s.k.exists("B", lambda c: s.hsh[c] == s.k.par(s.hsh[b]))
        return implies(has_parent(s, b), there)

    require(implies(s.evicted == 0, s.k.forall("B", fine)), "THEOREM-1, for any block")
    ensure(CLAIMS["HASH-19"](s), "HASH-19")


@theorem(
    "HASH-19",
    engine="Z3, unbounded",
    rests_on=CHAIN,
    assumes=(IDEAL, UNTOUCHED),
    canaries={
        "free blocks may lose their parents": lambda: followed(
            "canary", _without_orphans, "B", tuple(i for i in CHAIN if i != "HASH-4")
        ),
    },
)
def no_orphans() -> Found:
    """No block is orphaned: the parent of a free block is the witness that HASH-4 keeps, that of a
    held one stands before it.
    """
    return (
        *followed("HASH-19", _without_orphans, "B", CHAIN),
        *followed("HASH-19", _orphans_or_not, "", ("RUN-12",)),
    )


def published_after_writing(s: State, b: Value) -> None:
    """What a lookup may find is computed, or will be before the step that finds it computes."""
    require(both(s.looking == 1, s.hsh[b] != s.k.NOHASH), "a lookup is open, and b is cached")
    r = s.k.some(s.own[b])
    if s.ref[b] == 0:
        ensure(s.done[b] == 1, "a free block that is cached was computed by its last holder")
    else:
        ensure(s.pos[r, b] >= 0, "a block in use stands in a table")
        ensure(s.stage[r] != LEAVING, "whose request goes on")
        ensure(
            s.pos[r, b] < s.k.full(kept(s, r)),
            "and has it computed, in flight, or in the step that is being scheduled",
        )


def published_when_computed(s: State, b: Value) -> None:
    """False: what a lookup may find was computed before the step."""
    require(both(s.looking == 1, s.hsh[b] != s.k.NOHASH), "a lookup is open, and b is cached")
    r = s.k.some(s.own[b])
    ensure(either(s.ref[b] == 0, s.pos[r, b] < s.k.full(s.comp[r])), "it was computed before")


@theorem(
    "THEOREM-7",
    engine="Z3, unbounded",
    rests_on=(*PUBLISHED, "TABLE-5", "PREEMPT-3"),
    assumes=(
        "workers compute the steps in flight in the order in which they were scheduled, and in a"
        " step write a block before they read it",
    ),
    canaries={
        "only what was computed before the step is found": lambda: followed(
            "canary", published_when_computed, "B", (*PUBLISHED, "TABLE-4", "TABLE-5")
        ),
    },
)
def publish_after_write() -> Found:
    """Nobody hits a block whose content was never computed: a lookup finds only blocks that are
    computed, in flight, or filled by a request that the open step schedules.
    """
    given = (*PUBLISHED, "TABLE-4", "TABLE-5")
    return followed("THEOREM-7", published_after_writing, "B", given)


FINISHED = ("ALLOC-2", "LIFE-17", "RUN-14", "RUN-17", "TABLE-1", "TABLE-3", "TABLE-4", "TABLE-7")


def gone_holds_nothing(s: State, r: Value, b: Value) -> None:
    """Who is gone holds nothing, has nothing computed or scheduled, and is owed nothing."""
    require(s.stage[r] == UNBORN, "the request has ended, or never was")
    ensure(s.tlen[r] == 0, "its table is empty")
    ensure(both(s.pos[r, b] < 0, s.k.mem(s.own[b], r) == False), "no block is its own")  # noqa: E712
    ensure(both(s.comp[r] == 0, s.sched[r] == 0), "nothing is computed or scheduled")
    ensure(both(s.ph[r] == 0, s.drop[r] == 0), "it is owed no token")


def waiting_holds_nothing(s: State, r: Value) -> None:
    """False: who does not run holds nothing, on its way in included."""
    require(s.stage[r] < RUNNING, "the request does not run")
    ensure(s.tlen[r] == 0, "its table is empty")


@theorem(
    "THEOREM-8",
    engine="Z3, unbounded",
    rests_on=FINISHED,
    canaries={
        "nor does one that is being admitted": lambda: followed(
            "canary", waiting_holds_nothing, "R", FINISHED
        ),
    },
)
def finished_hold_nothing() -> Found:
    """A request that has ended holds nothing: no block, no computed token, none scheduled, and no
    output is owed to it.
    """
    return followed("THEOREM-8", gone_holds_nothing, "RB", FINISHED)


STATE_TEXTS = ((published_after_writing, "B"), (gone_holds_nothing, "RB"))
