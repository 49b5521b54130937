"""Small workloads that the tests of replays share, in every format, made here."""

import json
import random
from pathlib import Path
from typing import Any

Row = list[Any]


def write(path: Path, text: str) -> Path:
    """A file with this text."""
    path.write_text(text)
    return path


def mooncake(requests: int = 40, seed: int = 0) -> str:
    """Conversations that grow, a few at a time; some begin alike."""
    draw = random.Random(seed)
    rows, talks, next_id, time = [], [[0]], 1, 0
    for _ in range(requests):
        time += draw.choice((0, 0, 100, 1000))
        ids = list(draw.choice(talks))
        for _ in range(draw.randint(1, 2)):
            ids.append(next_id)
            next_id += 1
        if len(ids) < 4:
            talks.append(ids)
        # A partial block is nobody's beginning: the last id is used again only when it is full.
        length = 512 * len(ids)
        rows.append(
            {
                "timestamp": time,
                "input_length": length,
                "output_length": draw.randint(1, 200),
                "hash_ids": ids,
            }
        )
    return "".join(json.dumps(row) + "\n" for row in rows)


def azure(requests: int = 20, seed: int = 0) -> str:
    """Arrivals and lengths."""
    draw = random.Random(seed)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    second = 3.0
    for _ in range(requests):
        second += draw.random()
        lines.append(
            f"2023-11-16 18:17:{second:010.7f},{draw.randint(1, 3000)},{draw.randint(1, 30)}"
        )
    return "\n".join(lines) + "\n"


def packed_row(
    place: tuple[int, int, float], tokens: int, parent: int, lcp: int, **more: Any
) -> Row:
    """A row of a packed WEKA file: session, agent and time; what it shares with its parent."""
    session, agent, t = place
    new = tokens // 64 - lcp
    runs = [[1000, new]] if new else []
    out, api, think = (
        more.get(name, value) for name, value in (("out", 5), ("api", 1.0), ("think", 2.0))
    )
    return [session, agent, t, "n", 0, tokens, out, parent, lcp, runs, api, think, "end_turn"]


def weka_packed() -> str:
    """Two sessions; the first has a sub-agent that the third request of the main one waits for."""
    rows = [
        packed_row((0, 0, 0.0), 640, -1, 0),
        packed_row((0, 1, 2.0), 200, -1, 0),
        packed_row((0, 1, 4.0), 330, 1, 3),
        packed_row((0, 0, 9.0), 1000, 0, 10),
        packed_row((1, 0, 0.0), 700, -1, 0),
        packed_row((1, 0, 30.0), 900, 0, 10),
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def weka_published() -> str:
    """The same sessions as they are published, one a line."""

    def request(t: float, tokens: int, ids: list[int]) -> dict[str, Any]:
        return {
            "t": t,
            "in": tokens,
            "out": 5,
            "hash_ids": ids,
            "api_time": 1.0,
            "think_time": 2.0,
        }

    first = list(range(1, 11))
    agent = [
        request(2.0, 200, [101, 102, 103]),
        request(4.0, 330, [101, 102, 103, 104, 105]),
    ]
    sessions = [
        [
            request(0.0, 640, first),
            {"type": "subagent", "agent_id": "a", "requests": agent},
            request(9.0, 1000, [*first, *range(200, 205)]),
        ],
        [request(0.0, 700, first), request(30.0, 900, [*first, *range(300, 304)])],
    ]
    documents = [{"id": "x", "block_size": 64, "requests": requests} for requests in sessions]
    return "".join(json.dumps(document) + "\n" for document in documents)


FILES = {
    "mooncake": mooncake,
    "azure": azure,
    "packed": weka_packed,
    "published": weka_published,
}
