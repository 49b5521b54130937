"""What need not be searched for anew: every form of the statements is judged in one search as it
would be in a search of its own, and where a mutant's place is not met nothing is other.
"""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from nullblock.spec.mutation import compiled, statements
from nullblock.spec.mutation.compiled import Compiled, Found, Unjudged
from nullblock.spec.mutation.exploring import explorer
from nullblock.spec.mutation.generate import Mutant, by_id, mutants, numbers
from nullblock.spec.mutation.guards import says_less
from nullblock.spec.mutation.results import load

FORMS = [m for m in mutants() if m.is_statement]
RESULTS = load("statements")
KEPT = RESULTS.said
EXPLORED = load("explorer").said
SCOPE = "rules-drafts-in-step"
SOLES = {
    id.removeprefix("only "): said["of"][0]
    for id, said in KEPT.items()
    if id.startswith("only ") and said["of"] and EXPLORED[said["of"][0]]["scope"] == SCOPE
}
"""Statements that alone notice a mutant of the rules in the scope, and that mutant."""


def drawn(some: Iterable[Mutant], few: int) -> list[Mutant]:
    """A few of them, drawn by their IDs."""
    return sorted(some, key=lambda m: sha256(f"form {m.id}".encode()).digest())[:few]


def concerned(id: str) -> list[Mutant]:
    """The forms of a statement."""
    return [m for m in FORMS if id in statements.concerned(m.function)]


@pytest.fixture(scope="module")
def scope() -> Iterable[Compiled]:
    """A scope that checks every rule, with every mutant in it."""
    with explorer(mutants(), [SCOPE]) as found:
        found.prepare()
        yield found.ready[0]


def test_the_forms_that_object_are_those_recorded(scope: Compiled) -> None:
    """All of them, each by the statement that is recorded, after as many states and actions."""
    now = statements.alarms(scope, FORMS)
    then = {m.id: KEPT[m.id] for m in FORMS if KEPT[m.id].get("scope") == SCOPE}
    assert len(then) > 700
    fresh = {id: said | {"seconds": 0} for id, said in then.items() if id in RESULTS.now}
    assert {id: now[id] | {"seconds": 0} for id in now.keys() & RESULTS.now.keys()} == fresh
    assert {id: said["by"] for id, said in now.items()} == {i: s["by"] for i, s in then.items()}


def together(
    scope: Compiled, some: list[Mutant], mutant: int = 0, silent: str = ""
) -> list[tuple[str, int, int, int]]:
    """What one search says of all, of those that do not object that they do not."""
    found = scope.forms([numbers()[m.id] for m in some], mutant, silent)
    return [counts(found.get(numbers()[m.id], compiled.GAVE_UP)) for m in some]


def alone(scope: Compiled, some: list[Mutant], mutant: int = 0) -> list[tuple[str, int, int, int]]:
    """What a search for each of them says."""
    return [counts(scope(numbers()[m.id], mutant)) for m in some]


def counts(f: Found) -> tuple[str, int, int, int]:
    """What is found, and where; of nothing found no more than that."""
    return (f.breaks, f.states, f.transitions, f.actions) if f.breaks else ("", 0, 0, 0)


def test_one_search_says_what_many_say(scope: Compiled) -> None:
    """Of forms that object and of forms that do not: the same statement at the same place."""
    object_ = [m for m in FORMS if KEPT[m.id].get("scope") == SCOPE]
    pass_ = [m for m in FORMS if "scope" not in KEPT[m.id] and not says_less(m)]
    some = [*drawn(object_, 12), *drawn(pass_, 6)]
    one = together(scope, some)
    assert one == alone(scope, some)
    assert {bool(breaks) for breaks, *_ in one} == {True, False}


@pytest.mark.parametrize("id", sorted(SOLES)[:4])
def test_forms_of_a_statement_that_alone_objects(scope: Compiled, id: str) -> None:
    """With a mutant of the rules that one statement catches its forms are judged as with each of
    them planted beside the mutant: some catch it, and where it says nothing nobody does.
    """
    sole, some = numbers()[SOLES[id]], concerned(id)
    some = [*drawn(some, 6), statements.silenced()[id]]
    one = together(scope, some, sole, id)
    assert one == alone(scope, some, sole)
    assert one[-1][0] == ""


def test_a_form_that_decides_what_happens_is_refused(scope: Compiled) -> None:
    """A mutant of the rules is none that could be judged beside the search."""
    sole = by_id()[next(iter(SOLES.values()))]
    with pytest.raises(Unjudged, match="astray"):
        scope.forms([numbers()[sole.id]])


