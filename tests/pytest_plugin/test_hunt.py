"""Planted defects: each is found, made small, and explained by the rule that it breaks."""

import json
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import defective
import pytest
import small_engine

from nullblock.conformance.adapters.shaped import Shaped, package_of
from nullblock.conformance.checker.check import check
from nullblock.conformance.engine import ALL_FEATURES, Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lockstep import beside
from nullblock.conformance.lockstep import hunt as hunting
from nullblock.conformance.lockstep.beside import Subject, run
from nullblock.conformance.lockstep.explain import record
from nullblock.conformance.lockstep.families import CHECKED, FAMILIES, Family
from nullblock.conformance.lockstep.hunt import Departure, hunt, scenario_of
from nullblock.conformance.lockstep.tell import tell
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import VLLM_0_22_1

LABEL = "vllm-0.22.1"
STEPS = 1500
FAMILY = {family.name: family for family in FAMILIES}


@dataclass(frozen=True)
class Planted:
    """A defect, the first family that shows it, the rule it breaks, and how short the story is."""

    kind: type
    family: str
    rule: str | None
    """None: it raises, which breaks no rule that could be named."""
    events: int


DEFECTS = (
    Planted(defective.PreemptsTheFirst, "fcfs", "PREEMPT-1", 3),
    Planted(defective.KeepsComputed, "fcfs", "PREEMPT-4", 3),
    Planted(defective.AdmitsAfterPreempting, "fcfs", "WAIT-5", 4),
    Planted(defective.FreesForwards, "fcfs", "POOL-12", 3),
    Planted(defective.OverBudget, "fcfs", "RUN-1", 2),
    Planted(defective.StopsLate, "fcfs", "UPD-4", 3),
    Planted(defective.LosesFinishedIds, "fcfs", "OUT-6", 3),
    Planted(defective.RaisesInTheEnd, "fcfs", None, 5),
    Planted(defective.CachesPartialBlocks, "prefix-caching", "HASH-12", 3),
    Planted(defective.ForgetsASalt, "prefix-caching", "HASH-1", 4),
    Planted(defective.KeepsDroppedFrames, "resets", "UPD-18", 4),
    Planted(defective.KeepsRejectedDrafts, "drafts", "DRAFT-8", 3),
    Planted(defective.SchedulesDraftsTwice, "drafts", "DRAFT-3", 3),
    Planted(defective.LosesDraftsInFlight, "drafts-ahead", "UPD-19", 3),
)


def subject_of(kind: type) -> Subject:
    """A scheduler class as what is tested."""
    ahead = issubclass(kind, AsyncScheduler)
    does = CHECKED | {Feature.drafts}
    features = does if ahead else does - {Feature.async_scheduling}
    return Subject(
        f"defective:{kind.__name__}",
        lambda config, semantics: Shaped(kind, config, semantics),
        features,
        is_synchronous=not ahead,
    )


def found(subject: Subject, family: str, seed: int = 0) -> Departure:
    """The departure that a family shows."""
    done = hunt(subject, FAMILY[family], VLLM_0_22_1, LABEL, seed, STEPS)
    assert done.departure is not None, f"not refuted in {done.scenarios} scenarios"
    return done.departure


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda p: p.kind.__name__)
def test_a_planted_defect_is_caught_shrunk_and_explained(planted: Planted) -> None:
    """The story is short, names the rule, and shows what both sides say."""
    subject = subject_of(planted.kind)
    departure = found(subject, planted.family)
    assert departure.why.rule == planted.rule, departure.why
    assert len(departure.document["events"]) <= planted.events
    assert len(departure.document["events"]) <= len(departure.found_in["events"])
    assert run(departure.document, subject, VLLM_0_22_1).difference is not None
    sound = subject_of(AsyncScheduler if not subject.is_synchronous else Scheduler)
    assert run(departure.document, sound, VLLM_0_22_1).difference is None
    text = "\n".join(tell(departure, subject, LABEL, None, []))
    where = f" at {planted.rule}" if planted.rule else "\n"
    assert f"defective:{planted.kind.__name__} departs from {LABEL}{where}" in text
    told = f"nullblock rules {planted.rule}" if planted.rule else f"raises {departure.raised}"
    assert told in text and "first difference: line" in text


def test_what_decided_is_part_of_the_story() -> None:
    """For a decision the quantities are told that the rules looked at (PREEMPT-1)."""
    departure = found(subject_of(defective.PreemptsTheFirst), "fcfs")
    assert departure.why.explanation is not None
    because = "\n".join(departure.why.explanation.because)
    assert "slots needed 1, free 0" in because and "the last of the running list" in because
    assert (departure.why.expected, departure.why.recorded) == ("[1]", "[0]")


