"""What is recorded of the systematic mutants is explained, and is still so."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import pytest
import systematic

from nullblock.conformance.mutation import lockstep, page, run, traces
from nullblock.conformance.mutation.run import asking, wanted
from nullblock.spec.catalogue import everything
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.search import GUARD, PROMISE
from nullblock.spec.mutation import statements
from nullblock.spec.mutation.compiled import WITNESS
from nullblock.spec.mutation.exploring import FIRST, explorer, readable, scopes
from nullblock.spec.mutation.forks import Json
from nullblock.spec.mutation.generate import Defect, Mutant, by_id, mutants
from nullblock.spec.mutation.results import ENGINES, Engine, Results, load
from nullblock.spec.mutation.survivors import ONE_BY_ONE, reason
from nullblock.spec.mutation.under_way import UNDER_WAY
from nullblock.spec.zoo import ZOO
from nullblock.spec.zoo.entry import Entry
from nullblock.spec.zoo.page import shown
from nullblock.spec.zoo.slips import SLIPS
from nullblock.spec.zoo.specimens import SPECIMENS, Specimen

KEPT: dict[str, Results] = {e: load(e) for e in (*ENGINES, "statements")}
RERUN = "python tests/mutants/systematic.py"
KNOWN = {s.id for s in everything()} | {GUARD, PROMISE, WITNESS}
SAMPLE = 3
"""Mutants an engine, of those it notices, and of those it does not; of what was said of this text,
and of what was said of an earlier one.
"""


def test_nobody_is_left_out() -> None:
    """The explorer was asked about every mutant that can show there, and the lockstep about all
    that it does not notice.
    """
    explored = KEPT["explorer"].said
    assert [d.id for d in wanted("explorer") if d.id not in explored] == [], f"run {RERUN}"
    rest = [d.id for d in wanted("lockstep") if "by" not in explored.get(d.id, {})]
    assert [id for id in rest if id not in KEPT["lockstep"].said] == [], f"run {RERUN}"


@pytest.mark.parametrize("engine", [*ENGINES, "statements"])
def test_nothing_ended_badly(engine: str) -> None:
    """No answer is that an engine failed or took too long."""
    said = KEPT[engine].said.items()
    assert {id: s for id, s in said if "by" not in s and ("failed" in s or "late" in s)} == {}


def test_what_is_noticed_is_noticed_by_a_statement() -> None:
    """The explorer names a statement, guard, promise or witness, and a scope that there is."""
    for id, said in KEPT["explorer"].said.items():
        if "by" in said:
            assert said["by"] in KNOWN, id
            assert said["scope"] in scopes(), id


def test_whoever_goes_unnoticed_is_explained() -> None:
    """Each mutant that no engine notices has a reason, but for those of functions that are under
    way, each of which lacks some; each reason is needed.
    """
    left = page.unnoticed({e: KEPT[e] for e in ENGINES})
    unexplained = [m for m in left if reason(m) is None]
    assert {m.id.rsplit(".", 1)[0] for m in unexplained} == UNDER_WAY
    reasons = {reason(m) for m in left}
    assert {pattern for pattern, r in ONE_BY_ONE.items() if r not in reasons} == set()


def test_the_pages_are_what_is_recorded() -> None:
    """`MUTATION.md` and `ZOO.md` were generated from the results."""
    for path, text in systematic.pages().items():
        assert path.read_text() == text, f"run {RERUN} --pages"


# a sample, run again -----
def sample(engine: Engine, noticed: bool, first_scopes: bool = False) -> list[Mutant]:
    """A few mutants, drawn by their IDs."""
    kept = KEPT[engine]
    found = []
    for said in (kept.now, kept.earlier):
        some = [
            m
            for m in mutants()
            if m.id in said and kept.noticed(m) is noticed
            if not first_scopes or said[m.id]["scope"] in FIRST
        ]
        some.sort(key=lambda m: sha256(f"{engine} {m.id}".encode()).digest())
        found += some[:SAMPLE]
    assert found
    return found


def verdict(said: Json) -> Json:
    """What does not depend on the machine it is found on."""
    return {k: v for k, v in said.items() if k != "seconds"}


def as_recorded(engine: Engine, id: str, said: Json) -> bool:
    """Whether an engine says what it said: the same of this text, and as little or as much as
    that it notices something where that was said of an earlier one.
    """
    kept = KEPT[engine]
    if id in kept.now:
        return verdict(said) == verdict(kept.now[id])
    return ("by" in said) == ("by" in kept.earlier[id])


def test_the_explorer_notices_what_is_recorded() -> None:
    """The same statement, in the same scope, after as many actions and states."""
    some = sample("explorer", True, first_scopes=True)
    with explorer(some, FIRST) as found:
        for m in some:
            assert as_recorded("explorer", m.id, found.judge(m)), m.id


def test_the_explorer_does_not_notice_what_is_not_recorded() -> None:
    """Those that it does not notice pass the scopes that check every rule."""
    some = sample("explorer", False)
    with explorer(some, FIRST) as found:
        for m in some:
            assert "by" not in found.judge(m), m.id


def test_later_scopes_are_asked_about_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first scopes notice is said of them, what a later one notices of that, and of what
    none notices that all went on as they do without it.
    """
    few = {name: scopes()[name] for name in ("rules-drafts-in-step", "rules-pauses")}
    monkeypatch.setattr(run, "scopes", lambda: few)
    monkeypatch.setattr(run, "FIRST", ("rules-drafts-in-step",))
    said = KEPT["explorer"].said
    some = [next(m for m in mutants() if said.get(m.id, {}).get("scope") == n) for n in few]
    some.append(next(m for m in mutants() if said.get(m.id) == {"same": True}))
    asked = {m.id: now for m, now in run.explored(some)}
    assert asked.keys() == {m.id for m in some}
    assert [id for id, now in asked.items() if not as_recorded("explorer", id, now)] == []


