"""The reference against what the real vLLM 0.22.1 was recorded to do."""

import json
import os
import re
import subprocess
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from random_scenarios import random_scenario
from vllm_shaped_driver import Driver, Names, digests, whole_digest

from nullblock.reference.kv_cache_manager import KVCacheManager

DATA = Path(__file__).parent / "data"
SCENARIOS: dict[str, Any] = json.loads((DATA / "scenarios.json").read_text())
NAMED: dict[str, list[str]] = json.loads((DATA / "named_digests.json").read_text())
RANDOM: list[str] = json.loads((DATA / "random_digests.json").read_text())
AHEAD: list[str] = json.loads((DATA / "ahead_digests.json").read_text())
NAMES = Names("nullblock.reference")

ORACLE_FOLDER = Path(__file__).parents[3] / "shared" / "oracle"
"""The driver that the recordings were first made with lies beside some checkouts."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_line_of_a_named_scenario_is_the_real_engines(name: str) -> None:
    """Decisions and whole state, hashes included, equal the recording line by line."""
    lines = Driver(NAMES, SCENARIOS[name]).run()
    wanted = NAMED[name]
    for number, (line, got) in enumerate(zip(lines, digests(lines), strict=True)):
        assert got == wanted[number], f"{name}: line {number} differs: {json.dumps(line)}"
    assert len(lines) == len(wanted)


@pytest.mark.parametrize("seed", range(len(RANDOM)))
def test_a_random_scenario_gives_the_real_engines_lines(seed: int) -> None:
    """The digest of every line of a random scenario equals the recording."""
    lines = Driver(NAMES, random_scenario(seed)).run()
    assert whole_digest(digests(lines)) == RANDOM[seed], f"random_scenario({seed})"


def test_the_random_scenarios_reach_what_they_are_for() -> None:
    """Together they preempt, resume with a hit, duplicate hashes, and take three at once."""
    seen = dict.fromkeys(("preempted", "several", "resumed hit", "duplicate", "three", "crash"), 0)
    for seed in range(0, len(RANDOM), 3):
        for line in Driver(NAMES, random_scenario(seed)).run():
            seen["crash"] += line["ev"] == "EXCEPTION"
            if line["ev"] != "schedule":
                continue
            seen["preempted"] += bool(line["preempted"])
            seen["several"] += len(line["preempted"]) > 1
            seen["three"] += len(line["order"]) >= 3
            seen["resumed hit"] += any(c[0] in line["resumed"] and c[2] for c in line["cached"])
            seen["duplicate"] += any(len(ids) > 1 for ids in line["state"]["cached_map"].values())
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize("seed", range(len(AHEAD)))
def test_steps_in_flight_give_the_real_engines_lines(seed: int) -> None:
    """So do scenarios with several steps in flight, asynchronous or not, with events or not."""
    lines = Driver(NAMES, random_scenario(seed, ahead=True)).run()
    assert whole_digest(digests(lines)) == AHEAD[seed], f"random_scenario({seed}, ahead=True)"


def test_the_scenarios_that_are_ahead_reach_what_they_are_for() -> None:
    """Preemption, discarding and ends with outputs in flight, at each depth; every event."""
    seen: Counter[str] = Counter()
    for seed in range(len(AHEAD)):
        driver = Driver(NAMES, random_scenario(seed, ahead=True))
        mode = "async" if driver.config["async_scheduling"] else "sync"
        before: dict[str, Any] = {}
        for line in driver.run():
            requests = line.get("state", {}).get("requests", before)
            owed = {name for name, r in before.items() if r["placeholders"] > 0}
            seen[f"{mode}, exception"] += line["ev"] == "EXCEPTION"
            seen["preempted, owed an output"] += bool(owed & {*line.get("preempted", ())})
            seen["resumed, owed an output"] += bool(owed & {*line.get("resumed", ())})
            ended = {output[0] for output in line.get("outputs", ()) if output[2]}
            seen["ended while preempted"] += any(
                before[name]["status"] == "PREEMPTED" for name in ended
            )
            seen["ended with more in flight"] += any(
                before[name]["placeholders"] > 1 for name in ended
            )
            seen["dropped"] += any(
                requests[name]["discard"] < r["discard"]
                for name, r in before.items()
                if name in requests
            )
            for events in line.get("batches", ()):
                seen.update(event["t"] for event in events)
            before = requests
        seen[f"{mode}, depth {driver.config['queue_depth']}"] += 1
    assert min(seen.values()) > 10, seen
    assert seen.keys() > {"BlockStored", "BlockRemoved", "AllBlocksCleared"}
    assert seen.keys() > {f"async, depth {depth}" for depth in (2, 3, 4)}


@pytest.mark.parametrize("seed", range(0, len(RANDOM), 10))
def test_the_shortcut_of_a_decode_step_changes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ``_is_covered`` every line is the same."""
    monkeypatch.setattr(KVCacheManager, "_is_covered", lambda *_: False)
    lines = Driver(NAMES, random_scenario(seed)).run()
    assert whole_digest(digests(lines)) == RANDOM[seed]
    lines = Driver(NAMES, random_scenario(seed % len(AHEAD), ahead=True)).run()
    assert whole_digest(digests(lines)) == AHEAD[seed % len(AHEAD)]


def rewritten_driver() -> types.ModuleType:
    """The original driver with nothing but its imports rewritten."""
    source = (ORACLE_FOLDER / "drive.py").read_text()
    source = source.replace("import torch\n", "torch = SimpleNamespace(float32=None)\n")
    source = source.replace("import vllm\n", "import nullblock.reference as vllm\n")
    source = source.replace("vllm.v1.core.", "nullblock.reference.")
    source = re.sub(r"vllm\.(v1|utils)\.", "nullblock.reference.", source)
    source = source.replace("vllm.sampling_params", "nullblock.reference.sampling_params")
    module = types.ModuleType("rewritten_drive")
    module.__file__ = str(ORACLE_FOLDER / "drive.py")
    exec(compile(source, "drive.py", "exec"), module.__dict__)
    return module


def comparable(lines: list[str]) -> list[str]:
    """The lines, without what two engines may spell differently."""
    kept = [line for line in lines if json.loads(line)["ev"] not in ("header", "trailer")]
    return ["EXCEPTION" if json.loads(line)["ev"] == "EXCEPTION" else line for line in kept]


RUN_ORIGINAL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import drive
print(json.dumps([drive.Driver(json.loads(text)).run() for text in sys.stdin]))
"""


@pytest.mark.oracle
@pytest.mark.skipif(not ORACLE_FOLDER.exists(), reason="no ../shared/oracle beside the checkout")
def test_the_original_driver_prints_the_same_bytes_on_both_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nothing but its imports rewritten, it prints what it prints on the real engine."""
    real_python = Path(__file__).parents[2] / ".oracle" / "bin" / "python"
    if not real_python.exists():
        pytest.skip("the real vLLM is not installed in .oracle")
    texts = [json.dumps(scenario) for scenario in SCENARIOS.values()]
    done = subprocess.run(
        [str(real_python), "-c", RUN_ORIGINAL, str(ORACLE_FOLDER)],
        input="\n".join(texts),
        env={**os.environ, "PYTHONHASHSEED": "0", "ORACLE_NO_TORCH": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    monkeypatch.delenv("ORACLE_NO_TORCH", raising=False)
    driver = rewritten_driver()
    for name, text, real in zip(SCENARIOS, texts, json.loads(done.stdout), strict=True):
        assert comparable(driver.Driver(json.loads(text)).run()) == comparable(real), name
