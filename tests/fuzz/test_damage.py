"""Damaged traces: a small part of what `tests/fuzz/damage.py` does by command."""

import pytest
from fuzz.damage import DAMAGES, Failed, damaged, judge, run

FILES = 400


def test_no_damage_crashes_or_conforms() -> None:
    """Some hundred files, most kinds of damage among them, each with a verdict that says why."""
    seen = run(FILES, seed=1)
    assert sum(seen.values()) == FILES
    assert {said for _, said in seen} >= {"MALFORMED", "VIOLATION"}
    done = {what.partition(",")[0] for what, _ in seen}
    assert done == {damage.__name__ for damage in DAMAGES}


def test_a_file_of_a_seed_is_always_the_same() -> None:
    """So that a failure can be made again."""
    assert [damaged(3, n) for n in range(20)] == [damaged(3, n) for n in range(20)]
    assert damaged(3, 0) != damaged(4, 0)


def test_what_conforms_by_damage_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script can fail, and says how to see it again."""
    from fuzz.damage import SEALED

    assert judge(SEALED[0]).verdict == "CONFORMS"
    monkeypatch.setattr("fuzz.damage.damaged", lambda seed, number: ("nothing", SEALED[0], False))
    with pytest.raises(Failed, match="nothing: CONFORMS; python tests/fuzz/damage.py"):
        run(1, seed=1)
