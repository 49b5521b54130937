"""Windows: maps of the entries of steps in flight, kept as lists with one origin."""

import random
from typing import Any

import pytest

from nullblock.spec.erased.windows import Window, Windows


def _opened(seed: int) -> tuple[Windows, list[Window], list[dict[int, Any]], int]:
    """Two windows and two dictionaries after the same steps in flight; the next key."""
    r = random.Random(seed)
    windows = Windows()
    ours, plain = [windows.make(), windows.make()], [dict[int, Any](), dict[int, Any]()]
    first = end = 0
    for _ in range(60):
        many = r.randrange(6)
        windows.open(end, many)
        for key in range(end, end + many):
            for window, map in zip(ours, plain, strict=True):
                window[key] = map[key] = r.randrange(1, 9)
        end += many
        first = r.randrange(first, end + 1) if r.random() < 0.8 else first
        for window, map in zip(ours, plain, strict=True):
            window.low = first
            for key in [key for key in map if key < first]:
                del map[key]
    return windows, ours, plain, end


@pytest.mark.parametrize("seed", range(20))
def test_a_window_reads_as_the_map_does(seed: int) -> None:
    """Whatever was trimmed in between: at every key, in all members, and over a span."""
    _, ours, plain, end = _opened(seed)
    for window, map in zip(ours, plain, strict=True):
        assert [window[key] for key in range(end + 5)] == [map.get(k, 0) for k in range(end + 5)]
        assert dict(window.items()) == map
        assert window.members(window.low, end) == [map[k] for k in range(window.low, end)]


@pytest.mark.parametrize("seed", range(20))
def test_the_list_holds_each_key_at_its_distance_from_the_base(seed: int) -> None:
    """So erased text may read it; the keys just before the base read as 0 there, too."""
    windows, ours, plain, end = _opened(seed)
    windows.open(end, 3)
    for window, map in zip(ours, plain, strict=True):
        for key in range(windows.base, end + 3):
            assert window.cells[key - windows.base] == map.get(key, 0)
        assert window.cells[-2:] == [0, 0]


def test_memory_follows_what_is_in_flight() -> None:
    """A thousand steps, each trimmed after it, need no more room than two."""
    windows = Windows()
    window = windows.make()
    for step in range(1000):
        windows.open(step * 8, 8)
        for key in range(step * 8, step * 8 + 8):
            window[key] = 1
        window.low = step * 8 + 8
    assert len(window.cells) <= 2 * 8 + 2


def test_a_trimmed_key_is_not_written() -> None:
    """It would land on another one."""
    windows = Windows()
    window = windows.make()
    windows.open(0, 4)
    window.low = 4
    windows.open(4, 4)
    with pytest.raises(IndexError, match="3 is trimmed"):
        window[3] = 1
