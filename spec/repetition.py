"""Repetition detection: where a request's outputs end in the same tokens over and over.

Whether they do, as often and in patterns as long as the request says, is a reading of its last
token, as what ends it by itself is: `REPEATS`, of one that is neither eos nor a stop id.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import CONTINUE, REPEATS, REPETITION
from nullblock.spec.kernel import State, Value, both, ite
from nullblock.spec.sessions import num_output


@clause("UPD-70")
def check_repetition(s: State, r: Value) -> Value:
    """A request that neither a token nor a length limit stops, stops where its outputs end in a
    repetition that it wants detected, but not below min_tokens.

    Source: check_stop, check_sequence_repetition. Of a session, outputs of earlier turns are its
    prompt, and do not count.
    """
    repeats = both(s.k.last_token(s, r) == REPEATS, num_output(s, r) >= s.k.min_tokens(r))
    return ite(repeats, REPETITION, CONTINUE)
