"""Records the second bundled trace: the real vLLM 0.22.1 scheduler, PRIORITY, in a pool too small.

    python benchmarks/record_crowded.py

needs the real engine (``make oracle``). The workload is made up: prompts of whole blocks that
share prefixes, three priorities, outputs that outgrow the pool together. It is there for what a
service in good health seldom does: victims that were already scheduled, hits on blocks about to
be evicted, small requests behind a preemption. The same seed gives the same bytes.
"""

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from record_mooncake import ROOT, pack

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
    """Arrivals, steps and a few aborts."""
    chance = random.Random(SEED)
    events: list[dict[str, Any]] = []
    for number in range(REQUESTS):
        length = chance.choice((4, 8, 8, 12, 16, 24, 5, 9))
        family = chance.randrange(5) * 1000
        events.append(
            {
                "op": "add",
                "id": f"r{number}",
                "prompt": {"range": [family, family + length]},
                "max_tokens": chance.choice((1, 4, 12, 30, 60)),
                "priority": chance.randrange(3),
                "arrival": number,
            }
        )
        if chance.random() < 0.04:
            events.append({"op": "abort", "ids": [f"r{chance.randrange(number + 1)}"]})
        events.append({"op": "step", "n": chance.choice((0, 1, 1, 2, 4))})
    return {"config": CONFIG, "events": [*events, {"op": "run", "max_steps": 400}]}


def main() -> None:
    """Record in the real engine's environment, then pack and seal in this one."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "scenarios.json"
        asked.write_text(json.dumps({"crowded": scenario()}))
        program = ROOT / "tests" / "conformance" / "record_engine.py"
        command = [ROOT / ".oracle" / "bin" / "python", "-B", program, asked, folder]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"})
        pack(Path(folder) / "crowded.jsonl", OUTPUT)


if __name__ == "__main__":
    main()
