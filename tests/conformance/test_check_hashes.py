"""The hashes of a prompt, which the checker looks for all at once, are those of its blocks."""

import io
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from bases import KEPT
from traces import trace_of

from nullblock.conformance.checker.chains import Chain
from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.lines.example import VECTORS
from nullblock.spec.longest_hits import LongestHits

ROUNDS = json.loads((VECTORS / "groups-three-kinds-agree-in-rounds.json").read_text())
SESSION = {
    "config": {
        **{"block_size": 4, "num_blocks": 64},
        "groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 4}],
    },
    "events": [
        {"op": "add", "id": "s", "prompt": {"range": [0, 6]}, "max_tokens": 2, "resumable": True},
        {"op": "step", "n": 3},
        {"op": "add", "id": "s", "prompt": {"range": [9, 15]}, "max_tokens": 9, "resumable": True},
        {"op": "step", "n": 2},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "step", "n": 12},
    ],
}
"""One that drops a token, and is looked up after."""
MADE = {"kinds in their turn": (ROUNDS, "vllm-0.22.1"), "a session": (SESSION, "normative")}
RECORDINGS = ("windows", "sizes", "hybrid", "uncached")
"""Of one group and of several, of blocks of one size and of two, and of no hashes."""


def trace(name: str) -> bytes:
    """That of a recording, or of a scenario."""
    if name in MADE:
        document, semantics = MADE[name]
        return trace_of(document, semantics=semantics)
    return (KEPT / f"{name}.jsonl").read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_numbers_are_those_of_the_places(seed: int) -> None:
    """Of whatever runs, from wherever, with whatever stride."""
    r = random.Random(seed)
    chain = Chain((r.randrange(1000), r.randrange(1, 6)) for _ in range(r.randrange(1, 9)))
    for _ in range(20):
        places = range(r.randrange(chain.length), chain.length, r.randrange(1, 5))
        places = places[: r.randrange(len(places) + 1)]
        assert list(chain.numbers(places)) == [chain[i] for i in places]


def test_of_no_place_there_is_none() -> None:
    """Nor does an empty chain need any."""
    assert not list(Chain(()).numbers(range(0)))


@pytest.mark.parametrize("name", [*RECORDINGS, *MADE])
def test_all_at_once_as_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every lookup of a recording, beyond the end of a chain too."""
    at_once, seen = Recorded.hashes, Counter[bool]()

    def compared(k: Recorded, t: Any, first: int, end: int) -> Iterable[Any]:
        found = list(at_once(k, t, first, end))
        assert found == list(LongestHits.hashes(k, t, first, end))
        seen[bool(found)] += 1
        return found

    monkeypatch.setattr(Recorded, "hashes", compared)
    stream = io.BytesIO(trace(name))
    assert check(Path(name), stream=stream, deep=False).verdict == "CONFORMS"
    assert seen[True] > 0 or name == "uncached"
