"""``nullblock check --strength``: which known defects a trace would have shown."""

import ast
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bases import DRAFTED, DRAFTED_AHEAD, FEATURES, KEPT, seeing_a_part
from traces import BUSY, documents, trace_of, unsealed

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.cli import main
from nullblock.conformance.strength import plant, worker
from nullblock.conformance.strength.draft_mutants import DRAFT_MUTANTS
from nullblock.conformance.strength.feature_mutants import FEATURE_MUTANTS
from nullblock.conformance.strength.measure import Asked, Notice, measure, mutants_for
from nullblock.conformance.strength.mutants import BY_NAME, MUTANTS, Mutant
from nullblock.conformance.strength.same import unrun
from nullblock.spec.catalogue import catalogue
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trace that conforms."""
    path = tmp_path_factory.mktemp("strength") / "busy.jsonl"
    path.write_bytes(trace_of(BUSY))
    return path


def said(trace: Path, *mutants: Mutant) -> list[Notice]:
    """What it says about some mutants."""
    return measure(Asked(trace, None), check(trace).rules, mutants=mutants)


@pytest.mark.parametrize("mutant", MUTANTS + DRAFT_MUTANTS + FEATURE_MUTANTS, ids=lambda m: m.name)
def test_every_mutant_can_be_planted_and_says_what_it_takes(mutant: Mutant) -> None:
    """The text that it changes is there, and it names its statement and how it shows."""
    with plant.planted(mutant) as folder:
        changed = [file for file, _, _ in mutant.edits]
        for file in changed:
            planted = (folder / "nullblock" / "spec" / file).read_text()
            assert planted != (plant.SPEC / file).read_text()
            compile(planted, file, "exec")
    assert mutant.rule in {s.id for s in catalogue()} and mutant.takes


def test_a_text_that_has_gone_is_noticed() -> None:
    """An edit that no longer fits is an error, and no mutant that survives."""
    with (
        pytest.raises(plant.Stale, match="no longer contains"),
        plant.planted(Mutant("m", "d", (("state.py", "no such text", ""),))),
    ):
        pass


def test_a_rejection_names_its_place_and_an_escape_its_reason(trace: Path) -> None:
    """A defect that shows is rejected at a step, on a line, by a rule; of one that does not it is
    said what the trace lacks.
    """
    shown, hidden, unexercised = said(
        trace,
        *(BY_NAME[n] for n in ("hit-without-reference", "stop-before-eos", "preempt-oldest")),
    )
    assert (shown.said, shown.rule) == ("rejected", "OUT-4")
    assert shown.step > 0 and shown.line > shown.step
    assert (hidden.said, hidden.line) == ("not noticed", 0)
    assert hidden.what == f"this trace never shows {BY_NAME['stop-before-eos'].takes}"
    assert unexercised.said == "not noticed"


def test_a_rule_that_never_fires_is_named(trace: Path) -> None:
    """If the rule that a mutant changes has no part in the trace, that is the reason."""
    (notice,) = said(trace, BY_NAME["withdrawn-hashes-stay"])
    assert notice.what.startswith("this trace never exercises PREEMPT-3; ")


def text_at(mutant: Mutant) -> list[ast.FunctionDef]:
    """The functions whose text a mutant changes."""
    found = []
    for file, old, _ in mutant.edits:
        text = (plant.SPEC / file).read_text()
        line = text.count("\n", 0, text.index(old)) + 1
        functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
        found.append(next(f for f in functions if f.lineno <= line <= (f.end_lineno or 0)))
    return found


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.needs], ids=lambda m: m.name)
def test_a_mutant_whose_text_decides_nothing_is_not_asked(mutant: Mutant, trace: Path) -> None:
    """Where the rule that it needs never fires, the answer is the one that asking gives. The rule
    is its own text's, or the only one that asks whom the policy names, or counts preemptions.
    """
    texts = text_at(mutant)
    asked_by = {"is_victim", "victim", "may_admit"}
    for function in texts:
        named = any(mutant.needs in ast.unparse(d) for d in function.decorator_list)
        assert named or (mutant.needs == "PREEMPT-2" and function.name in asked_by)
    broken = replace(mutant, edits=(("state.py", "def in_queue(", "def in queue("),))
    asked = Asked(trace, None)
    (told,) = measure(asked, {}, mutants=(broken,))
    assert told.said == "not noticed"
    assert told.what.endswith(f"this trace never shows {mutant.takes}")
    for seen, fired in ((asked, {mutant.needs: 1}), (replace(asked, raised=True), {})):
        (told,) = measure(seen, fired, mutants=(broken,))
        assert told.said == "rejected"


def test_a_text_that_comes_apart_is_rejected(trace: Path) -> None:
    """A mutant that cannot even be imported contradicts every trace."""
    broken = Mutant("m", "d", (("state.py", "def in_queue(", "def in queue("),), rule="POOL-3")
    (notice,) = said(trace, broken)
    assert (notice.said, notice.rule) == ("rejected", "POOL-3")
    assert "SyntaxError" in notice.what


def test_a_text_that_comes_apart_between_steps_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A check is INCONCLUSIVE there: a worker has no verdict, so that the mutant is rejected."""

    def fail(*_: object) -> None:
        raise LookupError("odd")

    monkeypatch.setattr(Replay, "_abort", fail)
    path = tmp_path / "trace"
    path.write_bytes(trace_of(BUSY))
    monkeypatch.setattr(sys, "argv", ["worker", Asked(path, None).arguments()])
    with pytest.raises(SystemExit, match="what the rules say to a record of kind 'abort'"):
        worker.main()
    assert capsys.readouterr().out == ""


