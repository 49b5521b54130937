"""Garbage is collected between tests, and not while one runs."""

import gc


def test_nobody_collects_during_a_test() -> None:
    """No other thread can release Z3's terms while Z3 is at work: see `tests/conftest.py`."""
    assert not gc.isenabled()