def test_the_lockstep_was_asked_over_every_scenario() -> None:
    """Whom it has not noticed so far, a scenario that has come since may show."""
    assert KEPT["lockstep"].over == {g.name for g in lockstep.golden()}, f"run {RERUN}"


def test_whom_the_lockstep_has_not_noticed_it_is_asked_about_over_new_scenarios(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that a scenario shows was recorded as not noticed before that scenario came."""
    kept = Results("lockstep", dict(KEPT["lockstep"].now), dict(KEPT["lockstep"].earlier))
    m = next(m for m in mutants() if "by" in kept.said.get(m.id, {}))
    by = kept.said[m.id]["by"]
    kept.now[m.id] = {}
    kept.over = KEPT["lockstep"].over - {by}
    monkeypatch.setattr(Results, "save", lambda self: None)
    monkeypatch.setattr(run, "load", lambda engine: kept)
    monkeypatch.setattr(run, "wanted", lambda engine: [m])
    run.record("lockstep", lambda *_: None, new=True)
    assert kept.now[m.id]["by"] == by and kept.over == KEPT["lockstep"].over


ALONE_WITH_Z3 = """
import json, sys
from nullblock.spec.mutation import proving
from nullblock.spec.mutation.generate import by_id
print(json.dumps(proving.judge(by_id()[sys.argv[1]])))
"""


def ask_alone(m: Defect) -> Json:
    """The prover, in a process that has asked Z3 nothing else: what Z3 finds within its limits is
    a matter of what it was asked before, and this process has run other tests.
    """
    command = [sys.executable, "-c", ALONE_WITH_Z3, m.id]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said: Json = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("engine", ["prover", "lockstep"])
def test_the_others_notice_what_is_recorded(engine: Engine, noticed: bool) -> None:
    """Those that are noticed, and not the others; by what is a matter of the order of asking."""
    with asking(engine) as here:
        ask = ask_alone if engine == "prover" else here
        assert [m.id for m in sample(engine, noticed) if ("by" in ask(m)) is not noticed] == []


def test_nobody_is_asked_whom_the_specification_does_not_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the reference printed something else, each mutant would be noticed for nothing."""
    first = lockstep.golden()[0]
    other = replace(first, lines=(first.lines[0], '{"ev": "other"}', *first.lines[2:]))
    monkeypatch.setattr(lockstep, "golden", lambda: (other,))
    with pytest.raises(AssertionError, match="does not pass"), asking("lockstep"):
        pass


def test_the_traces_notice_what_is_recorded() -> None:
    """The same trace, step and rule."""
    for m in sample("traces", True):
        assert as_recorded("traces", m.id, traces.judge(m)), m.id


ALONE = [
    (id.removeprefix("only "), said["of"][0])
    for id, said in KEPT["statements"].said.items()
    if id.startswith("only ") and said["of"]
][:2]


@pytest.mark.parametrize(("id", "mutant"), ALONE)
def test_a_statement_that_alone_catches_a_mutant_is_needed(id: str, mutant: str) -> None:
    """Where the statement says nothing, the mutant passes the scope in which it is noticed."""
    m = by_id()[mutant]
    noticed = KEPT["explorer"].said[m.id]
    assert noticed["by"] == id
    silent = statements.silenced()[id]

    class Both:
        """A mutant, and a statement that does not see it."""

        id, what, functions = "both", "both", m.functions | silent.functions

        def texts(self) -> dict[str, str]:
            """The files of both."""
            return m.texts() | silent.texts()

    limit = 2 * noticed["states"] + 50
    assert readable(m, noticed["scope"], limit).breaks == id
    assert readable(Both(), noticed["scope"], limit).breaks != id


# the zoo -----
def test_every_entry_of_the_zoo_is_shown_or_says_what_is_missing() -> None:
    """What it names exists, and an entry that nothing shows is of a layer that there is not."""
    assert len({e.id for e in ZOO}) == len(ZOO) >= 88
    assert {s.name for s in SPECIMENS} == {e.specimen for e in ZOO if e.specimen}
    departures = {f"departure.{d.name}" for d in DEPARTURES}
    for e in ZOO:
        name = shown(e)
        assert bool(name) or e.missing, e.id
        assert not name or name in departures | set(by_id()) | {s.id for s in SPECIMENS}, e.id
        assert set(re.findall(r"[A-Z]+-\d+", f"{e.changes} {e.falls}")) <= KNOWN, e.id


def test_a_mutant_of_the_zoo_is_still_the_slip_that_it_was() -> None:
    """An ID that has come to name another place of its function stands for nothing."""
    assert SLIPS.keys() == {e.mutant for e in ZOO if e.mutant}
    assert {id: by_id()[id].what for id in SLIPS} == SLIPS


@pytest.mark.parametrize("e", [e for e in ZOO if e.how != "nothing"], ids=lambda e: e.id)
def test_an_entry_of_the_zoo_is_noticed(e: Entry) -> None:
    """Some engine notices what shows it: where a statement is expected to fall, the explorer or
    the prover.
    """
    said = {engine: KEPT[engine].said.get(shown(e), {}) for engine in ENGINES}
    assert any("by" in s for s in said.values())
    if e.falls:
        assert "by" in said["explorer"] or "by" in said["prover"]


@pytest.mark.parametrize("s", SPECIMENS, ids=lambda s: s.name)
def test_a_specimen_is_noticed_as_recorded(s: Specimen) -> None:
    """The readable explorer finds the same, if the explorer notices it at all."""
    said = KEPT["explorer"].said[s.id]
    if "by" in said:
        found = readable(s, said["scope"], 20_000)
        counts = {"by": found.breaks, "states": found.states, "actions": found.actions}
        rest = {k: v for k, v in said.items() if k not in counts}
        assert as_recorded("explorer", s.id, {**rest, **counts})


def test_a_defect_is_what_the_engines_take() -> None:
    """Mutants and specimens are defects alike: a name, a sentence, functions and texts."""
    some: list[Defect] = [mutants()[0], SPECIMENS[0]]
    assert all(d.id and d.what and d.functions and d.texts() for d in some)