@pytest.mark.parametrize("kind", [defective.Hangs, defective.Sleeps])
def test_an_engine_that_hangs_is_told_so(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an observation like an exception, and nobody waits for ever, at work or asleep."""
    monkeypatch.setattr(beside, "ASLEEP", 0.3)
    monkeypatch.setattr(hunting, "SECONDS", 0.3)
    monkeypatch.setattr(hunting, "PATIENCE", 0.2)
    monkeypatch.setattr(hunting, "TRIES_THAT_HANG", 4)
    departure = found(subject_of(kind), "fcfs")
    assert departure.raised.startswith("Hangs: no answer within")
    assert departure.why.rule is None
    text = "\n".join(tell(departure, subject_of(kind), LABEL, None, []))
    assert "nullblock rules" not in text and f"departs from {LABEL}\n" in text


def test_a_hang_is_told_once() -> None:
    """The clock that goes off second does not break into the telling of the first."""
    with beside.limited(100):
        with pytest.raises(beside.Hangs):
            signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGVTALRM)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_scenarios_ask_for_no_more_than_a_family_may(family: Family) -> None:
    """What a scenario uses is what its family has and its subject does; what it needs is there."""
    for features in (ALL_FEATURES, CHECKED, CHECKED - {Feature.prefix_caching, Feature.priority}):
        subject = Subject("x", lambda config, semantics: None, features)  # type: ignore[arg-type, return-value]
        seen: set[Feature] = set()
        for number in range(25):
            document = scenario_of(subject, family, f"{number}")
            asked = {feature for feature, _ in used(from_dict(document))}
            assert asked <= family.of(features)
            seen |= asked
        # Several steps in flight show only while a scenario runs.
        assert (family.needs & features) - {Feature.several_in_flight} <= seen


def test_a_synchronous_scenario_is_never_asked_of_an_asynchronous_class() -> None:
    """Its scenarios schedule ahead, whatever the family."""
    subject = subject_of(AsyncScheduler)
    for family in FAMILIES:
        document = scenario_of(subject, family, "1")
        assert document["config"]["async_scheduling"] is True


def test_the_reference_is_not_refuted() -> None:
    """In each family, synchronously and ahead, the reference follows the rules."""
    for kind in (Scheduler, AsyncScheduler):
        for family in FAMILIES:
            done = hunt(subject_of(kind), family, VLLM_0_22_1, LABEL, 3, 60)
            assert done.departure is None, (kind, family.name, done.departure)
            assert done.steps >= 60 and done.scenarios


@pytest.mark.parametrize(("kind", "family"), [(Scheduler, "drafts"), (AsyncScheduler, "async")])
def test_what_explains_departures_finds_none_in_a_sound_scheduler(
    kind: type, family: str, tmp_path: Path
) -> None:
    """Recorded with its whole states, drafts and blocks of requests that end included."""
    subject, path = subject_of(kind), tmp_path / "run.jsonl"
    verdicts = []
    for number in range(28):
        document = scenario_of(subject, FAMILY[family], f"sound {number}")
        with suppress(OutOfScope):  # drafts where none are configured have no words in a trace
            record(document, subject, VLLM_0_22_1, LABEL, path)
            verdicts.append(check(path, VLLM_0_22_1, LABEL, deep=False).verdict)
    assert "VIOLATION" not in verdicts and verdicts.count("CONFORMS") >= 20


def test_an_engine_of_another_shape_is_not_refuted() -> None:
    """An adapter is enough; of an engine that shows no state the decisions are compared."""
    subject = Subject("small", small_engine.create, small_engine.Adapter.features, "none")
    for name in ("fcfs", "chunked-prefill", "aborts"):
        done = hunt(subject, FAMILY[name], VLLM_0_22_1, LABEL, 3, 700)
        assert done.departure is None, done.departure


def test_a_defect_in_an_engine_of_another_shape_is_explained() -> None:
    """Head-of-line blocking is a rule, and its breach is named without a look at any state."""
    features = small_engine.Adapter.features
    subject = Subject("small", small_engine.create_defective, features, "none")
    departure = found(subject, "fcfs")
    assert departure.why.rule in ("WAIT-8", "WAIT-10")
    assert len(departure.document["events"]) == 3


def test_classes_are_fed_with_what_their_bases_come_from() -> None:
    """A class of nobody's is given the reference's requests, which need no vLLM."""
    assert package_of(defective.OverBudget) == "nullblock.reference"
    assert package_of(small_engine.Batcher) == "nullblock.reference"


def test_a_seed_names_its_scenarios() -> None:
    """The same seed gives the same departure, byte for byte."""
    subject = subject_of(defective.OverBudget)
    first, second = (json.dumps(found(subject, "fcfs").document) for _ in range(2))
    assert first == second
