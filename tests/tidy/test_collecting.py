"""Garbage is collected between tests, by the thread that runs them."""

import gc
import threading
import weakref

from collecting import FULL_AFTER, collect


class Knot:
    """Garbage that only a collection finds: it holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_nobody_collects_unasked() -> None:
    """Another thread that makes objects by the thousand releases nothing of this one's."""
    knot = weakref.ref(Knot())
    other = threading.Thread(target=lambda: [[] for _ in range(100_000)])
    other.start()
    other.join()
    assert not gc.isenabled()
    assert knot() is not None


def test_collection_is_called_for() -> None:
    """What a test leaves is gone after it, what is older after some fifty."""
    knot = weakref.ref(Knot())
    collect()
    assert knot() is None
    old = Knot()
    gc.collect(0)
    gc.collect(1)
    knot = weakref.ref(old)
    del old
    for _ in range(FULL_AFTER + 2):
        collect()
    assert knot() is None
    assert not gc.isenabled()
