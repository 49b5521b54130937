"""Requests that want a vector: readings that plug in at named points of the core.

The model computes the prompt of such a request and makes one vector of it. No token is sampled:
the output of the step that computes the last of the prompt brings the vector, and with it the
request ends.

Where no request wants a vector (`wants_vectors` is false), each reading says what the core says.
What is written is in `nullblock.spec.rules.pooling`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.flight import owes_token
from nullblock.spec.kernel import State, Value, both


@clause("UPD-50")
def pools(s: State, r: Value) -> Value:
    """A request that wants a vector ends with the first that comes, whatever would stop it
    otherwise.

    Source: Scheduler.update_from_output: pooler_output.
    """
    return s.k.pools(r) if s.k.wants_vectors else False


def has_its_vector(s: State, r: Value) -> Value:
    """Whether r has its vector, and has not ended yet."""
    return both(s.open == 1, s.taker == r, pools(s, r))


def last_owed(s: State, r: Value) -> Value:
    """The entry in flight, the last of them, that brings r a vector."""

    def brings(i: Value) -> Value:
        return both(s.cur <= i, i < s.nframe, s.frame[i] == r, owes_token(s, i))

    return s.k.first("I", brings, lambda i: -i, by="flight")
