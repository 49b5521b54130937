"""Makes a scenario smaller while something about it stays true."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

Scenario = dict[str, Any]
Holds = Callable[[Scenario], bool]
REQUIRED = {"op", "id", "prompt", "ids", "state", "max_tokens"}
"""Keys of an event that cannot be left out, or would stand for more if they were."""


class _Spent(Exception):
    """As many scenarios were tried as may be."""


def shrink(scenario: Scenario, holds: Holds, budget: int = 600) -> Scenario:
    """A smaller scenario for which ``holds`` is true as it is for the given one.

    Greedy: a smaller one that still holds is taken, until there is none or ``budget`` were tried.
    The result is the same whenever ``holds`` is.
    """
    return _Search(scenario, holds, budget).best_there_is()


class _Search:
    def __init__(self, scenario: Scenario, holds: Holds, budget: int) -> None:
        self.best, self.holds, self.left = scenario, holds, budget

    def best_there_is(self) -> Scenario:
        """Turn by turn, until a turn changes nothing."""
        try:
            before = None
            while before != self.best:
                before = self.best
                self.fewer_events()
                self.smaller_parts()
        except _Spent:
            pass
        return self.best

    def takes(self, candidate: Scenario) -> bool:
        """Whether a candidate holds; it is the best one then. Raises _Spent."""
        if self.left == 0:
            raise _Spent
        self.left -= 1
        if self.holds(candidate):
            self.best = candidate
            return True
        return False

    def fewer_events(self) -> None:
        """Leave out runs of events, half as long each time."""
        size = len(self.best["events"])
        while size:
            # From the end: what comes after a difference is of no use.
            stop = len(self.best["events"])
            while stop > 0:
                events = self.best["events"]
                start = max(0, stop - size)
                self.takes({**self.best, "events": events[:start] + events[stop:]})
                stop = start
            size //= 2

    def smaller_parts(self) -> None:
        """Leave out settings, then keys of events; make numbers and prompts smaller."""
        for key in list(self.best["config"]):
            config = self.best["config"]
            self.takes({**self.best, "config": {k: v for k, v in config.items() if k != key}})
        for index in range(len(self.best["events"])):
            while any(map(self.takes, self.with_event(index))):
                pass
        for key in list(self.best["config"]):
            while any(map(self.takes, self.with_number(key))):
                pass

    def with_event(self, index: int) -> Iterator[Scenario]:
        """Scenarios with a smaller event in that place."""
        for smaller in _smaller_events(self.best["events"][index]):
            events = copy.copy(self.best["events"])
            events[index] = smaller
            yield {**self.best, "events": events}

    def with_number(self, key: str) -> Iterator[Scenario]:
        """Scenarios with a smaller number in that setting."""
        config = self.best["config"]
        for number in _smaller_numbers(config[key]):
            yield {**self.best, "config": {**config, key: number}}


def _smaller_events(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An event with a key less, or a smaller number."""
    for key, value in event.items():
        if key not in REQUIRED:
            yield {k: v for k, v in event.items() if k != key}
        if key == "prompt":
            yield from ({**event, "prompt": smaller} for smaller in _smaller_prompts(value))
        yield from ({**event, key: number} for number in _smaller_numbers(value))


def _smaller_numbers(value: Any) -> list[int]:
    """Numbers between 1 and a larger one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return []
    return [n for n in dict.fromkeys((1, value // 2, value - 1)) if 1 <= n < value]


def _smaller_prompts(prompt: Any) -> Iterator[Any]:
    """A part of a prompt, or a shorter one."""
    match prompt:
        case {"concat": parts}:
            yield from parts
        case {"range": [low, high]} if high > low + 1:
            yield {"range": [low, (low + high) // 2]}
            yield {"range": [low, high - 1]}
        case {"fill": token, "n": n} if n > 1:
            yield {"fill": token, "n": n - 1}
        case [_, _, *_]:
            yield prompt[:-1]
