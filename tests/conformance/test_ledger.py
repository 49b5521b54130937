"""The ledger is current and says what the engines say."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger_evidence import LEDGER, RECORDED, altered

from nullblock.conformance import bundled
from nullblock.conformance.cli import main
from nullblock.conformance.ledger import evidence as file
from nullblock.conformance.ledger import refresh
from nullblock.conformance.ledger.digest import digest
from nullblock.conformance.ledger.evidence import Evidence, Kept, dump, load
from nullblock.conformance.ledger.judge import Ledger, judge
from nullblock.conformance.ledger.markdown import markdown
from nullblock.conformance.ledger.registry import SOURCES
from nullblock.conformance.ledger.sources import departures, liveness, mutants, streams, traces
from nullblock.conformance.ledger.words import Word, counted
from nullblock.conformance.liveness import CONDITIONS, SCOPES
from nullblock.spec.catalogue import everything
from nullblock.spec.departures import DEPARTURES, clear, find
from nullblock.spec.evidence import evidence
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.prover.claims import proved_invariants, proved_rules


def word(ledger: Ledger, row: str, engine: str) -> Word | None:
    """What a cell says."""
    cell = ledger.cells.get((row, engine))
    return cell.word if cell else None


def test_it_is_current_and_whole() -> None:
    """The evidence is of the text as it stands, nothing that is claimed lacks, and LEDGER.md is
    what it makes. Otherwise: nullblock ledger --refresh.
    """
    ledger = judge(RECORDED)
    assert [name for name in ledger.stale if SOURCES[name].claimed] == []
    assert ledger.shortfalls == ()
    assert list(RECORDED.sources) == list(SOURCES)
    assert refresh.PAGE.read_text() == markdown(ledger)
    assert file.FILE.read_bytes() == dump(RECORDED)


def test_what_is_proved_is_what_is_claimed() -> None:
    """The proved cells are those of `spec/prover/claims.py`, and `nullblock rules` says the same
    of each statement.
    """
    by_name = {s.id: s.definition.rpartition(".")[2] for s in everything()}
    proved = {row for (row, e), c in LEDGER.cells.items() if e == "Z3" and c.word == Word.PROVED}
    kinds = {s.id: s.kind for s in everything()}
    theorems = {
        cell.row
        for name in ("theorems", "ranking")
        if name in LEDGER.records
        for cell in SOURCES[name].cells(LEDGER.records[name])
    }
    invariants = {r for r in proved if kinds.get(r) == "invariant"}
    assert proved_invariants() <= invariants <= proved_invariants() | theorems
    assert {by_name[r] for r in proved if kinds.get(r) == "rule"} == proved_rules()
    for s in everything():
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
    """One departure's record is what the explorer finds now, story for story; of all scopes and
    departures `tests/spec` says so, where they are searched. The recorded matrix is the one that
    its own tests verify.
    """
    one = DEPARTURES[0]
    found = departures.shown(one, find(one), clear(one))
    assert found in LEDGER.records["departures"].departures
    names = [d.name for d in LEDGER.records["departures"].departures]
    assert names == [d.name for d in DEPARTURES]
    assert [s.name for s in LEDGER.records["scopes"].scopes] == list(STANDARD)
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
    assert streams.gather() == LEDGER.records["streams"]


def test_the_cycles_are_those_of_now() -> None:
    """A scope searched again for cycles, and a condition dropped again, give the records."""
    recorded = LEDGER.records["liveness"]
    assert [s.name for s in recorded.scopes] == list(SCOPES)
    assert [c.name for c in recorded.conditions] == list(CONDITIONS)
    quick = "outgrown-pool"
    assert liveness.searched(SCOPES[quick]) in recorded.scopes
    for name in ("pool", "ranks"):
        assert liveness.condition(CONDITIONS[name]) in recorded.conditions


def test_every_rule_is_asked_about_every_invariant() -> None:
    """Where nothing was asked, the words were true by themselves: that is seldom."""
    texts = [t for t in LEDGER.records["proofs"].texts if t.kind == "rule"]
    pairs = [p.times for t in texts for p in t.proved.values()]
    assert len(pairs) >= len(texts) * len(proved_invariants())
    assert pairs.count(0) < len(pairs) / 50


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
    kept = dict(altered(lambda records: None).sources)
    kept["systematic"] = Kept("0" * 64, kept["systematic"].record)
    ledger = judge(Evidence("nullblock-ledger", 1, kept))
    assert ledger.stale == ("systematic",) and ledger.shortfalls == ()
    assert "in an earlier text" in markdown(ledger)


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


def test_one_is_told_as_one() -> None:
    """A single difference, scenario or claim has no plural."""
    assert [counted(n, "step") for n in (0, 1, 2, 1234)] == [
        *("0 steps", "1 step", "2 steps", "1,234 steps")
    ]
    one = markdown(judge(altered(lambda r: r["lockstep"].update(differences=1))))
    assert ": 1 difference.\n" in one and "lockstep: 1 scenario differs from" in one
    two = markdown(judge(altered(lambda r: r["lockstep"].update(differences=2))))
    assert ": 2 differences.\n" in two and "lockstep: 2 scenarios differ from" in two
    assert "* 1 claim is not shown.\n" in markdown(replace(LEDGER, shortfalls=("one",)))
    assert "* 2 claims are not shown.\n" in markdown(replace(LEDGER, shortfalls=("one", "two")))


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
    monkeypatch.setattr(refresh, "gathered", ran)
    for data, text in (("other.json", "nowhere/x.md"), ("nowhere/x.json", "other.md")):
        with pytest.raises(OSError, match="nowhere"):
            refresh.refresh(file=tmp_path / data, page=tmp_path / text)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["LEDGER.md", "evidence.json"]


def ran(names: Collection[str], say: Any) -> Any:
    """Engines that nobody is to run."""
    raise AssertionError(f"{names} ran")


def unreadable(records: dict[str, Any]) -> None:
    """Records in which something is not there that now has to be."""
    del records["liveness"]["conditions"], records["scopes"]["scopes"]


def test_what_cannot_stay_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records that are to stay and cannot be read end the command at once, in one line that names
    them and what to refresh first. Those that are refreshed may be as they like.
    """
    path = tmp_path / "evidence.json"
    path.write_bytes(dump(altered(unreadable)))
    monkeypatch.setattr(file, "FILE", path)
    monkeypatch.setattr(refresh, "gathered", ran)
    assert main(["ledger", "--refresh", "--only", "departures"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nothing is run: evidence of liveness: " in said
    assert "evidence of scopes: " in said
    assert "refresh first, or with it: --only liveness --only scopes; " in said
    again = {name: LEDGER.records[name] for name in ("liveness", "scopes")}
    monkeypatch.setattr(refresh, "gathered", lambda names, say: again)
    page = tmp_path / "LEDGER.md"
    written = refresh.refresh(["liveness", "scopes"], file=path, page=page)
    assert written.records == LEDGER.records
    assert list(load(path).sources) == list(SOURCES)


def test_what_stays_and_falls_short_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """New scopes that have no record, evidence of an earlier text and what was never recorded are
    named first, in one line with what to refresh too; then the engines run.
    """
    path, page = tmp_path / "evidence.json", tmp_path / "LEDGER.md"
    kept = dict(altered(lambda r: r["liveness"]["scopes"].pop()).sources)
    kept["lockstep"] = Kept("0" * 64, kept["lockstep"].record)
    del kept["streams"]
    path.write_bytes(dump(Evidence("nullblock-ledger", 1, kept)))
    monkeypatch.setattr(file, "FILE", path)
    monkeypatch.setattr(refresh, "gathered", ran)
    with pytest.raises(AssertionError, match="ran"):
        refresh.refresh(["scopes"], file=path, page=page)
    last = list(SCOPES)[-1]
    assert capsys.readouterr().err == (
        "what stays falls short, and the ledger will say so: "
        f"liveness: no search of {last} is recorded; streams: nothing is recorded; "
        "lockstep: of an earlier text, for which python tests/fuzz/record.py runs first. "
        "Refresh too: --only liveness --only streams --only lockstep\n"
    )
    with pytest.raises(AssertionError, match="ran"):
        refresh.refresh(["liveness", "streams", "lockstep"], file=path, page=page)
    assert capsys.readouterr().err == ""


def test_an_engine_that_fails_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says which engine, and no file is touched."""
    before = file.FILE.read_bytes()
    monkeypatch.setattr(refresh, "WORKER", "nullblock.no_such_module")
    assert main(["ledger", "--refresh"]) == 74
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nothing is written: lockstep: " in said
    assert file.FILE.read_bytes() == before
