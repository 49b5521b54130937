"""Garbage is collected by the thread that runs the tests, between them, and by nobody else.

Z3's terms are for one thread, and a call of Z3 lets go of the interpreter's lock: another thread
that happened to collect would release terms while Z3 is at work, here or in the next test.
"""

import gc

gc.disable()

# As often as the interpreter would by itself, counted in collections of the younger generations.
FULL_AFTER = 50


def collect() -> None:
    """The young every time, everything every so often: a full collection takes a good while."""
    gc.collect(2 if gc.get_count()[2] >= FULL_AFTER else 1)