def test_a_mutant_that_never_ends_is_given_up(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither rejected nor unnoticed."""
    monkeypatch.setattr("nullblock.conformance.strength.measure.LEAST_SECONDS", 2.0)
    endless = Mutant(
        "m", "d", (("state.py", "def in_queue(", "while True:\n    pass\ndef in_q("),)
    )
    (notice,) = measure(Asked(trace, None), {}, mutants=(endless,))
    assert notice.said == "no answer" and "more than 2 seconds" in notice.what


def test_the_command_tells_people_and_programs(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code stays that of the verdict."""
    few = MUTANTS[:2]
    measured: Any = measure
    monkeypatch.setattr(
        "nullblock.conformance.strength.measure.measure",
        lambda *args: measured(*args[:-1], mutants=few),
    )
    assert main(["check", "--strength", "--json", str(trace)]) == 0
    found = json.loads(capsys.readouterr().out)["strength"]
    assert found["mutants"] == 2
    assert [m["mutant"] for m in found["by_mutant"]] == [m.name for m in few]
    assert found["rejected"] == sum(m["said"] == "rejected" for m in found["by_mutant"])
    assert main(["check", "--strength", str(trace), str(trace)]) == 0
    out = capsys.readouterr().out
    assert out.count("of 2 known mutants would be rejected") == 3 and few[0].name in out
    for notice in found["by_mutant"]:  # no reason is cut off or broken into columns
        assert notice["defect"] in out and notice["what"] in out


def test_a_trace_that_does_not_conform_has_no_strength(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says nothing about mutants, and the command says so."""
    wrong = documents(trace_of(BUSY))
    next(x for x in wrong if x["ev"] == "schedule")["tokens"][0] += 1
    (tmp_path / "wrong").write_bytes(unsealed(wrong))
    assert main(["check", "--strength", str(tmp_path / "wrong")]) == 1
    assert "only a trace that conforms" in capsys.readouterr().out
    assert main(["check", "--strength", "--json", str(tmp_path / "wrong")]) == 1
    assert json.loads(capsys.readouterr().out)["strength"] is None


def test_standard_input_cannot_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and 2."""
    assert main(["check", "--strength", "-"]) == 2
    assert "save it to a file" in capsys.readouterr().err


def test_the_mutants_about_drafts_are_asked_where_there_are_some() -> None:
    """Of other traces nothing more is asked than before."""
    plain, drafted = (check_of(document).replay for document in (BUSY, DRAFTED))
    assert plain is not None and drafted is not None
    assert mutants_for(plain.header) == MUTANTS == mutants_for(None)
    assert mutants_for(drafted.header) == MUTANTS + DRAFT_MUTANTS


def check_of(document: dict[str, Any]) -> Verdict:
    """The verdict on the trace of a scenario."""
    return check(Path("trace"), stream=io.BytesIO(trace_of(document)))


def test_traces_with_drafts_bring_the_mutants_about_them_to_light(tmp_path: Path) -> None:
    """The bundled trace, one ahead of its outputs, and one that begins where a chunk gets drafts,
    all of them the real engine's but the second, reject each of them between them.
    """
    ahead = tmp_path / "ahead.jsonl"
    ahead.write_bytes(trace_of(DRAFTED_AHEAD))
    midway = Path(__file__).parent / "data" / "midway" / "drafted.jsonl"
    found: dict[str, str] = {}
    for path in (bundled.DRAFTED, ahead, midway):
        left = [m for m in DRAFT_MUTANTS if m.name not in found]
        found |= {n.mutant.name: n.rule for n in said(path, *left) if n.said == "rejected"}
    assert set(found) == {m.name for m in DRAFT_MUTANTS}


def test_traces_with_features_bring_the_mutants_about_them_to_light(tmp_path: Path) -> None:
    """The kept recordings of the real engine, and a trace whose pool is nearly full, reject each
    between them; only those about a feature that is on are asked.
    """
    crowded = tmp_path / "crowded.jsonl"
    window = seeing_a_part({"type": "sliding_window", "sliding_window": 6})
    crowded.write_bytes(trace_of(window))
    found: dict[str, str] = {}
    for path in (*(KEPT / f"{name}.jsonl" for name in FEATURES), crowded):
        verdict = check(path)
        assert verdict.replay is not None
        asked = mutants_for(verdict.replay.header, verdict.rules)[len(MUTANTS) :]
        asked = tuple(m for m in asked if m not in DRAFT_MUTANTS)
        assert asked and set(asked) < set(FEATURE_MUTANTS)
        left = [m for m in asked if m.name not in found]
        found |= {n.mutant.name: n.rule for n in said(path, *left) if n.said == "rejected"}
    assert set(found) == {m.name for m in FEATURE_MUTANTS}


WITHDRAWN: dict[str, Any] = {
    "config": {
        **{"block_size": 4, "num_blocks": 7, "policy": "priority", "max_num_batched_tokens": 8},
        **{"long_prefill_token_threshold": 4, "scheduler_reserve_full_isl": False},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"fill": 1, "n": 20}, "max_tokens": 9, "priority": 5},
        {"op": "step"},
        {"op": "add", "id": "b", "prompt": {"fill": 2, "n": 3}, "max_tokens": 9},
        {"op": "step"},
        {"op": "add", "id": "c", "prompt": {"fill": 3, "n": 20}, "max_tokens": 9, "priority": 1},
        {"op": "step", "n": 2},
    ],
}
"""A victim's tokens go to somebody behind whoever preempts it."""
RECORDED = Path(__file__).parent / "data" / "recorded"
VECTORS = Path(bundled.__file__).parents[1] / "vectors"


