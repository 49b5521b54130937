"""Requests: the running list, the waiting queue, stages, limits."""

from nullblock.spec.fields import BACK, LEAVING, PREEMPTED, RUNNING, UNBORN, WAITING
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, neg
from nullblock.spec.remote import gives_back, goes_on, last_stage
from nullblock.spec.sessions import awaits_input
from nullblock.spec.state import is_waiting, longest, servable


@invariant("RUN-8")
def running_bound(s: State) -> Value:
    """No more requests run than max_num_seqs."""
    return both(s.nr >= 0, s.nr <= s.k.max_seqs)


@invariant("RUN-9")
def running_list_runs(s: State) -> Value:
    """Every request in the running list is in the running stage. Upstream: 23347, 49439."""
    return s.k.forall("I", lambda i: implies(within(0, i, s.nr), s.stage[s.run[i]] == RUNNING))


@invariant("RUN-10")
def running_list_distinct(s: State) -> Value:
    """No request stands twice in the running list."""
    return s.k.forall(
        "II",
        lambda i, j: implies(
            both(within(0, i, s.nr), within(0, j, s.nr), s.run[i] == s.run[j]), i == j
        ),
    )


@invariant("RUN-19")
def running_is_listed(s: State) -> Value:
    """Every running request stands in the running list."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] == RUNNING, both(within(0, s.ix[r], s.nr), s.run[s.ix[r]] == r)
        ),
    )


@invariant("WAIT-12")
def queued_waits(s: State) -> Value:
    """A request stands in the waiting queue if and only if it waits, new or preempted.
    Upstream: vllm-ascend#10699, 49439.
    """
    return s.k.forall(
        "R",
        lambda r: (
            is_waiting(s, r)
            == either(s.stage[r] == WAITING, s.stage[r] == PREEMPTED, gives_back(s, r))
        ),
    )


@invariant("WAIT-13")
def queue_places(s: State) -> Value:
    """Places in the waiting queue are distinct and lie between its front and its back."""
    return both(
        s.lo < 0,
        s.hi > 0,
        s.k.forall("R", lambda r: both(s.lo < s.rank[r], s.rank[r] < s.hi)),
        s.k.forall(
            "RR", lambda r, q: implies(both(is_waiting(s, r), s.rank[r] == s.rank[q]), r == q)
        ),
    )


@invariant("WAIT-14")
def queue_length(s: State) -> Value:
    """The length of the waiting queue counts its members."""
    return both(
        s.nwait == s.k.card(s.waitset),
        s.k.forall("R", lambda r: s.k.mem(s.waitset, r) == is_waiting(s, r)),
    )


@invariant("LIFE-12")
def stages(s: State) -> Value:
    """A request is in one stage, arrived in the past, and at most one is on its way out."""
    return both(
        s.aclk > 0,
        s.k.forall(
            "R",
            lambda r: both(
                s.stage[r] >= UNBORN,
                s.stage[r] <= last_stage(s),
                s.arr[r] < s.aclk,
                (s.stage[r] == LEAVING) == both(s.leaving != 0, r == s.leaver),
            ),
        ),
    )


@invariant("WAIT-15")
def arrival_order(s: State) -> Value:
    """Under FCFS running and waiting requests stay in arrival order, running ones first, where
    nobody waits for anything but its turn. Upstream: 33522, 41951.
    """
    if s.k.priority:
        return True
    return implies(
        s.k.in_order,
        both(
            s.k.forall(
                "II",
                lambda i, j: implies(
                    both(within(0, i, s.nr), within(0, j, s.nr), i < j),
                    s.arr[s.run[i]] < s.arr[s.run[j]],
                ),
            ),
            s.k.forall(
                "RR",
                lambda r, q: implies(
                    both(is_waiting(s, r), is_waiting(s, q), s.rank[r] < s.rank[q]),
                    s.arr[r] < s.arr[q],
                ),
            ),
            s.k.forall(
                "IR",
                lambda i, q: implies(
                    both(within(0, i, s.nr), is_waiting(s, q)), s.arr[s.run[i]] < s.arr[q]
                ),
            ),
        ),
    )


@invariant("PREEMPT-5")
def leaver_in_order(s: State) -> Value:
    """Under FCFS a request on its way back to the queue arrived after all that run and before
    all that wait, where nobody waits for anything but its turn.
    """
    if s.k.priority:
        return True
    return implies(
        both(s.leaving == BACK, s.k.in_order),
        both(
            s.k.forall(
                "I", lambda i: implies(within(0, i, s.nr), s.arr[s.run[i]] < s.arr[s.leaver])
            ),
            s.k.forall("R", lambda q: implies(is_waiting(s, q), s.arr[s.leaver] < s.arr[q])),
        ),
    )


@invariant("LIFE-13")
def live_is_servable(s: State) -> Value:
    """Every request that waits or runs can be served to its limit. Upstream: 39734, 35541,
    55130; self-preemption for ever.
    """
    return s.k.forall(
        "R",
        lambda r: implies(s.stage[r] != UNBORN, both(servable(s, r), 1 <= s.ntok[r])),
    )


@invariant("LIFE-14")
def length_in_bounds(s: State) -> Value:
    """A request that goes on has fewer tokens than its limits allow. Upstream: 51299."""
    return s.k.forall(
        "R",
        lambda r: implies(
            both(
                s.stage[r] != UNBORN,
                either(s.stage[r] != LEAVING, s.leaving == BACK),
                goes_on(s, r),
                neg(both(s.open == 1, r == s.taker)),
                neg(awaits_input(s, r)),
            ),
            s.ntok[r] <= longest(s, r),
        ),
    )
