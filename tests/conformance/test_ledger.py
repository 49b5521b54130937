"""The ledger is current and says what the engines say; a lie in its evidence changes its words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nullblock.conformance import bundled
from nullblock.conformance.cli import main
from nullblock.conformance.ledger import evidence as file
from nullblock.conformance.ledger import refresh
from nullblock.conformance.ledger.digest import digest
from nullblock.conformance.ledger.evidence import Evidence, Kept, dump, load
from nullblock.conformance.ledger.judge import Ledger, judge
from nullblock.conformance.ledger.markdown import markdown
from nullblock.conformance.ledger.registry import SOURCES
from nullblock.conformance.ledger.sources import departures, mutants, scopes, traces
from nullblock.conformance.ledger.words import Word
from nullblock.spec.catalogue import catalogue
from nullblock.spec.evidence import evidence
from nullblock.spec.prover.claims import proved_invariants, proved_rules

Lie = Callable[[dict[str, Any]], None]
"""Alters the records of the sources."""
RECORDED = load()


def altered(lie: Lie) -> Evidence:
    """The evidence with a lie in it, as if it were of the present text."""
    records = {name: msgspec.json.decode(k.record) for name, k in RECORDED.sources.items()}
    lie(records)
    kept = {
        name: Kept(digest(SOURCES[name].files), msgspec.Raw(msgspec.json.encode(found)))
        for name, found in records.items()
    }
    return Evidence("nullblock-ledger", 1, kept)


LEDGER = judge(altered(lambda records: None))
"""What is recorded, were it current: whether it is, one test says."""


def word(ledger: Ledger, row: str, engine: str) -> Word | None:
    """What a cell says."""
    cell = ledger.cells.get((row, engine))
    return cell.word if cell else None


def test_it_is_current_and_whole() -> None:
    """The evidence is of the text as it stands, nothing that is claimed lacks, and LEDGER.md is
    what it makes. Otherwise: nullblock ledger --refresh.
    """
    ledger = judge(RECORDED)
    assert ledger.stale == ()
    assert ledger.shortfalls == ()
    assert list(RECORDED.sources) == list(SOURCES)
    assert refresh.PAGE.read_text() == markdown(ledger)
    assert file.FILE.read_bytes() == dump(RECORDED)


def test_what_is_proved_is_what_is_claimed() -> None:
    """The proved cells are those of `spec/prover/claims.py`, and `nullblock rules` says the same
    of each statement.
    """
    by_name = {s.id: s.definition.rpartition(".")[2] for s in catalogue()}
    proved = {row for (row, e), c in LEDGER.cells.items() if e == "Z3" and c.word == Word.PROVED}
    kinds = {s.id: s.kind for s in catalogue()}
    assert {r for r in proved if kinds.get(r) == "invariant"} == proved_invariants()
    assert {by_name[r] for r in proved if kinds.get(r) == "rule"} == proved_rules()
    for s in catalogue():
        said = " ".join(evidence(s))
        assert ("Z3: proved" in said) == (word(LEDGER, s.id, "Z3") == Word.PROVED), s.id
        exhaustive = word(LEDGER, s.id, "explorer") == Word.EXHAUSTIVE
        assert ("exhaustive" in said) == exhaustive, s.id
        lockstep = word(LEDGER, s.id, "lockstep") == Word.NOT_REFUTED
        assert ("lockstep" in said) == lockstep, s.id


def test_only_the_prover_proves() -> None:
    """No other engine says proved, whatever it found."""
    assert {e for (_, e), c in LEDGER.cells.items() if c.word == Word.PROVED} == {"Z3"}


def test_the_searches_are_those_of_now() -> None:
    """The recorded scopes and departures are what the explorer finds now, state for state and
    story for story; the recorded matrix is the one that its own tests verify.
    """
    assert scopes.gather() == LEDGER.records["scopes"]
    assert departures.gather() == LEDGER.records["departures"]
    assert mutants.gather() == LEDGER.records["mutants"]


def test_the_proofs_and_verdicts_are_those_of_now() -> None:
    """A rule proved again gives the recorded obligations, a trace judged again the recorded
    verdict, each of them one that is quick.
    """
    from nullblock.spec.prover import prove

    found = prove("evict_block").per_rule["evict_block"]
    recorded = {t.name: t for t in LEDGER.records["proofs"].texts}["evict_block"]
    asked = {what: p.times for what, p in recorded.proved.items() if p.times}
    again: dict[str, int] = {}
    for c in found.found.values():
        again[c.what] = again.get(c.what, 0) + c.times
    assert asked == again and recorded.left == ()
    judged = {t.name: t for t in LEDGER.records["traces"].traces}
    assert set(judged) == {p.name for p in bundled.traces()}
    assert traces.judged(bundled.CROWDED) == judged[bundled.CROWDED.name]


def test_every_rule_is_asked_about_every_invariant() -> None:
    """Where nothing was asked, the words were true by themselves: that is seldom."""
    texts = [t for t in LEDGER.records["proofs"].texts if t.kind == "rule"]
    pairs = [p.times for t in texts for p in t.proved.values()]
    assert len(pairs) >= len(texts) * len(proved_invariants())
    assert pairs.count(0) < len(pairs) / 50


def unproved(r: dict[str, Any]) -> None:
    """An obligation is open."""
    text = named(r["proofs"]["texts"], "push_new")
    del text["proved"]["POOL-3"]
    text["left"] = [{"what": "POOL-3", "policy": "fcfs", "status": "unknown"}]


def refuted(r: dict[str, Any]) -> None:
    """An obligation has a counterexample."""
    unproved(r)
    named(r["proofs"]["texts"], "push_new")["left"][0]["status"] = "refuted"


def unguarded(r: dict[str, Any]) -> None:
    """The machine fires a rule where it may not."""
    text = named(r["proofs"]["texts"], "schedule")
    text["left"] = [{"what": "look is enabled", "policy": "fcfs", "status": "unknown"}]


def lost(r: dict[str, Any]) -> None:
    """An obligation has vanished."""
    del named(r["proofs"]["texts"], "wipe")["proved"]["POOL-3"]


def unreached(r: dict[str, Any]) -> None:
    """A text assumes what contradicts itself."""
    named(r["proofs"]["texts"], "wipe")["reached"] = False


def witness(r: dict[str, Any]) -> None:
    """A scope does not reach what it promises."""
    scope = named(r["scopes"]["scopes"], "core")
    scope["reached"].remove("preempts-another")


def cut(r: dict[str, Any]) -> None:
    """A scope was not searched to the end."""
    named(r["scopes"]["scopes"], "twins")["complete"] = False


def dropped(r: dict[str, Any]) -> None:
    """A scope was not searched."""
    r["scopes"]["scopes"].pop()


def broken(r: dict[str, Any]) -> None:
    """A scope has a counterexample."""
    story = dict(r["departures"]["departures"][0]["story"], breaks="POOL-3")
    named(r["scopes"]["scopes"], "core")["story"] = story


def violated(r: dict[str, Any]) -> None:
    """A recorded run does something else."""
    r["traces"]["traces"][0]["verdict"] = "VIOLATION"


def differs(r: dict[str, Any]) -> None:
    """The real engine does something else."""
    r["lockstep"]["differences"] = 1


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The entry of that name."""
    return next(x for x in found if x["name"] == name)


