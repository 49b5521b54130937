"""How engines call a scheduler: any call is taken, and what the recorder has no words for told."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from record_again import decided_otherwise, record_all
from recorded_engine import Recorded, engine, records, request

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm import configuration, items, remote
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.scenario_format import Group
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import Feature, Gap, Header, Output, Schedule
from nullblock.reference.sched import later
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import profile

HERE = Path(__file__).parent
HELD = "throttle_prefills"
Scenario = dict[str, Any]


@pytest.mark.oracle
@pytest.mark.parametrize("line", ["vllm-0.22.1", "vllm-0.32.0"])
def test_whatever_the_engine_may_call_is_taken(line: str, pythons: dict[str, Path]) -> None:
    """Each method takes whatever arguments the release's own does, in order and by name."""
    asked = [pythons[line], "-B", HERE / "record_signatures.py"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120)
    refused = json.loads(done.stdout.splitlines()[-1])
    assert len(refused) >= 12 and "schedule" in refused
    assert {name: calls for name, calls in refused.items() if calls} == {}


def add(r: str, first: int, prompt: int = 6) -> Scenario:
    """A request with a prompt of its own."""
    tokens = {"range": [first, first + prompt]}
    return {"op": "add", "id": r, "prompt": tokens, "max_tokens": 6}


def arrives_later(*throttled: int) -> Scenario:
    """One runs when another one arrives, before the second step."""
    events = [add("a", 0), {"op": "step"}, add("b", 100), {"op": "step", "n": 9}]
    return {"config": {"block_size": 4}, "events": events, "throttled": throttled}


def loads(failing: dict[str, list[str]], **more: Any) -> Scenario:
    """One request is loaded for, and what workers report of it, by number of the update."""
    config = {"block_size": 4, "connector": {"matched": {"a": 8}, "async": True, **more}}
    done = {"op": "kv_done", "recv": ["a"]}
    events = [add("a", 0, 10), add("b", 100), {"op": "step", "n": 2}, done, {"op": "step", "n": 9}]
    return {"config": config, "events": events, "failed_recving": failing}


def constrained(failing: dict[str, list[str]]) -> Scenario:
    """One request waits for its grammar, and by which step it turns out not to compile."""
    waits = add("b", 100) | {"grammar": {"ready": False}}
    events = [add("a", 0), waits, {"op": "step", "n": 9}]
    return {"config": {"block_size": 4}, "events": events, "failed_grammars": failing}


def reset_while_held() -> Scenario:
    """A session waits for its turn with its blocks, and everybody is to give way."""
    session = add("a", 0) | {"max_tokens": 1, "resumable": True}
    reset = {"op": "reset_prefix_cache", "reset_running": True}
    return {"config": {"block_size": 4}, "events": [session, {"op": "step", "n": 2}, reset]}


SCENARIOS = {
    "never held back": arrives_later(),
    "held back": arrives_later(2, 3),
    "loaded": loads({}),
    "not loaded": loads({"2": ["a"]}),
    "not loaded, which ends it": loads({"2": ["a"]}, failure_policy="fail"),
    "reported when nothing is loaded": loads({"5": ["a", "b", "nobody"]}),
    "not compiled yet": constrained({}),
    "reset while blocks are held": reset_while_held(),
    "does not compile": constrained({"3": ["b"]}),
}
NAMED = {
    "held back": (HELD, 2),
    "not loaded": ("failed_recving", 3),
    "not loaded, which ends it": ("failed_recving", 3),
    "does not compile": ("grammar_compile_error_reqs", 4),
}
"""What is named in a recording, and before which step."""


