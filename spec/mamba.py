"""The readings of Mamba layers: their past is one state, and a block holds that after its last
token.

The next token needs the state after the one before it and nothing else, so that to all readings
of a part of the past they are layers with a window of two (`nullblock.spec.facts.Group.window`).
What they add is here. Each reading asks `s.k.mamba` first, and where that is off says what the
core says; whoever has no such layers need not read on.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.kernel import State, Value, both, either, ite, neg


def is_mamba(s: State, t: Value) -> Value:
    """Whether the layers of table t are Mamba layers."""
    return s.k.mamba_of(t) if s.k.mamba else False


@clause("GROUP-23")
def beside(s: State, t: Value) -> Value:
    """A table of Mamba layers has, besides the blocks that its tokens need, a block for each state
    that drafts may need: num_speculative_blocks of them.

    Source: MambaManager.get_num_blocks_to_allocate, MambaManager.allocate_new_blocks.
    """
    return s.k.beside_of(t) if s.k.mamba else 0


def for_tokens(s: State, t: Value) -> Value:
    """How many blocks of table t are there for tokens."""
    return s.tlen[t] - beside(s, t)


@clause("GROUP-24")
def settled_states(s: State, t: Value, computed: Value) -> Value:
    """Of computed tokens the states of Mamba layers count as settled but for as many as there are
    blocks beside: drafts may be taken back.

    Source: MambaManager.remove_skipped_blocks. In vllm-0.32.0 none has to be kept so: what is in
    flight does not count as computed (GROUP-6).
    """
    if either(not s.k.mamba, s.k.sem.windows_await_outputs):
        return computed
    settled = computed - beside(s, t)
    return ite(settled > 0, settled, 0)


def has_a_place(s: State, t: Value) -> Value:
    """Whether there is a place for the next block that is cached of table t, where each state is
    noted by it (GROUP-25): a prompt longer than max_model_len fills more blocks than there are.

    Source: MambaManager.cache_blocks; in vllm-0.22.1 only those that there are are noted.
    """
    if either(not s.k.mamba, not s.k.sem.states_noted_by_place):
        return True
    return either(neg(is_mamba(s, t)), s.ncached[t] < s.tlen[t])


def is_made_now(s: State, h: Value) -> Value:
    """Whether this step computes the state with hash h."""
    return s.k.exists("B", lambda b: both(s.anew[b] == 1, s.hsh[b] == h), by="anew")
