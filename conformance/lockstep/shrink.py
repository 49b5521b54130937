"""Makes a scenario smaller while something about it stays true."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

Scenario = dict[str, Any]
Holds = Callable[[Scenario], bool]
REQUIRED = {"op", "id", "prompt", "ids", "state", "max_tokens"}
"""Keys of an event that cannot be left out, or would stand for more if they were."""


def shrink(scenario: Scenario, holds: Holds, budget: int = 600) -> Scenario:
    """A smaller scenario for which ``holds`` is true as it is for the given one.

    Greedy: the first smaller one that still holds is taken, until none does or ``budget`` were
    tried. The result is the same whenever ``holds`` is.
    """
    best, tried = scenario, 0
    progress = True
    while progress:
        progress = False
        for candidate in _smaller(best):
            tried += 1
            if tried > budget:
                return best
            if holds(candidate):
                best, progress = candidate, True
                break
    return best


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Candidates, those that leave out most first."""
    events = scenario["events"]
    size = len(events)
    while size:
        for start in range(0, len(events), size):
            yield {**scenario, "events": events[:start] + events[start + size :]}
        size //= 2
    config = scenario["config"]
    for key in config:
        yield {**scenario, "config": {k: v for k, v in config.items() if k != key}}
    for index, event in enumerate(events):
        for smaller in _smaller_events(event):
            changed = copy.copy(events)
            changed[index] = smaller
            yield {**scenario, "events": changed}
    for key, value in config.items():
        for number in _smaller_numbers(value):
            yield {**scenario, "config": {**config, key: number}}


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