@pytest.fixture(scope="module")
def recorded(oracle_0_32_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, run plain and recorded on vLLM 0.32.0."""
    folder = tmp_path_factory.mktemp("calls")
    record_all(oracle_0_32_python, SCENARIOS, folder, "0")
    return folder


@pytest.mark.oracle
def test_arguments_are_passed_on_as_they_came(recorded: Path) -> None:
    """The recorded engine decides as the plain one, which does as it is told."""
    assert decided_otherwise(recorded) == []
    plain = {name: (recorded / f"{name}.plain").read_text() for name in SCENARIOS}
    assert plain["held back"] != plain["never held back"]
    assert plain["not loaded"] != plain["loaded"] == plain["reported when nothing is loaded"]


@pytest.mark.oracle
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_decides_and_has_no_words_is_named(name: str, recorded: Path) -> None:
    """Once, before what it decides; nothing from there on is judged, and all before it is."""
    path = recorded / f"{name}.jsonl"
    told = [located.record for located in TraceReader(path)]
    assert isinstance(told[0], Header) and told[0].observed.feature == "complete"
    assert told[0].version == "1.7"
    named = [(i, r.name) for i, r in enumerate(told) if isinstance(r, Feature)]
    verdict = check(path)
    if name not in NAMED:
        assert (verdict.verdict, named) == ("CONFORMS", [])
        return
    feature, step = NAMED[name]
    ((at, found),) = named
    steps = [r.step for r in told[at:] if isinstance(r, Schedule)]
    assert (found, steps[0]) == (feature, step)
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", [f"the feature {feature}"])
    assert verdict.steps == step - 1


class Held(Scheduler):
    """Is asked to hold prefills back, and does not."""

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """As without the argument."""
        return super().schedule()


class RecordedHeld(Recording, Held):
    """The same, recorded."""

    engine_version = Recorded.engine_version


def run(made: Any, many: int, *, held: bool) -> None:
    """So many steps."""
    for _ in range(many):
        output = made.scheduler.schedule(held)
        made.in_flight.append(output)
        made.update({id: [1] for id in output.num_scheduled_tokens})


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine with a request, whose recording has parts, and begins one as soon as it may."""
    monkeypatch.setattr(adapter, "Scheduler", RecordedHeld)
    monkeypatch.setenv("NULLBLOCK_TRACE", str(tmp_path / "traces"))
    monkeypatch.setenv("NULLBLOCK_TRACE_PART_MB", "0.001")
    made = engine(max_model_len=4000, num_blocks=750)
    made.add(request("a", max_tokens=3000))
    return made


def the_files(tmp_path: Path) -> list[Path]:
    """Those of the only recording."""
    (folder,) = (tmp_path / "traces").iterdir()
    return sorted(folder.iterdir())


def test_each_part_names_what_decides_in_it(made: Any, tmp_path: Path) -> None:
    """Each is a trace by itself: those with a step that was held back name that once, before it,
    and no other one does.
    """
    run(made, 300, held=False)
    run(made, 1500, held=True)
    run(made, 900, held=False)
    made.scheduler.shutdown()
    verdicts: list[Verdict] = []
    for path in the_files(tmp_path):
        names = [r.name for r in records(path) if isinstance(r, Feature)]
        first, last = (s.step for s in _ends(path))
        assert names == [HELD] * (first <= 1800 and last > 300), path
        verdicts.append(check(path, profile("vllm-0.22.1")))
    assert {v.verdict for v in verdicts} == {"CONFORMS", "INCONCLUSIVE"}
    assert sum(v.missing == [f"the feature {HELD}"] for v in verdicts) > 2


def _ends(path: Path) -> tuple[Schedule, Schedule]:
    steps = [r for r in records(path) if isinstance(r, Schedule)]
    return steps[0], steps[-1]


def test_it_is_named_again_after_a_gap(made: Any, tmp_path: Path) -> None:
    """Where it was named may be what is missing, and the state after it may be judged from."""
    tape = made.scheduler._tape
    put, tape._put = tape._put, lambda _: False
    run(made, 100, held=True)
    tape._put = put
    run(made, 100, held=True)
    made.scheduler.shutdown()
    told = [r for path in the_files(tmp_path) for r in records(path)]
    gap = next(i for i, r in enumerate(told) if isinstance(r, Gap))
    assert not any(isinstance(r, Feature) for r in told[:gap])
    behind = [r for r in told[gap:] if isinstance(r, Feature | Schedule)]
    assert isinstance(behind[0], Feature) and len(behind) > 20


@pytest.mark.parametrize(("groups", "differs"), [(2, True), (1, True), (2, False)])
def test_hits_that_differ_by_group_are_named(groups: int, differs: bool) -> None:
    """Where there are several groups, of a connector that can do with it."""
    layers = [Group(type="full"), Group(type="sliding_window", sliding_window=4)]
    made = engine(groups=layers[:groups]).scheduler
    made.connector = SimpleNamespace(supports_divergent_local_hybrid_hits=differs)
    named = "divergent_local_hits" in configuration.features(made)
    assert named == (differs and groups > 1)


def test_states_within_steps_are_told(where: Path) -> None:
    """In a word of their group, which a version of the format has that is as new."""
    states = {"mamba_cache_mode": "align", "prefill_checkpoint_alignment": 8}
    engine(groups=[Group(type="mamba", **states)]).scheduler.shutdown()
    header, *_ = records(where)
    (told,) = header.config.groups
    assert (told.mamba, told.prefill_checkpoint_alignment) == ("align", 8)
    assert (header.version, header.unknown_features) == ("1.8", [])


def test_models_that_make_no_tokens_are_told(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a word of the header, whatever the length of a prompt; that a model makes no sequence of
    tokens is named, and is no such word.
    """
    monkeypatch.setattr(later, "num_sampled_tokens", lambda *_: 0)
    one = engine(max_model_len=8)
    one.add(request("a", 8))
    one.scheduler.shutdown()
    header, a, _ = records(where)
    assert (header.config.runner_type, header.features) == ("pooling", ["pooling_model"])
    assert (header.version, header.unknown_features, a.features) == ("1.8", [], [])
    one.scheduler.vllm_config.model_config.is_diffusion = True
    assert configuration.features(one.scheduler) == ["diffusion"]
    assert "runner_type" not in configuration.constants(one.scheduler)


@pytest.mark.parametrize(
    ("side", "place", "answers", "named"),
    [
        (remote, "connector", {"has_pending_block_frees": True}, True),
        (remote, "connector", {"has_pending_block_frees": False}, False),
        (remote, "connector", {"register_finished_partial_tail": True}, True),
        (items, "ec_connector", {"ensure_cache_available": False}, True),
        (items, "ec_connector", {"ensure_cache_available": True}, False),
        (items, "ec_connector", {"take_unavailable_requests": {"a"}}, True),
    ],
)
def test_what_connectors_answer_and_no_record_tells_is_named(
    side: Any, place: str, answers: dict[str, Any], named: bool, where: Path
) -> None:
    """Before the step, or the output, in which they are asked; a connector may be without it."""
    made = engine()
    asked = dict.fromkeys(("has_cache_item", "update_state_after_alloc"), lambda *_: False)
    asked |= {name: lambda *_, answer=answer: answer for name, answer in answers.items()}
    connector = SimpleNamespace(**asked)
    found = side.watch(SimpleNamespace(**{place: connector}), lambda note, *args: note(*args))
    made.add(request("a"))
    made.schedule()
    (name,) = answers
    getattr(connector, name)("a", 0)
    made.scheduler._nullblock_connector = found
    made.update({"a": [1]})
    made.schedule()
    made.scheduler.shutdown()
    told = records(where)
    features = [(i, r.name) for i, r in enumerate(told) if isinstance(r, Feature)]
    assert [feature for _, feature in features] == [name] * named
    for at, _ in features:
        steps = [r.step for r in told[:at] if isinstance(r, Schedule)]
        assert steps == [1] and isinstance(told[at + 1], Output)
