"""What was said of an earlier text is kept as that, and only where the mutant is the same."""

import json
from pathlib import Path

import pytest

from nullblock.spec.mutation import results
from nullblock.spec.mutation.generate import written
from nullblock.spec.mutation.results import Results, load

ADOPT, PUSH = "rules.pool.adopt.guard-1", "rules.pool._take.skip-2"
GONE = "rules.pool.adopt.guard-99"
RETIRED = f"POOL-{99}"
BY_RETIRED = "rules.pool.adopt.guard-2"
SAID = {"by": "POOL-3", "scope": "rules", "states": 7, "actions": 2, "seconds": 0.1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Answers about mutants of two functions, one that is no more, a departure and statements, one
    of which is retired.
    """
    now = {ADOPT: {}, PUSH: SAID, GONE: SAID, "departure.lone": SAID}
    only = {"only POOL-3": {"of": [PUSH]}, "only POOL-10": {"of": [ADOPT, GONE]}}
    now[BY_RETIRED], only[f"only {RETIRED}"] = {**SAID, "by": RETIRED}, {"of": []}
    Results("explorer", {**now, **only}).save(tmp_path)
    return tmp_path


def test_what_was_said_of_this_text_is_read_as_it_was_written(folder: Path) -> None:
    """Nothing is of an earlier text, and nothing is lost."""
    kept = load("explorer", folder)
    assert kept.now[PUSH] == SAID and not kept.stale and len(kept.now) == 8
    kept.save(folder)
    assert load("explorer", folder) == kept


def test_another_text_makes_answers_earlier_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept while nothing newer is said, except of mutants that are no more, and of those
    that a statement has noticed which is no more.
    """
    monkeypatch.setattr(results, "digest", lambda statements: "another")
    kept = load("explorer", folder)
    assert kept.stale and not kept.now
    assert kept.earlier.keys() == {ADOPT, PUSH, "departure.lone", "only POOL-3"}
    kept.now[PUSH] = {}
    assert kept.last(PUSH) == {} and kept.last(ADOPT) == {} and kept.last(GONE) is None
    kept.save(folder)
    again = load("explorer", folder)
    assert again.now == {PUSH: {}} and PUSH not in again.earlier and again.said == kept.said


def test_another_function_forgets_what_was_said_of_its_mutants(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ID counts the defects of a function: of another text of it, it may be another defect."""
    monkeypatch.setattr(results, "digest", lambda statements: "another")
    monkeypatch.setattr(results, "written", lambda: written() | {"_take": "other"})
    kept = load("explorer", folder)
    assert kept.earlier.keys() == {ADOPT, "departure.lone"}


def test_the_file_has_a_line_for_each(folder: Path) -> None:
    """So that a change of one answer is one line of a diff."""
    text = (folder / "explorer.json").read_text()
    assert json.loads(text)["mutants"][PUSH] == SAID
    assert sum(PUSH in line for line in text.splitlines()) == 2
