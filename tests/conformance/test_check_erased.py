"""The checker says the same, to the letter, whichever form of the text it runs."""

import copy
import gc
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from alterations import ALTERATIONS, DRAFT_ALTERATIONS, first
from traces import BUSY, documents, said, trace_of, unsealed
from violations import drafted

from nullblock.conformance import bundled
from nullblock.conformance.checker import check, fast
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.trace import source

Lines = list[dict[str, Any]]
KEPT = Path(__file__).parent / "data" / "recorded"
ALIGNED = sorted(p.stem for p in VECTORS.glob("aligned-*.json"))


def verdict(lines: Lines, after: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is said of a trace when the text is erased after so many rules."""
    monkeypatch.setattr(fast, "AFTER", after)
    stream = io.BytesIO(unsealed(copy.deepcopy(lines)))
    return said(check(Path("trace"), stream=stream))


@pytest.fixture(scope="module")
def recorded() -> Lines:
    """The first 700 steps that vLLM decided in a crowd."""
    with bundled.CROWDED.open("rb") as stream:
        lines = documents(b"\n".join(source.lines(stream)))
    return lines[: next(i for i, line in enumerate(lines) if line.get("step") == 700)]


@pytest.mark.parametrize(
    "trace", [bundled.TRACE, bundled.CROWDED, bundled.DRAFTED], ids=lambda p: p.name
)
def test_real_recordings(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same verdict, the same decisions compared, the same count of every rule."""
    verdicts = []
    for after in (0, 5000, math.inf):
        monkeypatch.setattr(fast, "AFTER", after)
        verdicts.append(said(check(trace)))
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert verdicts[0]["verdict"] == "CONFORMS"


@pytest.mark.parametrize("trace", sorted(KEPT.glob("*.jsonl")), ids=lambda p: p.stem)
def test_kept_recordings(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of each feature, from the first step on."""
    verdicts = []
    for after in (0, math.inf):
        monkeypatch.setattr(fast, "AFTER", after)
        found = check(trace)
        assert found.replay is not None and found.replay.machine.erased == (after == 0)
        assert found.verdict != "VIOLATION"
        verdicts.append(said(found))
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("name", ALIGNED)
def test_states_at_ends_of_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the later line does with them, in both forms."""
    document = json.loads((VECTORS / f"{name}.json").read_text())
    lines = documents(trace_of(document, semantics="vllm-0.32.0"))
    plain, quick = (verdict(lines, after, monkeypatch) for after in (math.inf, 0))
    assert plain == quick
    assert plain["verdict"] == "CONFORMS"


@pytest.mark.parametrize("name", ALTERATIONS | DRAFT_ALTERATIONS)
def test_altered_recordings(recorded: Lines, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same line, rule, expectation and story for a decision that was changed."""
    _, kind, suits, alter = (ALTERATIONS | DRAFT_ALTERATIONS)[name]
    recorded = drafted() if name in DRAFT_ALTERATIONS else recorded
    try:
        at = first(recorded, kind, suits)
    except (StopIteration, LookupError):
        pytest.skip("the recording has no such decision")
    lines = copy.deepcopy(recorded[: at + 3])
    alter(lines[at])
    plain, quick = (verdict(lines, after, monkeypatch) for after in (math.inf, 0))
    assert plain == quick
    assert plain["verdict"] == "VIOLATION"


@pytest.mark.parametrize("profile", ["normative", "vllm-0.22.1"])
def test_every_kind_of_event(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same verdict on our own engine's trace, and on it under the other profile."""
    for spec in ("normative", "vllm-0.22.1"):
        lines = documents(trace_of(BUSY, "spec", profile))
        lines[0]["spec"] = spec
        assert verdict(lines, math.inf, monkeypatch) == verdict(lines, 0, monkeypatch)


def test_a_check_leaves_the_collector_of_cycles_as_it_was(recorded: Lines) -> None:
    """Also where it ends with a violation, and where nothing is collected at all."""
    before = gc.get_threshold()
    alike = copy.deepcopy(recorded[:40])
    wrong = [*alike[:-1], {**next(q for q in alike if q["ev"] == "update"), "step": 9}]
    try:
        for thresholds in ((700, 10, 10), (0, 10, 10), (50_000, 5, 5)):
            gc.set_threshold(*thresholds)
            for lines in (alike, wrong):
                check(Path("trace"), stream=io.BytesIO(unsealed(copy.deepcopy(lines))))
                assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)


def test_a_form_that_an_earlier_run_kept_is_taken_sooner(
    recorded: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few rules, with the same verdict; where there is none it is not made for them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fast, "LOOKS", 1 - 1e-8)
    verdicts = []
    for after, erases in ((10**9, False), (0, True), (10**9, True)):
        monkeypatch.setattr(fast, "AFTER", after)
        stream = io.BytesIO(unsealed(copy.deepcopy(recorded[:150])))
        verdicts.append(check(Path("trace"), stream=stream))
        assert verdicts[-1].replay is not None
        assert verdicts[-1].replay.machine.erased == erases
    assert said(verdicts[0]) == said(verdicts[1]) == said(verdicts[2])


def test_the_erased_form_is_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long trace is not judged by the text as it is: the switch happens, and is noticed here."""
    made: list[fast.Machine] = []
    start = fast.Machine.__init__

    def spied(self: fast.Machine, k: Any, **options: Any) -> None:
        start(self, k, **options)
        made.append(self)

    monkeypatch.setattr(fast.Machine, "__init__", spied)
    check(bundled.CROWDED)
    assert [machine.erased for machine in made] == [True]


@pytest.mark.parametrize("words", [16, 40_000], ids=["short prompts", "a document"])
def test_what_is_long_is_what_is_work(words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of thousands of blocks is judged by the erased form, though it is read in a few
    steps that schedule nobody else; as few steps of short prompts are judged by the text.
    """
    monkeypatch.setattr(fast, "LOOKS", 0)
    config = {"num_blocks": 12_000, "max_num_batched_tokens": 8192, "max_model_len": 50_000}
    prompt = {"range": [0, words]}
    add = {"op": "add", "id": "a", "prompt": prompt, "max_tokens": 3}
    document = {
        "config": {"block_size": 4, **config},
        "events": [add, {"op": "run", "max_steps": 20}],
    }
    found = check(Path("trace"), stream=io.BytesIO(trace_of(document)))
    assert found.verdict == "CONFORMS" and found.replay is not None
    assert found.replay.decided < 20
    assert found.replay.machine.erased == (words > 16)
