"""Remote KV: who counts on blocks that were not loaded, and what is left of his tokens.

Requests are looked at one after the other (`nullblock.spec.remote`): whom a report concerns goes
back to the first block that he lacks. The rules: `nullblock.spec.rules.loads`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import RUNNING
from nullblock.spec.kernel import State, Value, both, ite, neg
from nullblock.spec.sizes import blocks_of, tokens_of


def granted_now(s: State, r: Value) -> Value:
    """Tokens that the oldest step in flight computes of r, or of who had its id."""
    return s.k.matching(s.frame, s.cur, s.fend[s.oldest], r, s.grant)


@clause("REMOTE-6")
def trusted(s: State, r: Value) -> Value:
    """A block that was not loaded concerns whoever counts on its tokens as computed.

    Source: Scheduler._update_requests_with_invalid_blocks. vllm-0.22.1 leaves out those that the
    step computes whose output comes, and nobody else's in flight.
    """
    if s.k.sem.failed_loads_start_over:
        return s.comp[r]
    return s.comp[r] - granted_now(s, r)


def is_missing(s: State, t: Value, i: Value) -> Value:
    """Whether the block at place i of table t was not loaded, and its request counts on it."""
    inside = both(0 <= i, i < s.tlen[t], i < blocks_of(s, t, trusted(s, s.k.owner(t))))
    return both(inside, s.invalid[s.tab[t, i]] != 0)


def is_short_in(s: State, t: Value) -> Value:
    """Whether the request of table t counts on a block there that was not loaded."""
    return neg(s.k.forall("I", lambda i: neg(is_missing(s, t, i)), span=lambda: (0, s.tlen[t])))


def is_short(s: State, r: Value) -> Value:
    """Whether r counts on a block that was not loaded."""
    if s.k.several:
        return s.k.exists("G", lambda g: is_short_in(s, s.k.table(r, g)))
    return is_short_in(s, r)


def claim_of(s: State, r: Value) -> Value:
    """What tells who computes a block again: those that wait and those that run are looked at one
    after the other.
    """
    return ite(s.stage[r] == RUNNING, 2, 1)


@clause("REMOTE-7")
def is_own(s: State, r: Value, i: Value) -> Value:
    """Whoever lacks blocks goes back to the first of them.

    Source: Scheduler._update_requests_with_invalid_blocks. In vllm-0.22.1 to the first that no one
    found before computes again.
    """
    if s.k.sem.failed_loads_start_over:
        return is_missing(s, r, i)
    return both(is_missing(s, r, i), s.claimed[s.tab[r, i]] != claim_of(s, r))


def has_own(s: State, r: Value) -> Value:
    """Whether r lacks a block that no one found before computes again."""
    return neg(s.k.forall("I", lambda i: neg(is_own(s, r, i)), span=lambda: (0, s.tlen[r])))


def first_own(s: State, r: Value) -> Value:
    """The place of the first of those."""
    return s.k.first("I", lambda i: is_own(s, r, i), lambda i: i, by="places")


def left_in(s: State, t: Value) -> Value:
    """Tokens before the first block that table t lacks, if it lacks one."""
    return tokens_of(s, t, s.k.first("I", lambda i: is_missing(s, t, i), lambda i: i, by="places"))


def left_of(s: State, r: Value) -> Value:
    """Tokens of r that count as computed once it lacks what was not loaded: of several groups
    those that all of them have.
    """
    if s.k.several:
        g = s.k.first(
            "G",
            lambda g: is_short_in(s, s.k.table(r, g)),
            lambda g: left_in(s, s.k.table(r, g)),
        )
        return left_in(s, s.k.table(r, g))
    if has_own(s, r):
        return s.k.tokens(first_own(s, r))
    return trusted(s, r)


def first_cutoff(s: State, r: Value) -> Value:
    """The place of the first block that leaves the prefix cache with them."""
    if has_own(s, r):
        return first_own(s, r)
    return s.tlen[r]
