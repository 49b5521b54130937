"""Wrong keys and values change tokens: each defect here does, and is found by it."""

from collections import Counter

import pytest
from planted import planted
from served import Case, differing

BATCH, WORKER, MODEL = "decoder/batch.py", "decoder/worker.py", "decoder/model.py"
DEFECTS = {
    "written to the slot beside": (
        BATCH,
        "block * self.block_size + positions % self.block_size",
        "block * self.block_size + (positions + 1) % self.block_size",
    ),
    "a resumed request keeps its old table": (
        BATCH,
        "self.num_blocks[row] = 0",
        "self.num_blocks[row] *= id in step.all_token_ids",
    ),
    "a resumed request keeps its old tokens": (
        BATCH,
        "sent = dict(step.all_token_ids)",
        "sent = {}",
    ),
    "positions off by one after the first step": (
        BATCH,
        "positions=positions,",
        "positions=positions + (computed > 0)[which],",
    ),
    "one chunk's positions start over": (
        BATCH,
        "positions=positions,",
        "positions=torch.where((scheduled > 1)[which], offset, positions),",
    ),
    "the place of a request taken for its row": (
        BATCH,
        "block_table=self.table[rows,",
        "block_table=self.table[: len(rows),",
    ),
    "blocks noted in another order": (
        BATCH,
        "blocks[first : first + counts[i]])",
        "blocks[first : first + counts[i]].flip(0))",
    ),
    "sampled tokens noted one place too far": (
        BATCH,
        "self.tokens[rows, at]",
        "self.tokens[rows, at + 1]",
    ),
    "the last token of a step is not written": (
        WORKER,
        "self.cache.write(layer, key, value, inputs.slot_mapping)",
        "self.cache.write(layer, key[:-1], value[:-1], inputs.slot_mapping[:-1])",
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
    "a block of a chunk is cached before it is computed": (
        "running_phase.py",
        "np.minimum(running.num_computed[part] + tokens, running.num_tokens[part])",
        "running.num_tokens[part].copy()",
    ),
    "what was not computed stays cached": (
        "running_phase.py",
        "state.pool.cache.evict(running.blocks(victim, computed))",
        "pass",
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
CASES = 80
CATCHES = 2
"""Cases that have to show a defect."""


def caught(poison: bool) -> Counter[str]:
    """How a defect shows in the first cases that show it."""
    found: Counter[str] = Counter()
    for seed in range(CASES):
        try:
            found["tokens"] += bool(differing(Case(seed), Counter(), poison=poison))
        except RuntimeError as error:
            found[type(error).__name__] += 1
        except (AssertionError, IndexError, ValueError):
            continue  # the engine itself noticed: that is another test's business
        if found["tokens"] + found["UnwrittenRead"] >= CATCHES:
            break
    return found


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_changes_tokens(name: str) -> None:
    """With what stood in the cache before still in it, tokens change; with NaN in every slot that
    nobody wrote, tokens change or the read is noticed.
    """
    with planted(*DEFECTS[name]):
        print(name, caught(poison=False), caught(poison=True))
        assert caught(poison=False)["tokens"] >= CATCHES
        found = caught(poison=True)
        assert found["tokens"] + found["UnwrittenRead"] >= CATCHES
