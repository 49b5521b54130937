"""Short forms for scenarios, and for reading their lines."""

from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Line = dict[str, Any]
Play = Callable[[dict[str, Any]], list[Line]]
"""Takes a scenario and gives an engine's lines; see ``conftest.py``."""

RUN: Event = {"op": "run", "max_steps": 100}


def add(id: str, start: int, num_tokens: int, max_tokens: int = 50, **more: Any) -> Event:
    """A request whose prompt is a range of tokens: equal starts share a prefix."""
    prompt = {"range": [start, start + num_tokens]}
    return {"op": "add", "id": id, "prompt": prompt, "max_tokens": max_tokens, **more}


def step(n: int = 1) -> Event:
    """Whole steps."""
    return {"op": "step", "n": n}


def schedules(lines: list[Line]) -> list[Line]:
    """The decisions, a line a step."""
    assert not [line for line in lines if line["ev"] == "EXCEPTION"]
    return [line for line in lines if line["ev"] == "schedule"]


def batch(line: Line) -> list[tuple[str, int]]:
    """Who gets how many tokens, in the order in which they were scheduled."""
    return [(id, line["num_scheduled_tokens"][id]) for id in line["order"]]