def test_a_search_that_ends_early_judges_nothing(scope: Compiled) -> None:
    """Where a mutant of the rules is caught, forms are not called unnoticed."""
    id, sole = next(iter(SOLES.items()))
    with pytest.raises(Unjudged, match="violated"):
        scope.forms([numbers()[statements.silenced()[id].id]], numbers()[sole])


def alike(scope: Compiled, m: Mutant) -> bool:
    """Whether the scope with a mutant goes as it goes without: asked of the search itself."""
    clean, found = scope(0), scope(numbers()[m.id])
    return replace(found, seconds=0) == replace(clean, seconds=0)


OF_RULES = [m for m in mutants() if not m.is_statement]


def dropped_wrongly(scope: Compiled, others: frozenset[int], few: int) -> list[str]:
    """Of mutants that are met and said never to differ from the text, a few of whom the search
    says that they do.
    """
    dropped = scope.met() - others
    left = [m for m in OF_RULES if numbers()[m.id] in dropped]
    return [m.id for m in drawn(left, few) if not alike(scope, m)]


def test_whoever_never_differs_goes_as_the_text_goes(scope: Compiled) -> None:
    """Mutants that are met, and left out of the search, are a good part of those met; the search
    of each of some of them is the specification's own.
    """
    others = scope.met(numbers()[m.id] for m in OF_RULES)
    assert others < scope.met() and len(scope.met() - others) > 100
    assert dropped_wrongly(scope, others, 24) == []


def test_a_comparison_that_overlooks_something_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A comparison that takes numbers for equal which are one apart leaves out mutants that
    differ, and some of those that are drawn say so.
    """
    for name in ("chosen.c", "compared.c", "forms.c"):
        text = (compiled.HERE / name).read_text()
        careless = text.replace("value_ != mutant_)", "value_ / 2 != mutant_ / 2)")
        assert (careless == text) is (name != "chosen.c")
        (tmp_path / name).write_text(careless)
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    some = drawn((m for m in OF_RULES if m.file == "state.py"), 60)
    with explorer(some, [SCOPE]) as found:
        found.prepare()
        [careless_scope] = found.ready
        assert dropped_wrongly(careless_scope, found.others[SCOPE], 12)


def test_whoever_is_noticed_was_met(scope: Compiled) -> None:
    """The scope is searched for each mutant that it notices: the place of each is met."""
    found = {id for id, said in EXPLORED.items() if "by" in said and said["scope"] == SCOPE}
    noticed = {numbers()[id] for id in found if id in by_id()}
    assert len(noticed) > 800
    assert noticed - scope.met() == set()
    assert noticed - scope.met(numbers()[m.id] for m in OF_RULES) == set()


def test_whoever_is_not_met_changes_nothing(scope: Compiled) -> None:
    """With a mutant whose place is not met the search has the same states and transitions."""
    met, clean = scope.met(), scope(0)
    some = [m for m in mutants() if not m.is_statement and numbers()[m.id] not in met]
    assert len(some) > 50
    for m in drawn(some, 8):
        assert replace(scope(numbers()[m.id]), seconds=clean.seconds) == clean, m.id


NOTED = {"!is_met[n]": "!is_met[n] && n % 3", 'printf("{\\"met': 'if (n % 3) printf("{\\"met'}
"""How a program notes what it meets, and how one does that forgets every third place."""


def test_a_place_that_is_met_and_not_noted_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that forgets every third place that it meets judges those forms not at all, and
    calls mutants unmet that are noticed.
    """
    for part in compiled.HERE.glob("*.c"):
        shutil.copy(part, tmp_path)
    text = (compiled.HERE / "chosen.c").read_text()
    for right, wrong in NOTED.items():
        assert right in text
        text = text.replace(right, wrong)
    (tmp_path / "chosen.c").write_text(text)
    monkeypatch.setattr(compiled, "HERE", tmp_path)
    some = [m for m in FORMS if KEPT[m.id].get("scope") == SCOPE and "pool" in m.file]
    caught = [m for m in mutants() if EXPLORED.get(m.id, {}).get("scope") == SCOPE][:60]
    with explorer([*some, *caught], [SCOPE]) as found:
        found.prepare()
        now, met = statements.alarms(found.ready[0], some), found.ready[0].met()
    assert {id for id in KEPT if id in now} == {m.id for m in some if numbers()[m.id] % 3}
    assert {numbers()[m.id] % 3 == 0 for m in caught if numbers()[m.id] not in met} == {True}
