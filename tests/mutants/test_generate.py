"""The generator leaves nothing out, and what it makes is what it says."""

import ast
from collections import Counter

import pytest

from nullblock.conformance.mutation.switched import never_explored
from nullblock.spec.compiled.text import definition
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore
from nullblock.spec.kernel import RULES
from nullblock.spec.lint import GUARDS, writes
from nullblock.spec.mutation import schema
from nullblock.spec.mutation.forks import Json, in_child, with_defect
from nullblock.spec.mutation.generate import (
    DECISIONS,
    STATEMENTS,
    Mutant,
    by_id,
    diff,
    mutants,
    numbers,
    planted,
    source,
)
from nullblock.spec.mutation.guards import asks_less, says_less
from nullblock.spec.mutation.operators import called
from nullblock.spec.mutation.transplant import transplant
from nullblock.spec.rules.pool import publish

SCOPE = "rules-priority"
"""The smallest scope that checks every rule."""


def by_function() -> dict[tuple[str, str], Counter[str]]:
    """How many mutants of each kind each function has."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for m in mutants():
        found.setdefault((m.file, m.function), Counter())[m.kind] += 1
    return found


def test_no_rule_is_without_a_mutant() -> None:
    """Every rule, every function of the machine, every reading, and every invariant has some."""
    have = {name for _, name in by_function()}
    assert set(RULES) <= have
    some = [f for file in DECISIONS for f in source(file).functions()]
    some += [f for file in STATEMENTS for f in source(file).functions() if f.decorator_list]
    bare = {"cached_of", "granted_now", "hashable", "num_adapters"}
    bare |= {"scheduler_output", "table", "size", "loaded_to", "passed", "left_out_from"}
    bare |= {"asked", "is_kept", "looked_at", "tokens_to_run", "uncut_to_admit"}
    bare |= {"are_cached", "in_unit", "nulls_before_load", "order", "may_be_miscounted"}
    bare |= {"cached_when_loaded", "prompt_end_of", "left_behind", "outlived"}
    assert {f.name for f in some} - have == bare


@pytest.mark.parametrize("file", [f for f in DECISIONS if f.startswith("rules/")])
def test_every_guard_is_dropped_and_every_write_skipped(file: str) -> None:
    """As many guards are dropped as there are, and each statement that writes is left out."""
    for f in source(file).functions():
        kinds = by_function()[file, f.name]
        calls = [called(n.value) for n in ast.walk(f) if isinstance(n, ast.Expr)]
        assert kinds["guard"] == calls.count("require"), f.name
        writing = [n for n in ast.walk(f) if isinstance(n, ast.Assign | ast.AugAssign)]
        effects = [c for c in calls if c and c not in GUARDS]
        wrote = sum(any(True for _ in writes(n)) for n in writing)
        assert kinds["skip"] == wrote + len(effects), f.name


def test_mutants_are_other_text_of_their_own() -> None:
    """Each has an ID of its own, changes the file that it names, and leaves it Python; no two of a
    file make the same of it.
    """
    assert len(by_id()) == len(mutants())
    trees: dict[tuple[str, str], str] = {}
    for m in mutants():
        tree = ast.dump(ast.parse(planted(m)))
        assert tree != ast.dump(source(m.file).tree), m.id
        assert trees.setdefault((m.file, tree), m.id) == m.id


def test_a_comparison_stays_one() -> None:
    """What was compared in brackets still is: no defect makes a chain of two comparisons."""
    id = "invariants.pool.free_iff_unreferenced.weaken-1"
    assert "in_queue(s, b) <= (s.ref[b] == 0)" in diff(by_id()[id])


def test_a_mutant_is_shown_as_a_diff() -> None:
    """The diff names the file, and shows the line as it was and as it is."""
    shown = diff(by_id()["rules.pool.adopt.skip-4"])
    assert "+++ b/spec/rules/pool.py" in shown
    assert "\n-    s.ref[b] += 1\n+    pass\n" in shown


def found(scope: str, limit: int | None = None) -> Json:
    """What the readable explorer finds."""
    r = explore(STANDARD[scope], limit=limit)
    breaks = r.counterexample.breaks if r.counterexample else ""
    return {"breaks": breaks, "states": r.states, "transitions": r.transitions}


def in_schema(number: int) -> Json:
    """The same with the text that holds every mutant, one being chosen."""

    def work() -> Json:
        transplant(schema.texts(mutants()), {schema.ASKED: lambda n: n == number})
        return found(SCOPE, 2_000)

    return in_child(work, 60)


def test_the_text_of_all_mutants_is_the_specification_where_none_is_chosen() -> None:
    """The readable explorer finds the same states and transitions in it."""
    assert in_schema(0) == found(SCOPE)


SOME = (
    "rules.pool.adopt.skip-1",
    "rules.queues.preempt.conjunct-1",
    "state.victim.twin-1",
    "machine.update.settle.order-2",
    "invariants.pool.no_negative_reference.boundary-1",
)


@pytest.mark.parametrize("id", SOME)
def test_a_mutant_chosen_there_is_the_mutant(id: str) -> None:
    """What the explorer finds where it is chosen is what it finds where it is planted alone."""
    alone = with_defect(by_id()[id], lambda: found(SCOPE, 2_000), 60)
    assert in_schema(numbers()[id]) == alone
    assert "failed" not in alone


def test_a_child_leaves_its_parent_alone() -> None:
    """The text of this process is the specification after a mutant was planted in a child."""
    before = found(SCOPE)
    said = with_defect(by_id()["rules.pool.adopt.skip-1"], lambda: found(SCOPE, 2_000), 60)
    assert said["breaks"] and before["breaks"] == ""
    assert found(SCOPE) == before


def test_a_child_that_fails_or_hangs_says_so() -> None:
    """An exception is told, and a child that goes on for ever is ended."""

    def hang() -> Json:
        while True:
            pass

    def fail() -> Json:
        raise ValueError("a reason")

    assert in_child(fail, 60) == {"failed": "ValueError: a reason"}
    assert in_child(hang, 0.2) == {"late": True}


def test_what_was_translated_before_is_translated_anew() -> None:
    """Transplanted text is what the translator reads, even where it has read the function."""
    mutant = by_id()["rules.pool.publish.negate-2"]
    before = ast.unparse(definition(publish.body))

    def work() -> Json:
        transplant(mutant.texts())
        return {"text": ast.unparse(definition(publish.body))}

    after = in_child(work, 60)["text"]
    assert after != before
    assert definition(publish.body) is definition(publish.body)


@pytest.mark.parametrize(
    ("id", "less"),
    [
        ("rules.pool.adopt.guard-1", True),
        ("rules.pool.adopt.boundary-1", True),
        ("rules.lookup.hold_back.conjunct-1", False),  # under a not, less is more
        ("rules.pool.adopt.skip-1", False),
        ("rules.pool.publish.boundary-2", False),  # >= becomes >
        ("gate.fits.boundary-1", False),
    ],
)
def test_what_asks_less_is_known(id: str, less: bool) -> None:
    """A guard that is true more often is told from one that is not, and from all else."""
    assert asks_less(by_id()[id]) == less


@pytest.mark.parametrize(
    ("id", "less"),
    [
        ("invariants.pool.no_negative_reference.true-1", True),
        ("invariants.tables.table_lengths.conjunct-2", True),  # within a quantifier
        ("invariants.pool.no_negative_reference.boundary-1", False),  # >= becomes >
        ("invariants.pool.free_iff_unreferenced.weaken-1", True),  # then, if no longer only then
        ("invariants.pool.free_iff_unreferenced.negate-1", False),
        ("rules.pool.adopt.guard-1", False),
    ],
)
def test_what_says_less_is_known(id: str, less: bool) -> None:
    """A statement that is true more often is told from one that is not, and from all else."""
    assert says_less(by_id()[id]) == less


def test_a_mutant_names_its_functions() -> None:
    """A twin changes two readings, any other mutant one."""
    twin: Mutant = by_id()["state.cached.twin-1"]
    assert twin.functions == {"cached", "is_cached"}
    assert by_id()["state.cached.reverse-1"].functions == {"cached"}


@pytest.mark.parametrize(
    ("id", "never"),
    [
        ("rules.drafts.reject_drafts.condition-1", True),  # a switch that is on holds always
        ("rules.drafts.reject_drafts.condition-2", False),  # … never holds
        ("rules.drafts.take_back.skip-6", True),  # the other branch of such a switch
        ("rules.drafts.reject_drafts.skip-2", False),
        ("state.last_in_flight.sign-3", True),  # after it has returned
        ("state.last_in_flight.sign-2", False),
        ("rules.later.outdate.skip-1", True),  # a switch that is off
        ("rules.pool._enqueue.constant-1", False),  # a switch that is off in all scopes but some
    ],
)
def test_what_no_scope_runs_is_known(id: str, never: bool) -> None:
    """Text that a switch keeps out of every scope of the explorer is told from all other."""
    assert never_explored(by_id()[id]) == never
