"""Stop tokens of many requests side by side: each stops by its own, and by nobody else's."""

import random
from typing import Any

import pytest
from audit import audited_lines
from fuzz import lockstep
from planted import planted

from nullblock.spec.profiles import VLLM_0_22_1


def scenario(seed: int) -> dict[str, Any]:
    """Requests with none to eight stop tokens of a vocabulary of twenty come and go."""
    dice = random.Random(f"stops:{seed}")
    events: list[dict[str, Any]] = []
    for number in range(30):
        stop = dice.sample(range(20), dice.choice([0, 1, 1, 2, 3, 8]))
        events.append(
            {
                "op": "add",
                "id": f"r{number}",
                "prompt": [number] * dice.randrange(1, 9),
                "max_tokens": 20,
                "min_tokens": dice.choice([0, 0, 3]),
                **({"stop": stop} if stop else {}),
                **({"eos": dice.randrange(20)} if dice.random() < 0.3 else {}),
            }
        )
        if seed < 2 or number == 15:
            events.append({"op": "step", "n": dice.randrange(1, 4)})
    # In the last one more run than there are rows at first.
    most = 5 if seed < 2 else 24
    config = {"vocab": 20, "seed": seed, "block_size": 4, "num_blocks": 200, "max_num_seqs": most}
    return {"config": config, "events": [*events, {"op": "run", "max_steps": 100}]}


def parts(seed: int) -> bool:
    """Whether the fast engine parts from the reference."""
    document = scenario(seed)
    lines = lockstep.lines_of("reference", document, VLLM_0_22_1)
    assert any('"stop_reason":' in line and '"finish":"stop"' in line for line in lines)
    return bool(lockstep.difference(lines, audited_lines(document, VLLM_0_22_1), bytewise=False))


def test_each_request_stops_by_its_own_tokens() -> None:
    """However many tokens it has, and whoever had its row before."""
    assert not any(parts(seed) for seed in range(3))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("running.py", "        self.stops[row] = NO_EOS\n"),
        ("running.py", "            larger[:, :have] = self.stops\n"),
        ("running.py", "        self.stops = grown(self.stops, n, self.stops.shape[1])\n"),
        ("update.py", "[state.running.row[places][some]]"),
    ],
)
def test_a_line_that_is_left_out_is_missed(file: str, line: str) -> None:
    """Somebody stops by a token of who was there before, or does not stop by one of its own."""
    new = "[: len(some)]" if file == "update.py" else ""
    with planted(file, line, new):
        assert any(parts(seed) for seed in range(3))
