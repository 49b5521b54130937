"""No stream of the real vLLM 0.22.1 breaks the law, and what the law concludes is so."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kv_event_files import DATA, judged
from kv_event_scenarios import GROUPS, cached, events, scenario
from oracle.client import Oracle

from nullblock.spec.kv_events import Cache, Premises, judge, take

SEEDS = 60
RECORDER = Path(__file__).with_name("record_kv_events.py")
NAMES = ("full", "async", "window", "groups", "evicted", "session")
ALWAYS = {f"EVENT-{n}" for n in (2, 3, 7, 9, 10, 11, 12)}
FULL = {f"EVENT-{n}" for n in (4, 5, 6, 8)}


@pytest.fixture(scope="module")
def hashing(oracle_python: Path) -> Iterator[Oracle]:
    """The real engine, its events with whole hashes: such as its state is told in."""
    with Oracle(oracle_python) as server:
        server.command = ["env", "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0", *server.command]
        yield server


def follow(lines: list[str], premises: Premises, judged: Counter[str], compare: bool) -> int:
    """Judge the events of a run; with `compare` what they say is cached with what is."""
    cache, number = Cache(premises), 0
    for batch, state in events(lines):
        for event in batch:
            number += 1
            assert judge(cache, event, judged) is None, (number, event)
            take(cache, event, number)
        if compare and state is not None:
            told = {f"{hash}:{group}": e.copies for (group, hash), e in cache.entries.items()}
            assert told == cached(state)
    return number


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("groups", GROUPS)
def test_true_streams_break_no_law(groups: str, hashing: Oracle, oracle: Oracle) -> None:
    """Under preemption, PRIORITY, eviction, resets, drafts, asynchrony and loads from elsewhere no
    event breaks a law, and what the events say is cached is what the engine has cached."""
    counts, total = Counter[str](), 0
    # Twelve digits of a hash do not tell blocks of several hashes apart: see FORMAT.md.
    several = "block sizes" in groups
    for seed in range(SEEDS):
        made = scenario(str(seed), groups, evict=False)
        lines = (oracle if several else hashing).lines(made)
        premises = Premises(made["config"]["num_blocks"], no_connector=True)
        total += follow(lines, premises, counts, compare=not several)
    assert total > 1000
    has_full = any(group["type"] in ("full", "sink") for group in GROUPS[groups])
    assert set(counts) == ALWAYS | (FULL if has_full else set())


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("groups", ["full", "window", "full and window"])
def test_evictions_by_number_break_no_law(groups: str, hashing: Oracle) -> None:
    """Where blocks are evicted by number, as after a failed load, only the laws that need no
    connector are out of force."""
    counts = Counter[str]()
    for seed in range(SEEDS):
        made = scenario(str(seed), groups)
        premises = Premises(made["config"]["num_blocks"])
        follow(hashing.lines(made), premises, counts, compare=True)
    assert not {"EVENT-5", "EVENT-6"} & set(counts)


@pytest.mark.oracle
@pytest.mark.slow
def test_evictions_by_number_do_break_the_laws_without_connectors(hashing: Oracle) -> None:
    """So the premise of EVENT-5 and EVENT-6 is needed."""
    broken = Counter[str]()
    for seed in range(3 * SEEDS):
        made = scenario(str(seed), "full")
        cache = Cache(Premises(no_connector=True))
        for batch, _ in events(hashing.lines(made)):
            for event in batch:
                found = judge(cache, event, Counter())
                broken.update([found[0]] if found else [])
                take(cache, event, 1)
    assert set(broken) == {"EVENT-5", "EVENT-6"}


@pytest.mark.oracle
@pytest.mark.slow
def test_lines_of_the_driver_are_judged(oracle: Oracle) -> None:
    """Runs of the driver, one after another in a file, break no law."""
    lines: list[str] = []
    for seed in range(12):
        made = oracle.lines(scenario(str(seed), "full", evict=False))
        lines += [line for line in made if json.loads(line)["ev"] != "EXCEPTION"]
    found = judged(("\n".join(lines) + "\n").encode(), no_connector=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    assert found.evidence.restarts == 11 and found.evidence.judged["EVENT-3"] > 100


@pytest.mark.oracle
def test_hashes_that_are_cut_are_refused(hashing: Oracle) -> None:
    """Twelve digits of a hash that is made of several do not tell blocks apart: no verdict."""
    lines = hashing.lines(scenario("2", "block sizes"))
    found = judged(("\n".join(lines) + "\n").encode())
    assert found.verdict == "MALFORMED" and found.first is not None
    assert "twelve digits" in found.first.what


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_recordings_are_what_the_real_engine_sends(
    name: str, oracle_python: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each recording in ``data/kv_events`` comes out again, to the byte; --rewrite makes them."""
    path = tmp_path / "recorded"
    command: list[Any] = [oracle_python, "-B", RECORDER, name, path]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": "0"}, capture_output=True)
    kept = DATA / f"{name}.msgpack"
    if request.config.getoption("--rewrite"):
        kept.write_bytes(path.read_bytes())
    assert path.read_bytes() == kept.read_bytes()
