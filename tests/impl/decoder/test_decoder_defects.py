"""Wrong keys and values change tokens: each defect here does, and is found by it."""

from collections import Counter

import pytest
from planted import planted
from served import Case, differing

BATCH, WORKER, CACHE = "batch.py", "worker.py", "paged.py"
DEFECTS = {
    "keys and values go into the slot beside": (
        CACHE,
        "keys, values, inputs.slot_mapping, self.error",
        "keys, values, inputs.slot_mapping ^ 1, self.error",
    ),
    "the last token of a step is not written": (
        CACHE,
        "key, value, keys, values, inputs.slot_mapping,",
        "key[:-1], value[:-1], keys, values, inputs.slot_mapping[:-1],",
    ),
    "a prefix is common that is not": (
        CACHE,
        "prepared.num_common_prefix_blocks,",
        "prepared.num_common_prefix_blocks + (len(inputs.seq_lens) > 2),",
    ),
    "a resumed request keeps its old table": (
        BATCH,
        "admitted[grows].astype(np.int32)",
        "np.array([r not in step.all_token_ids for r in np.array(step.ids)[grows]]"
        ", np.int32) * admitted[grows].astype(np.int32)",
    ),
    "a resumed request keeps its old tokens": (
        BATCH,
        "sent[place] = tokens + ",
        "sent[place] = [] and tokens + ",
    ),
    "a resumed request lacks what is in flight": (
        BATCH,
        "sent[place] = tokens + ",
        "sent[place] = tokens or ",
    ),
    "positions off by one after the first step": (
        WORKER,
        "inputs.input_ids, inputs.positions, attend",
        "inputs.input_ids, inputs.positions + (inputs.positions > inputs.seq_lens[0]), attend",
    ),
    "a chunk's positions start over": (
        WORKER,
        "inputs.input_ids, inputs.positions, attend",
        "inputs.input_ids, torch.where(torch.arange(len(inputs.positions)) > 2, "
        "inputs.positions % 8, inputs.positions), attend",
    ),
    "blocks are noted in another order": (
        BATCH,
        "            step.new_block_ids,\n",
        "            step.new_block_ids[::-1].copy(),\n",
    ),
    "the first token of a chunk samples": (
        WORKER,
        "inputs.query_start_loc[1:].long() - 1",
        "inputs.query_start_loc[:-1].long()",
    ),
    "a shared block has one holder": (
        "block_pool.py",
        "self.ref_cnt[blocks] += 1",
        "self.ref_cnt[blocks] = 1",
    ),
    "a block that is hit stays in the free queue": (
        "block_pool.py",
        "self.free.remove(free)",
        "pass",
    ),
    "a block keeps its hash when it is given out again": (
        "block_pool.py",
        "self.cache.evict(blocks)",
        "pass",
    ),
    "another block is evicted": (
        "block_pool.py",
        "self.cache.evict(blocks)",
        "self.cache.evict(blocks[:-1])",
    ),
    "a block is cached before it is full": (
        "waiting_phase.py",
        "min(computed + tokens, n) // config.block_size",
        "n // config.block_size",
    ),
    "a hash says nothing of what is before the block": (
        "prefix_cache.py",
        "words = before.to_bytes(_WORD, sys.byteorder) + text",
        "words = bytes(_WORD) + text",
    ),
    "a resumed request counts as computed": (
        "waiting_phase.py",
        "place = running.enter(request, computed)",
        "place = running.enter(request, min(computed + 1, n - tokens))",
    ),
}
CASES = range(60)
SELDOM = {"a resumed request lacks what is in flight": 161}
"""A case to begin with, for what few cases show."""


def shows(seed: int, poison: bool) -> str:
    """How a defect shows in a case, if only as an error of the engine; empty: it does not."""
    try:
        return "tokens" if differing(Case(seed), Counter(), poison=poison) else ""
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_changes_tokens(name: str) -> None:
    """With what stood in the cache before still in it, some case gets other tokens; the same case
    with NaN in every slot that nobody wrote gets other tokens too, or the read is noticed.
    """
    file, old, new = DEFECTS[name]
    package = "nullblock.impl" + ".decoder" * (file in (BATCH, WORKER, CACHE))
    cases = [SELDOM.get(name, 0), *CASES]
    with planted(file, old, new, package):
        seed = next((n for n in cases if shows(n, poison=False) == "tokens"), None)
        assert seed is not None, f"{len(cases)} cases have the right tokens"
        found = shows(seed, poison=True)
        assert found in ("tokens", "UnwrittenRead")
