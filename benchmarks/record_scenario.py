"""Records a scenario inside the real vLLM 0.22.1, for the bundled traces."""

import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from record_mooncake import ROOT, pack

OUTPUTS = (1, 4, 12, 30, 60)
"""Tokens that a request may ask for."""


def crowd(
    config: dict[str, Any],
    chance: random.Random,
    requests: int,
    lengths: Sequence[int],
    more: Callable[[int], dict[str, Any]],
) -> dict[str, Any]:
    """A scenario of arrivals, steps and a few aborts, whose outputs outgrow a small pool together.

    Prompts have one of these `lengths`, in tokens, and share prefixes in five families; `more`
    gives the rest of a request by its number.
    """
    events: list[dict[str, Any]] = []
    for number in range(requests):
        length = chance.choice(lengths)
        family = chance.randrange(5) * 1000
        prompt = {"range": [family, family + length]}
        events.append({"op": "add", "id": f"r{number}", "prompt": prompt, **more(number)})
        if chance.random() < 0.04:
            events.append({"op": "abort", "ids": [f"r{chance.randrange(number + 1)}"]})
        events.append({"op": "step", "n": chance.choice((0, 1, 1, 2, 4))})
    return {"config": config, "events": [*events, {"op": "run", "max_steps": 400}]}


def record(scenario: dict[str, Any], output: Path) -> None:
    """Record in the real engine's environment, then pack and seal in this one."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "scenarios.json"
        asked.write_text(json.dumps({"trace": scenario}))
        program = ROOT / "tests" / "conformance" / "record_engine.py"
        command = [ROOT / ".oracle" / "bin" / "python", "-B", program, asked, folder]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin"})
        pack(Path(folder) / "trace.jsonl", output)
