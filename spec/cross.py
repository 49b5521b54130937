"""The readings of encoder-decoder models: what their encoder makes is no part of the prompt.

An item of such a model (the sound to write down, say) stands before the prompt, whole, however
long it is. Its embeddings are computed with the first token of its request and are kept in blocks
of the cross-attention layers, which the request has all its life; so workers forget them a step
later, and nothing is shared. Each reading asks `s.k.encoder_decoder` or `s.k.crosses` first, and
where that is off says what the core says; whoever has no such model need not read on.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import WAIT_PHASE
from nullblock.spec.kernel import State, Value, both, ite


def is_cross(s: State, t: Value) -> Value:
    """Whether the layers of table t are cross-attention layers."""
    return s.k.cross_of(t) if s.k.crosses else False


@clause("GROUP-50")
def attended(s: State, t: Value) -> Value:
    """A table of cross-attention layers has the blocks that the embeddings of the request's items
    need, and gets them all when it is admitted: none for its tokens, none later.

    Source: KVCacheCoordinator.get_num_blocks_to_allocate, KVCacheCoordinator.allocate_new_blocks;
    Scheduler.schedule, num_encoder_tokens.
    """
    if not s.k.encoder_decoder:
        return 0
    enters = both(s.phase == WAIT_PHASE, s.planning == 2, s.planner == s.k.owner(t))
    return ite(enters, s.pcost - s.pload, 0)


@clause("ENC-50")
def has_begun(s: State) -> Value:
    """An encoder-decoder model computes every item of a request with its first token, and none
    with a later one.

    Source: Scheduler._try_schedule_encoder_inputs. A request that was preempted begins again.
    """
    return s.pfrom > 0


@clause("ENC-51")
def encodable_at_once(s: State, r: Value) -> Value:
    """A request of an encoder-decoder model can be served only if all its items together can be
    computed in one step.

    Source: our decision; vLLM lets such a request wait for ever.
    """
    n = s.k.encoder_tokens(r)
    return both(n <= s.k.encoder_budget, n <= s.k.encoder_slots)


def is_told_to_forget(s: State) -> Value:
    """Whether every item of the step that was decided is noted for the step after it."""
    if not s.k.encoder_decoder:
        return True
    return s.ngone >= (s.nask if s.k.loads_items else s.ninput)
