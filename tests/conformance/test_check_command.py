"""``nullblock check`` as a shell sees it."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One trace of each verdict."""
    whole = trace_of(BUSY)
    (tmp_path / "good").write_bytes(whole)
    wrong = documents(whole)
    next(x for x in wrong if x["ev"] == "schedule")["tokens"][0] += 1
    (tmp_path / "wrong").write_bytes(unsealed(wrong))
    unknown = documents(whole)
    unknown[0]["features"] = ["async_scheduling"]
    (tmp_path / "unknown").write_bytes(unsealed(unknown))
    (tmp_path / "broken").write_bytes(whole[:-40])
    return tmp_path


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["good"], 0),
        (["good", "good"], 0),
        (["wrong"], 1),
        (["unknown"], 3),
        (["broken"], 4),
        (["good", "unknown"], 3),
        (["unknown", "broken", "good"], 4),
        (["broken", "unknown", "wrong", "good"], 1),
    ],
)
def test_the_worst_verdict_is_the_exit_code(folder: Path, names: list[str], code: int) -> None:
    """1 before 4 before 3 before 0, in whatever order they are given."""
    assert main(["check", *(str(folder / name) for name in names)]) == code


def test_json_of_one_trace_is_an_object(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that the verdict rests on, under the documented names."""
    assert main(["check", "--json", str(folder / "wrong")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "VIOLATION" and found["profile"] == "vllm-0.22.1"
    assert found["steps"] == 1 and found["decisions"] == 1
    assert found["rules"]["RUN-5"] == 1
    assert found["missing"] == []
    first = found["first"]
    assert (first["line"], first["step"], first["rule"]) == (4, 1, "RUN-1")
    assert (first["expected"], first["actual"]) == (8, 9)
    assert "RUN-1" in first["story"]


def test_a_folder_of_several_recordings_stands_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks and restarts share a folder: each recording in it is judged, and the worst counts."""
    whole = trace_of(BUSY)
    for name, data in (("rank0-run1", whole), ("rank1-run1", whole[:-40]), ("rank1-run2", whole)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0001.jsonl").write_bytes(data)
    assert main(["check", "--json", str(tmp_path)]) == 4
    found = {
        Path(one["trace"]).name: one["verdict"] for one in json.loads(capsys.readouterr().out)
    }
    kept = {"rank0-run1": "CONFORMS", "rank1-run1": "MALFORMED", "rank1-run2": "CONFORMS"}
    assert found == kept
    shutil.rmtree(tmp_path / "rank1-run1")
    assert main(["check", str(tmp_path)]) == 0


def test_json_of_several_is_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object a trace, in their order."""
    main(["check", "--json", *(str(folder / n) for n in ("good", "unknown", "broken"))])
    found = json.loads(capsys.readouterr().out)
    assert [v["verdict"] for v in found] == ["CONFORMS", "INCONCLUSIVE", "MALFORMED"]
    assert found[1]["missing"] == ["the feature async_scheduling"]
    assert found[2]["first"]["rule"] is None and found[2]["first"]["line"] > 1


def test_the_screen_names_rule_and_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person sees what was decided, what the rules say, which rule, and where."""
    main(["check", str(folder / "wrong")])
    out = capsys.readouterr().out
    for words in ("VIOLATION", "line 4", "the rules of vllm-0.22.1 say: 8", "trace says: 9"):
        assert words in out
    main(["check", str(folder / "good")])
    out = capsys.readouterr().out
    assert "CONFORMS" in out and "never exercised: " in out and "POOL-10" in out


def test_junit_says_the_same(folder: Path, tmp_path: Path) -> None:
    """A failure, an error, a skipped case and a passed one."""
    report = tmp_path / "report.xml"
    names = [str(folder / n) for n in ("good", "wrong", "unknown", "broken")]
    assert main(["check", "--junit", str(report), *names]) == 1
    suite = ElementTree.parse(report).getroot()[0]
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    tags = [[child.tag for child in case if child.tag != "system-out"] for case in suite]
    assert tags == [[], ["failure"], ["skipped"], ["error"]]
    assert "RUN-1" in str(suite[1][0].text)
    assert (suite[1].get("file"), suite[1].get("line")) == (str(folder / "wrong"), "4")


def test_junit_carries_the_scenario(folder: Path, tmp_path: Path) -> None:
    """Where a scenario was asked for, a CI server shows it with the failure."""
    report, target = tmp_path / "report.xml", tmp_path / "fault.json"
    main(["check", "--junit", str(report), "--scenario", str(target), str(folder / "wrong")])
    out = ElementTree.parse(report).getroot()[0][0].find("system-out")
    assert out is not None and target.read_text() in str(out.text)


def test_one_file_for_one_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two options that name one file are a mistake; so is a trace as an output."""
    for options in (["--page", "x", "--junit", "x"], ["--page", str(folder / "good")]):
        assert main(["check", *options, str(folder / "good")]) == 2
    said = capsys.readouterr().err
    assert "is written by another option as well" in said and "would be overwritten" in said


def test_names_that_xml_cannot_hold(folder: Path, tmp_path: Path) -> None:
    """A file may be called anything."""
    odd = folder / "\x01<&\udcff"
    odd.write_bytes((folder / "good").read_bytes())
    report = tmp_path / "report.xml"
    assert main(["check", "--junit", str(report), str(odd)]) == 0
    assert len(ElementTree.parse(report).getroot()[0]) == 1


def test_the_profile_can_be_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another profile, and a profile with a switch turned, are named in the verdict."""
    good = str(folder / "good")
    assert main(["check", "--json", "--profile", "normative", good]) == 0
    assert json.loads(capsys.readouterr().out)["profile"] == "normative"
    settings = ["--profile", "normative", "--set", "freed_unhashed_first=true"]
    main(["check", "--json", *settings, good])
    found = json.loads(capsys.readouterr().out)
    assert found["profile"] == "normative, freed_unhashed_first=true"
    assert found["verdict"] == "VIOLATION"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        ([], "Missing argument"),
        (["--profile", "best", "x"], "no profile 'best': choose from normative, vllm-0.22.1"),
        (["--set", "a=true", "x"], "--profile"),
        (["--strange", "x"], "No such option"),
    ],
)
def test_mistakes_on_the_command_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the mistake, and 2."""
    assert main(["check", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


def test_parts_of_a_recording_are_a_folder(tmp_path: Path) -> None:
    """A rotated recording is one run; with a part missing it is damaged."""
    lines = documents(trace_of(BUSY))
    lines[0]["recording"] = "r"
    half = len(lines) // 2
    (tmp_path / "0001.jsonl").write_bytes(unsealed(lines[:half]))
    part = {"ev": "part", "number": 2, "recording": "r"}
    (tmp_path / "0002.jsonl").write_bytes(unsealed([part, *lines[half:]]))
    assert main(["check", str(tmp_path)]) == 0
    (tmp_path / "0002.jsonl").rename(tmp_path / "0003.jsonl")
    assert main(["check", str(tmp_path)]) == 4


def test_an_empty_folder_and_a_folder_of_anything(tmp_path: Path) -> None:
    """No parts: damage, not a crash."""
    assert main(["check", str(tmp_path)]) == 4
    (tmp_path / "0001.jsonl").mkdir()
    assert main(["check", str(tmp_path)]) == 2
