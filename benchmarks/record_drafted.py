"""Records a bundled trace with speculative decoding: the real vLLM 0.22.1 scheduler, in step, with
drafts of an EAGLE-like method.

    python benchmarks/record_drafted.py

needs the real engine (``make oracle``). The workload is made up: prompts that share prefixes, a
pool that outputs outgrow together, a model that agrees with some drafts, and ends among them. The
same seed gives the same bytes.
"""

import random
from typing import Any

from record_mooncake import ROOT
from record_scenario import OUTPUTS, crowd, record

OUTPUT = ROOT / "conformance" / "bundled" / "drafted-eagle.jsonl.zst"
SEED = 7
REQUESTS = 260
CONFIG: dict[str, Any] = {
    "block_size": 4,
    "num_blocks": 64,
    "max_num_batched_tokens": 48,
    "max_num_seqs": 10,
    "max_model_len": 96,
    "scheduler_reserve_full_isl": False,
    "vocab": 50,
    "num_spec_tokens": 4,
    "spec_method": "eagle",
    "accept": "hash",
    "drafts": {"length": [4, 4, 4, 2, 4, 4, 0, 4, 4, 3]},
}


def scenario() -> dict[str, Any]:
    """Ends by EOS and by stop tokens, which the model agrees with now and then."""
    chance = random.Random(SEED)

    def more(number: int) -> dict[str, Any]:
        ends = {"eos": 3} if chance.random() < 0.5 else {"stop": [7, 8]}
        return {
            "max_tokens": chance.choice(OUTPUTS),
            "min_tokens": 0 if chance.random() < 0.7 else 1,
            **ends,
        }

    return crowd(CONFIG, chance, REQUESTS, (8, 12, 16, 24, 33, 5, 9), more)


if __name__ == "__main__":
    record(scenario(), OUTPUT)