@pytest.mark.parametrize(
    ("lie", "row", "engine", "said"),
    [
        (unproved, "POOL-3", "Z3", Word.OPEN),
        (unproved, "POOL-10", "Z3", Word.OPEN),  # the rule
        (unproved, "RUN-8", "Z3", Word.OPEN),  # its proof assumes the other
        (refuted, "POOL-3", "Z3", Word.REFUTED),
        (unguarded, "POOL-3", "Z3", Word.OPEN),
        (lost, "POOL-3", "Z3", Word.OPEN),
        (unreached, "POOL-3", "Z3", Word.OPEN),
        (witness, "POOL-3", "explorer", Word.EMPTY),
        (cut, "POOL-3", "explorer", Word.EMPTY),
        (dropped, "RUN-20", "explorer", Word.EMPTY),
        (broken, "POOL-3", "explorer", Word.REFUTED),
        (broken, "POOL-1", "explorer", Word.EMPTY),
        (violated, "POOL-10", "traces", Word.REFUTED),
        (differs, "POOL-10", "lockstep", Word.REFUTED),
    ],
)
def test_a_lie_changes_the_word_and_the_exit_code(
    lie: Lie,
    row: str,
    engine: str,
    said: Word,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Evidence that does not bear out a claim takes the word away, in every output, and ends the
    command with 1.
    """
    path = tmp_path / "evidence.json"
    path.write_bytes(dump(altered(lie)))
    monkeypatch.setattr(file, "FILE", path)
    assert main(["ledger", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    cell = named([{"name": s["id"], **s} for s in found["statements"]], row)["shown"][engine]
    assert cell["word"] == said and not cell["shown"] and cell["because"]
    assert any(row in line for line in found["shortfalls"]) or said == Word.REFUTED
    assert main(["ledger"]) == 1
    assert found["shortfalls"][0][:40] in capsys.readouterr().out
    assert f"**{said}**" in markdown(judge(load()))


@pytest.mark.parametrize(
    ("lie", "line"),
    [
        (lambda r: r["departures"]["departures"][0].pop("story"), "unfit-prompt: it does not"),
        (lambda r: r["departures"]["departures"].pop(0), "unfit-prompt: it is not recorded"),
        (
            lambda r: r["departures"]["departures"][0].update(normative_passes=False),
            "unfit-prompt: normative does not pass",
        ),
        (lambda r: r["mutants"]["mutants"][0].update(noticed=[]), "nobody notices it"),
        (lambda r: r["mutants"]["mutants"].pop(0), "touch-keeps-queue is not recorded"),
        (lambda r: r["traces"]["traces"].pop(0), "no verdict is recorded"),
        (lambda r: r.pop("traces"), "no evidence of traces is recorded"),
    ],
)
def test_what_is_no_cell_counts_too(lie: Lie, line: str) -> None:
    """Departures, mutants and traces that are not borne out, or not there, are shortfalls."""
    assert any(line in shortfall for shortfall in judge(altered(lie)).shortfalls)


def test_another_text_makes_cells_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence of an earlier text says so in each cell that rests on it, and in no other."""
    kept = dict(altered(lambda records: None).sources)
    kept["proofs"] = Kept("0" * 64, kept["proofs"].record)
    ledger = judge(Evidence("nullblock-ledger", 1, kept))
    assert ledger.stale == ("proofs",)
    cell = ledger.cells["POOL-3", "Z3"]
    assert cell.word == Word.STALE and "proved of an earlier text" in cell.because
    assert word(ledger, "POOL-3", "explorer") == Word.EXHAUSTIVE
    assert any("--refresh" in line for line in ledger.shortfalls)


def test_the_digest_is_of_what_runs(tmp_path: Path) -> None:
    """Comments and blank lines do not count; a changed line, a new file and a new name do."""
    (tmp_path / "spec").mkdir()
    text = tmp_path / "spec" / "a.py"
    text.write_text("x = 1\n")
    first = digest(("spec/*.py",), tmp_path)
    text.write_text("# why\n\nx = 1  \n")
    assert digest(("spec/*.py",), tmp_path) == first
    text.write_text("x = 2\n")
    assert digest(("spec/*.py",), tmp_path) != first
    text.write_text("x = 1\n")
    (tmp_path / "spec" / "b.py").write_text("")
    assert digest(("spec/*.py",), tmp_path) != first
    with pytest.raises(ValueError, match="means no file"):
        digest(("spec/*.c",), tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"format":"x"}', b'{"format":"nullblock-ledger","version":9}', None]
)
def test_damaged_evidence_is_one_line(
    data: bytes | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Evidence that cannot be read is said in one line with the remedy; exit code 2."""
    path = tmp_path / "evidence.json"
    if data is not None:
        path.write_bytes(data)
    monkeypatch.setattr(file, "FILE", path)
    assert main(["ledger"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--refresh" in said and str(path) in said


def test_a_damaged_record_names_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that nobody knows is damage, not evidence."""
    with pytest.raises(file.Damaged, match="evidence of proofs"):
        judge(altered(lambda r: r["proofs"].update(all_is="well")))


def test_refreshing_writes_both_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the engines say again becomes both files; without a place for one, none is written."""
    monkeypatch.setattr(refresh, "gathered", lambda names, say: LEDGER.records)
    new, page = tmp_path / "evidence.json", tmp_path / "LEDGER.md"
    written = refresh.refresh(file=new, page=page)
    assert written.records == LEDGER.records
    assert judge(load(new)).records == LEDGER.records
    assert page.read_text() == markdown(written)
    with pytest.raises(OSError, match="nowhere"):
        refresh.refresh(file=tmp_path / "other.json", page=tmp_path / "nowhere" / "x.md")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["LEDGER.md", "evidence.json"]


def test_an_engine_that_fails_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says which engine, and no file is touched."""
    before = file.FILE.read_bytes()
    monkeypatch.setattr(refresh, "WORKER", "nullblock.no_such_module")
    assert main(["ledger", "--refresh"]) == 74
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nothing is written: proofs: " in said
    assert file.FILE.read_bytes() == before
