"""Records the second bundled trace: the real vLLM 0.22.1 scheduler, PRIORITY, in a pool too small.

    python benchmarks/record_crowded.py

needs the real engine (``make oracle``). The workload is made up: prompts of whole blocks that
share prefixes, three priorities, outputs that outgrow the pool together. It is there for what a
service in good health seldom does: victims that were already scheduled, hits on blocks about to
be evicted, small requests behind a preemption. The same seed gives the same bytes.
"""

import random
from typing import Any

from record_mooncake import ROOT
from record_scenario import OUTPUTS, crowd, record

OUTPUT = ROOT / "conformance" / "bundled" / "crowded-priority.jsonl.zst"
SEED = 22
REQUESTS = 500
CONFIG: dict[str, Any] = {
    "block_size": 4,
    "num_blocks": 41,
    "max_num_batched_tokens": 24,
    "max_num_seqs": 12,
    "max_model_len": 96,
    "policy": "priority",
    "scheduler_reserve_full_isl": False,
}


def scenario() -> dict[str, Any]:
    """Three priorities, and outputs of any length."""
    chance = random.Random(SEED)

    def more(number: int) -> dict[str, Any]:
        return {
            "max_tokens": chance.choice(OUTPUTS),
            "priority": chance.randrange(3),
            "arrival": number,
        }

    return crowd(CONFIG, chance, REQUESTS, (4, 8, 8, 12, 16, 24, 5, 9), more)


if __name__ == "__main__":
    record(scenario(), OUTPUT)
