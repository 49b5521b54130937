"""The compiled explorer finds what the readable one finds: it is never trusted on its own."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.cli import main
from nullblock.conformance.ledger import refresh
from nullblock.conformance.ledger.sources import scopes
from nullblock.conformance.ledger.sources.scopes import searched
from nullblock.conformance.strength.mutants import BY_NAME
from nullblock.conformance.strength.plant import ask, planted
from nullblock.spec.compiled import build, search
from nullblock.spec.compiled.context import Sizes
from nullblock.spec.compiled.translate import Program, program
from nullblock.spec.compiled.values import Const, Untranslatable
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.model import beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import Search, explore
from nullblock.spec.explorer.witnesses import Watch
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

sys.path.insert(0, str(Path(__file__).parent))
from both_forms import differences, needs_compiler, recorded  # noqa: E402  (beside this one)
from test_explorer import PINNED  # noqa: E402

SMALL = (
    *("keys", "nocache", "pauses", "resets", "rules-ahead", "rules-priority"),
    *("items-whole", "hybrid-chunks", "rules-cross"),
)
LOOKED_AT = ("keys", "resets", "rules-priority")
PLANTED = (
    "touch-keeps-queue",
    "hit-covers-last-token",
    "withdrawn-hashes-stay",
    "stale-token-taken",
)
"""Mutants whose defects show in different ways: a broken promise, invariants, a guard."""


@pytest.mark.parametrize("name", STANDARD)
def test_every_scope_has_a_c_form(name: str) -> None:
    """Rules, statements and witnesses of every standard scope are translated, in both profiles if
    both have it, whether or not there is a compiler here: a line that is not would make the scope
    slow, and nothing else.
    """
    for semantics in (NORMATIVE, VLLM_0_22_1):
        try:
            first: Any = beginning(STANDARD[name], semantics)
        except ValueError:
            assert semantics is not NORMATIVE
            continue
        text, _ = program(Search(STANDARD[name], semantics), first, Sizes(len(first.k.indices)))
        assert "int main(" in text


@needs_compiler
@pytest.mark.parametrize("name", STANDARD)
def test_every_scope_has_the_same_counts(name: str) -> None:
    """States, transitions and depth of every standard scope are those pinned for the readable
    form, every promised witness is reached, and the ledger has just that.
    """
    result = search.explore(STANDARD[name])
    assert (result.states, result.transitions, result.depth) == PINNED[name]
    assert result.passed and result.witnesses >= STANDARD[name].witnesses
    assert recorded("scopes")[name] == searched(STANDARD[name], result)


@needs_compiler
@pytest.mark.parametrize("name", SMALL)
def test_small_scopes_are_the_same_in_everything(name: str) -> None:
    """Witnesses reached, rules fired and verdict are equal too, in both profiles."""
    for semantics in (NORMATIVE, VLLM_0_22_1):
        readable = explore(STANDARD[name], semantics)
        assert differences(readable, search.explore(STANDARD[name], semantics)) == []


@needs_compiler
@pytest.mark.parametrize("name", PLANTED)
def test_a_mutant_of_the_text_changes_both_alike(name: str) -> None:
    """There is no second copy of the rules: with a line of the text changed the compiled form
    objects as the readable one does, after as many states, by the same way.
    """
    with planted(BY_NAME[name]) as folder:
        done = ask(folder, __file__, *LOOKED_AT, seconds=300)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["differ"] for row in rows] == [[], [], []]
    assert any(row["breaks"] for row in rows)


@needs_compiler
def test_without_canonical_names_there_are_more_states() -> None:
    """Blocks that keep their names make as many states as in the readable form."""
    scope = next(d.scope for d in DEPARTURES if d.name == "next-owner")
    plain = Search(scope, NORMATIVE, canonical=False)
    plain.run(None, None)
    result = search.explore(scope, canonical=False)
    assert (result.states, result.transitions) == (len(plain.origin), plain.count)
    assert result.states > search.explore(scope).states


@needs_compiler
def test_room_is_made_where_there_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too small a map is noticed, never a wrong answer: the search begins again with more room,
    and gives up by name if it is never enough.
    """
    asked: list[int] = []

    def small(indices: int) -> Sizes:
        asked.append(indices)
        return Sizes(max(1, indices // 4))

    monkeypatch.setattr(search, "Sizes", small)
    assert differences(explore(STANDARD["nocache"]), search.explore(STANDARD["nocache"])) == []
    assert asked
    monkeypatch.setattr(search, "ATTEMPTS", 1)
    with pytest.raises(Untranslatable, match="nocache needs more room"):
        search.explore(STANDARD["nocache"])


@needs_compiler
def test_a_limit_ends_the_search() -> None:
    """As in the readable form a search that was stopped does not pass."""
    scope = STANDARD["nocache"]
    assert differences(explore(scope, limit=50), search.explore(scope, limit=50)) == []


def odd(s: object, r: int) -> int:
    """What no rule may contain."""
    while r:
        r -= 1
    return r


def test_an_unknown_construct_is_refused_with_its_place() -> None:
    """What has no C form is refused, by file and line."""
    scope = STANDARD["nocache"]
    first: Any = beginning(scope, NORMATIVE)
    p = Program(Search(scope, NORMATIVE), first.k, Sizes(8))
    line = odd.__code__.co_firstlineno + 2
    with pytest.raises(Untranslatable, match=rf"test_compiled\.py:{line}: While has no C form"):
        p.outer("void f(void)", lambda: str(p.applied(odd, Const(None), Const(1))))


def test_without_a_compiler_the_readable_form_searches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explore --compiled` says in one line why it is not compiled, and goes on."""
    from nullblock.conformance.commands import explore as command

    scope = next(d.scope for d in DEPARTURES if d.name == "next-owner")
    monkeypatch.setattr(command, "STANDARD", {"a": scope, "b": replace(scope, name="b")})
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["explore", "--compiled", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "no-such-compiler" in said.err
    found = json.loads(said.out)["scopes"]
    assert [(s["states"], s["form"]) for s in found] == [(30, "readable")] * 2
    why = "CC names 'no-such-compiler', which is not found: install it, or unset CC"
    assert [s["readable_because"] for s in found] == [why] * 2
    assert said.err == f"searched by the readable form: {why}\n"
    assert main(["explore", "--compiled"]) == 0
    assert f"readable: next-owner, b: {why}\n" in capsys.readouterr().out


def test_by_default_the_form_is_said_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever does not ask for the compiled form is told that there is one."""
    from nullblock.conformance.commands import explore as command

    scope = next(d.scope for d in DEPARTURES if d.name == "next-owner")
    monkeypatch.setattr(command, "STANDARD", {scope.name: scope})
    assert main(["explore"]) == 0
    said = capsys.readouterr()
    assert said.err == "" and "readable: next-owner: without --compiled, " in said.out


def filtered(watch: Any, s: Any, done: Any) -> None:
    """A witness in words that have no C form."""
    if any(filter(None, (s.nr,))):
        watch.reached.add("three-at-once")


def test_a_construct_without_a_c_form_is_named_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explore` and the ledger say which scope is searched slowly, at which line what has no C
    form, and what to do; the document says it too.
    """
    from nullblock.conformance.commands import explore as command

    scope = next(d.scope for d in DEPARTURES if d.name == "next-owner")
    monkeypatch.setattr(command, "STANDARD", {scope.name: scope})
    monkeypatch.setattr(Watch, "event", filtered)
    line = filtered.__code__.co_firstlineno + 2
    assert main(["explore", "--compiled", "--json"]) == 0
    said = capsys.readouterr()
    (found,) = json.loads(said.out)["scopes"]
    why = found["readable_because"]
    assert found["form"] == "readable" and f"test_compiled.py:{line}: " in why
    assert "filter" in why and "say it there as lines that are translated do" in why
    assert said.err == f"next-owner is searched by the readable form: {why}\n"
    assert scopes.search(scope).states == found["states"]
    assert capsys.readouterr().err == f"note: {said.err}"


def test_a_worker_s_notes_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What a source notes while it is gathered reaches whoever refreshes the ledger, in one line
    with its name, and nothing else of what it prints there does.
    """
    lines = (
        "from nullblock.conformance.ledger.sources.base import note",
        "from nullblock.conformance.ledger.worker import SOURCES, msgspec, sys",
        "print('chatter', file=sys.stderr)",
        "note('x is slow')",
        "sys.stdout.buffer.write(msgspec.json.encode(SOURCES['mutants'].gather()))",
    )
    (tmp_path / "noting.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(refresh, "WORKER", "noting")
    said: list[str] = []
    assert list(refresh.gathered(["mutants"], said.append)) == said == ["mutants"]
    assert capsys.readouterr().err == "mutants: x is slow\n"


@needs_compiler
def test_a_counterexample_is_told_by_the_readable_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The story and the exit code are those of the search that is not compiled."""
    from nullblock.conformance.commands import explore as command

    scope = next(d.scope for d in DEPARTURES if d.name == "next-owner")
    monkeypatch.setattr(command, "STANDARD", {scope.name: scope})
    told, forms = [], []
    for more in ([], ["--compiled"]):
        assert main(["explore", "--profile", "vllm-0.22.1", "--json", *more]) == 1
        document = json.loads(capsys.readouterr().out)
        told.append(document["counterexample"])
        forms.append(document["scopes"][0]["form"])
    assert told[0] == told[1] and told[0]["story"]
    assert forms == ["readable", "compiled"]


@needs_compiler
def test_a_cache_that_cannot_be_written_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where there is no folder for compiled programs they are compiled and thrown away."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert build.cache() is None
    scope = next(d.scope for d in DEPARTURES if d.name == "outgrown-pool")
    assert search.explore(scope).passed


def compare(names: list[str]) -> None:
    """Search with both forms, for a planted mutant, and print how the results differ."""
    rows = []
    for name in names:
        readable, compiled = explore(STANDARD[name]), search.explore(STANDARD[name])
        found = readable.counterexample
        rows.append({"differ": differences(readable, compiled), "breaks": found and found.breaks})
    print(json.dumps(rows))


if __name__ == "__main__":
    compare(sys.argv[1:])
