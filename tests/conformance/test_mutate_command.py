"""``nullblock mutate``: what it lists, what it asks, what it returns."""

import json

import pytest

from nullblock.conformance.cli import main
from nullblock.spec.mutation import results
from nullblock.spec.mutation.generate import mutants
from nullblock.spec.mutation.results import ENGINES, Results, load
from nullblock.spec.zoo.specimens import SPECIMENS

NOTICED = "rules.pool._take.skip-2"
"""A reused block keeps its hash."""


def test_without_a_name_it_says_what_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """How many mutants each engine was asked about and noticed, and of how many that was said of
    an earlier text.
    """
    assert main(["mutate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mutants"] == []
    known = {d.id for d in (*mutants(), *SPECIMENS)}
    for engine in ENGINES:
        kept, recorded = document["engines"][engine], load(engine)
        assert 0 < kept["noticed"] < kept["asked"] <= len(known)
        assert kept["earlier"] == len(known & recorded.earlier.keys() - recorded.now.keys())
    assert document["stale"] is any(load(engine).stale for engine in ENGINES)


def test_a_list_shows_what_noticed_each(capsys: pytest.CaptureFixture[str]) -> None:
    """An ID names one mutant, the beginning of IDs several, and so does a star."""
    assert main(["mutate", "--list", NOTICED, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["mutants"]
    assert row["id"] == NOTICED and "_unhash" in row["what"]
    assert row["engines"]["explorer"] == load("explorer").said[NOTICED]
    for some in ("rules.pool.adopt", "rules.*.adopt.*"):
        assert main(["mutate", "--list", some, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["mutants"]
        assert {r["id"].rpartition(".")[0] for r in rows} == {"rules.pool.adopt"}
    assert main(["mutate", "--list", "zoo.arrivals-first"]) == 0
    assert "zoo.arrivals-first" in capsys.readouterr().out


def test_a_mutant_is_shown_and_put_before_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """Its diff, what the engine says, and the counterexample as a story; 0 says it is noticed."""
    assert main(["mutate", "zoo.victim-to-back", "--engine", "explorer"]) == 0
    out = capsys.readouterr().out
    assert "-    s.rank[v] = s.lo\n" in out and "+    s.rank[v] = s.hi\n" in out
    assert "WAIT-15 in scope rules" in out
    assert "WAIT-15 is broken after rule PREEMPT-4" in out


def test_a_mutant_that_is_not_noticed_is_told_by_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """1 says that no engine that was asked notices it; which are asked is for the user to say."""
    assert main(["mutate", NOTICED, "--engine", "traces", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["mutants"]
    assert row["engines"]["traces"]["by"] == "HASH-12" and "+    pass\n" in row["diff"]
    assert main(["mutate", "rules.pool.adopt.guard-1", "--engine", "traces", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["mutants"]
    assert row["engines"] == {"traces": {}}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rules.pool.nothing"], "no mutant is called 'rules.pool.nothing'"),
        (["rules.pool.adopt", "--engine", "gcc"], "no 'gcc': choose from explorer"),
        (["rules.*"], "at most 50 are run at once"),
    ],
)
def test_mistakes_on_the_command_line_are_told(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says what is wrong; the exit code is 2."""
    assert main(["mutate", *arguments]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_results_of_another_text_are_called_stale(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the text is not the one that was mutated, that is said, and how to run it anew; where
    it is, nothing is.
    """
    current = load("prover")
    assert not Results("prover", current.said).stale
    monkeypatch.setattr(results, "digest", lambda statements: "another")
    kept = load("explorer")
    assert kept.stale and not kept.now and NOTICED in kept.earlier
    assert main(["mutate"]) == 0
    assert "python tests/mutants/systematic.py" in capsys.readouterr().err
