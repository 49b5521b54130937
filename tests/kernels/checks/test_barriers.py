"""Every barrier of the kernels is on the page that says what it is for."""

import ast

from barriers import (
    IDLE,
    NARROW,
    PAGE,
    REDUNDANT,
    UNSEEN,
    Barrier,
    _barriers_of,
    barriers,
    rows_of,
)

AGAIN = "python tests/kernels/checks/barriers.py --write writes it anew"
WITHOUT_WITNESS = (IDLE, NARROW, REDUNDANT, UNSEEN)


def test_no_barrier_is_without_a_row() -> None:
    """The page names each barrier in the source, and none besides."""
    rows = rows_of(PAGE.read_text())
    assert sorted(rows) == sorted(map(str, barriers().values())), AGAIN


def test_what_is_said_of_barriers() -> None:
    """Each row says which two accesses the barrier orders, or why none was seen; the numbers in
    the page's head are those of its rows."""
    text = PAGE.read_text()
    rows = rows_of(text)
    shown = [words for words in rows.values() if not words.startswith(WITHOUT_WITNESS)]
    assert all(words.count(" in `") == 2 for words in shown)
    assert f"{len(rows)} barriers" in text and f"{len(shown)} are missed" in text
    assert len(shown) > len(rows) / 3


def test_barriers_are_found_in_the_source() -> None:
    """Barriers are counted within their function, wherever they are nested."""

    tree = ast.parse(
        "def f(a):\n    tl.debug_barrier()\n    while a:\n        tl.debug_barrier()\n"
        "def g():\n    pass\n"
    )
    assert list(_barriers_of(tree)) == [("f", 1, 2), ("f", 2, 4)]
    assert str(Barrier("control/a.py", "f", 2)) == "`control/a.py` f 2"
