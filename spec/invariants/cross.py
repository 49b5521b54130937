"""Encoder-decoder models: what a step computes, and the blocks of cross-attention layers. Of other
models there is nothing to say here.
"""

from nullblock.spec.cross import is_cross
from nullblock.spec.fields import DECIDED, RUN_PHASE, RUNNING, WAIT_PHASE
from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.sizes import blocks_of


def _is_open(s: State) -> Value:
    """Whether a step is being decided."""
    return either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE, s.phase == DECIDED)


def _computes(s: State, r: Value, i: Value) -> Value:
    """Whether the open step computes r's i-th item."""
    return neg(
        s.k.forall(
            "I",
            lambda j: neg(both(s.inputof[j] == r, s.inputs[j] == i + 1)),
            span=lambda: (0, s.ninput),
        )
    )


@invariant("ENC-53")
def steps_have_the_whole_room(s: State) -> Value:
    """In an encoder-decoder model there is never more room for items than the encoder cache has,
    and while a step is decided room and budget are what its own items leave. Upstream: 51228,
    55733.
    """
    if not s.k.encoder_decoder:
        return True

    def embeddings(i: Value) -> Value:
        return ite(both(0 <= i, i < s.ninput), s.k.item_size(s.inputof[i], s.inputs[i] - 1), 0)

    computed = s.k.sum_over("I", embeddings)
    return both(
        both(s.eroom >= 0, s.eroom == s.efree, s.eroom + computed <= s.k.encoder_slots),
        implies(
            _is_open(s),
            both(
                s.eroom + computed == s.k.encoder_slots,
                both(s.ebudget >= 0, s.ebudget + computed == s.k.encoder_budget),
            ),
        ),
    )


@invariant("ENC-55")
def first_token_has_every_item(s: State) -> Value:
    """In an encoder-decoder model a step computes, of each request whose first token it computes,
    every item, and of no other request any.
    """
    if either(not s.k.encoder_decoder, neg(_is_open(s))):
        return True

    def begins(r: Value) -> Value:
        return both(s.sched[r] > 0, s.comp[r] == 0)

    def are_computed(r: Value) -> Value:
        return s.k.forall("I", lambda i: _computes(s, r, i), span=lambda: (0, s.k.num_items(r)))

    asks = s.asked != 0
    return both(
        s.k.forall("R", lambda r: implies(begins(r), are_computed(r))),
        s.k.forall(
            "I",
            lambda j: either(begins(s.inputof[j]), both(asks, s.inputof[j] == s.actor)),
            span=lambda: (0, s.ninput),
        ),
    )


@invariant("GROUP-51")
def attended_is_held(s: State) -> Value:
    """Of cross-attention layers a running request holds a block for each embedding of its items,
    and no block more.
    """
    if not s.k.crosses:
        return True
    return s.k.forall(
        "T",
        lambda t: implies(
            both(is_cross(s, t), s.stage[s.k.owner(t)] == RUNNING),
            s.tlen[t] == blocks_of(s, t, s.k.encoder_tokens(s.k.owner(t))),
        ),
    )
