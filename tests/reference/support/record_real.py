"""Records what the real vLLM 0.22.1 does, as digests that the tests compare with.

    python tests/reference/support/record_real.py

The real engine runs under the interpreter that NULLBLOCK_ORACLE_PYTHON names, or else under
``.oracle/bin/python`` in the checkout. Rewrites ``tests/reference/data``: explain any change.
"""

import json
import os
import subprocess
from pathlib import Path

from random_scenarios import random_scenario
from vllm_shaped_driver import whole_digest

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
ORACLE = os.environ.get("NULLBLOCK_ORACLE_PYTHON", str(HERE.parents[2] / ".oracle/bin/python"))


def real_digests(scenarios: list[object]) -> list[list[str]]:
    """The digests of the real engine's lines, by scenario."""
    done = subprocess.run(
        [ORACLE, str(HERE / "vllm_shaped_driver.py"), "vllm"],
        input="".join(json.dumps(scenario) + "\n" for scenario in scenarios),
        env={**os.environ, "PYTHONHASHSEED": "0", "VLLM_LOGGING_LEVEL": "CRITICAL"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Rewrite the data."""
    named = json.loads((DATA / "scenarios.json").read_text())
    real = real_digests(list(named.values()))
    lines = [f"{json.dumps(name)}: {json.dumps(d)}" for name, d in zip(named, real, strict=True)]
    (DATA / "named_digests.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    # One digest a seed: a seed that differs is looked at by running the two engines.
    for name, ahead, num_seeds in (("random", False, 600), ("ahead", True, 400)):
        by_seed = real_digests([random_scenario(seed, ahead) for seed in range(num_seeds)])
        whole = [whole_digest(lines) for lines in by_seed]
        (DATA / f"{name}_digests.json").write_text(json.dumps(whole, indent=0) + "\n")


if __name__ == "__main__":
    main()