def test_under_the_release_each_mutant_shows_or_is_told_to_be_the_same(tmp_path: Path) -> None:
    """Recordings of the real engine, an example scenario and one of a victim in the step reject
    each between them, but those whose text that release never runs.
    """
    traces = [RECORDED / f"{name}.jsonl" for name in ("ahead", "four-in-flight", "odd-ones")]
    stops = json.loads((VECTORS / "min-tokens-hold-back-every-stop.json").read_text())
    for name, document in (("stops", stops), ("withdrawn", WITHDRAWN)):
        traces.append(tmp_path / f"{name}.jsonl")
        traces[-1].write_bytes(trace_of(document))
    left = {m.name for m in MUTANTS}
    same = set[str]()
    for path in traces:
        verdict = check(path)
        assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1"), path
        asked = Asked(path, None, semantics=VLLM_0_22_1, label=verdict.profile)
        some = [m for m in MUTANTS if m.name in left]
        notices = measure(asked, verdict.rules, mutants=some)
        left -= {n.mutant.name for n in notices if n.said == "rejected"}
        same = {n.mutant.name for n in notices if n.said == "the same"}
    assert left == same == {m.name for m in MUTANTS if unrun(m, VLLM_0_22_1)}


def test_a_mutant_that_is_the_same_is_told_so(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the switch that is to blame, not with what the trace lacks; it counts for nothing.
    Where a mutant's text is run it is asked as ever.
    """
    few = tuple(BY_NAME[n] for n in ("one-step-too-many", "hit-without-reference"))
    measured: Any = measure
    monkeypatch.setattr(
        "nullblock.conformance.strength.measure.measure",
        lambda *args: measured(*args[:-1], mutants=few),
    )
    assert main(["check", "--strength", str(trace), str(trace)]) == 0
    out = capsys.readouterr().out
    assert "strength: 1 of 1 known mutants would be rejected; 1 more are the same" in out
    assert "the same: vllm-0.22.1 (stop_check_counts_frames=false) never runs its text" in out
    assert "together: 1 of 1 known mutants would be rejected\n" in out
    assert main(["check", "--strength", "--json", str(trace)]) == 0
    found = json.loads(capsys.readouterr().out)["strength"]
    assert (found["mutants"], found["rejected"], found["same"]) == (2, 1, 1)


@pytest.mark.parametrize("name", PROFILES)
def test_what_a_profile_never_runs(name: str) -> None:
    """Each mutant is of some profile's text; none of what recordings of vLLM 0.22.1 reject is said
    to be the same there; and whoever changes what is run is never said to be.
    """
    every = MUTANTS + DRAFT_MUTANTS + FEATURE_MUTANTS
    assert not any(all(unrun(m, values) for values in PROFILES.values()) for m in every)
    assert not any(unrun(m, VLLM_0_22_1) for m in DRAFT_MUTANTS + FEATURE_MUTANTS)
    matches = PROFILES[name].frames_match_request
    taken, other = "        return both(goes_on(s, r), s.arr[", "    return goes_on(s, r)\n"
    for old, run in ((taken, matches), (other, not matches)):
        mutant = Mutant("m", "d", (("flight.py", old, old.replace("goes_on", "goes_off")),))
        assert unrun(mutant, PROFILES[name]) == (() if run else ("frames_match_request",))
