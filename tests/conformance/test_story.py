"""What a verdict of VIOLATION explains."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from bases import as_recorded
from traces import documents, trace_of, unsealed
from violations import altered

from nullblock.conformance import bundled
from nullblock.conformance.checker import check
from nullblock.conformance.checker.advice import EFFECTS, LOOKS, SETTINGS, like, settings
from nullblock.conformance.checker.explanation import Explanation
from nullblock.conformance.checker.story import short
from nullblock.conformance.trace.header import TraceConfig
from nullblock.spec.catalogue import FAMILIES, catalogue
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1


def explained(path: Path, profile: str | None = None) -> Explanation:
    """The explanation of a violation."""
    verdict = check(path, PROFILES[profile] if profile else None, profile or "")
    assert verdict.first is not None and verdict.first.explanation is not None
    for line in (*verdict.first.explanation.because, *verdict.first.explanation.next):
        assert line in "\n".join(verdict.first.story)
    return verdict.first.explanation


BECAUSE = {
    "nobody is preempted": (
        "request 50 (number 36 of the running list) asked for 2048 tokens, 4224 of its 9596 "
        "computed or in flight, 4060 of 4096 left in the step: slots needed 128, free 97",
        "slots were short, so request 52 was preempted: the last of the running list",
        "after that 230 blocks were free and 38 requests ran",
    ),
    "a decode gets a token too many": (
        "asked for 1 tokens, 4363 of its 4364 computed or in flight",
    ),
    "a hit is longer": (
        "8 of its 35 full blocks are a hit",
        "no block carries its next chain number, 316",
        "slots needed 28, free 7872",
    ),
    "a new block is another": ("the lists part at number 51: 257 by the rules, 258",),
    "an end is missed": ("3 of at most 2048 out (min_tokens 0)", "the token is an end token"),
}


@pytest.mark.parametrize("name", BECAUSE)
def test_the_quantities_that_decided(name: str, tmp_path: Path) -> None:
    """Slots needed and free, tokens wanted and left, hits, victims, counts: as the rules saw them
    when they decided.
    """
    told = "\n".join(explained(altered(tmp_path, name)[0]).because)
    for words in BECAUSE[name]:
        assert words in told


def test_under_priority_the_victim_is_named_by_its_key(tmp_path: Path) -> None:
    """Who is preempted, and by which priority and arrival."""
    path, _ = altered(tmp_path, "nobody is preempted", bundled.CROWDED)
    told = "\n".join(explained(path).because)
    assert "priority 2, arrival 22.0: the greatest of those that ran" in told


@pytest.mark.parametrize(("number", "asks"), [(0, "asked to enter with"), (2, "asked for")])
def test_what_steps_are_cut_for_is_told(number: int, asks: str, tmp_path: Path) -> None:
    """Beside Mamba layers that keep states at ends of steps; and which settings say so."""
    lines = copy.deepcopy(as_recorded()["states"])
    steps = [line for line in lines if line["ev"] == "schedule" and line["ids"]]
    steps[number]["tokens"][0] -= 1
    path = tmp_path / "trace"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = explained(path)
    told = next(line for line in found.because if asks in line)
    assert "a prefill ends its steps with whole blocks (GROUP-29" in told
    header: Any = SimpleNamespace(config=msgspec.convert(lines[0]["config"], TraceConfig))
    for rule in ("RUN-2", "WAIT-2"):
        assert {"groups", "mamba_split", "num_spec_tokens"} <= settings(header, rule).keys()
    header.config = msgspec.structs.replace(header.config, runner_type="pooling")
    assert settings(header, "RUN-2")["runner_type"] == "pooling"
    plain = explained(altered(tmp_path, "nobody is preempted", bundled.CROWDED)[0])
    assert "GROUP-29" not in "\n".join(plain.because)


def test_blocks_are_shown_where_they_are_at_fault(tmp_path: Path) -> None:
    """The block that the rules take, the one that the trace took, and the next in the queue."""
    found = explained(altered(tmp_path, "a new block is another")[0]).blocks
    assert [b.id for b in found] == [257, 258, 259]
    assert (found[0].ref_cnt, found[0].holders, found[0].place) == (1, (2,), None)
    assert (found[1].ref_cnt, found[1].holders, found[1].place) == (0, (), 0)


def departing(tmp_path: Path) -> Path:
    """vLLM lets an unservable request in."""
    scenario: dict[str, Any] = {
        "config": {"block_size": 4, "num_blocks": 4, "max_num_batched_tokens": 8},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 100},
            {"op": "step", "n": 2},
        ],
    }
    path = tmp_path / "trace"
    path.write_bytes(trace_of(scenario))
    return path


def test_a_wrong_profile_is_recognised(tmp_path: Path) -> None:
    """If the rules of another profile, or with one switch turned, decide as recorded, that is the
    first thing to look at, and the known departure is told.
    """
    found = explained(departing(tmp_path), "normative")
    assert "--profile vllm-0.22.1" in found.variants
    assert "--profile normative --set reject_unservable=false" in found.variants
    assert found.next[0].startswith("a wrong profile rather than a wrong engine?")
    assert "outgrown-pool" in {d.name for d in found.like}
    assert "looks like the known departure" in "\n".join(found.next)


def test_where_no_profile_explains_it_that_is_said(tmp_path: Path) -> None:
    """An engine that is wrong by every profile gets no such hint."""
    found = explained(altered(tmp_path, "a hit is longer")[0])
    assert found.variants == () and found.like == ()
    assert found.next[0] == (
        "no other profile, and no single switch of this one, explains it: a setting for which a "
        "trace has no word might"
    )
    assert found.settings == {"enable_prefix_caching": True, "block_size": 16}
    assert found.next[-2].startswith("run the minimal scenario")
    assert "it is a defect of the engine" in found.next[-1]


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("a new block is another", "a block may be two requests' at once"),
        ("nobody is preempted", "who is served when"),
        ("an end is missed", "a token too many or too few"),
    ],
)
def test_it_is_said_what_it_may_mean_and_what_to_do_at_once(
    name: str, effect: str, tmp_path: Path
) -> None:
    """By the family of the rule; not where it is only another profile."""
    (said,) = (line for line in explained(altered(tmp_path, name)[0]).next if "meanwhile" in line)
    assert effect in said


def test_the_engine_s_own_names_are_told(tmp_path: Path) -> None:
    """Whoever recorded with names finds a request in the server's log; others are told how."""
    path, _ = altered(tmp_path, "a hit is longer")
    number = explained(path).requests[0].id
    first = check(path).first
    assert first is not None and "NULLBLOCK_TRACE_NAMES=1" in "\n".join(first.story)
    lines = documents(path.read_bytes())
    add = next(line for line in lines if line["ev"] == "add" and line["id"] == number)
    add["name"] = "chatcmpl-7"
    path.write_bytes(unsealed(lines))
    first = check(path).first
    assert first is not None
    told = "\n".join(first.story)
    assert f"request {number}: " in told and ", in the engine chatcmpl-7" in told
    assert "NULLBLOCK_TRACE_NAMES" not in told


def test_many_known_departures_take_few_lines(tmp_path: Path) -> None:
    """Two are told at length, the others by name, so that what to do stays in sight."""
    told = explained(departing(tmp_path), "normative").next
    assert sum("looks like the known departure" in line for line in told) == 2
    (more,) = (line for line in told if line.startswith("or like "))
    assert "start-over" in more and "nullblock explore --departures NAME" in more


def test_the_scenario_comes_with_how_to_run_it(tmp_path: Path) -> None:
    """Nobody has to guess how an engine is given a scenario."""
    told = "\n".join(explained(altered(tmp_path, "a hit is longer")[0]).next)
    for words in ("tests/oracle/README.md", "--nullblock-scheduler", "nullblock run"):
        assert words in told


def test_a_departure_is_offered_only_where_the_profile_lacks_it() -> None:
    """What the profile follows already is no explanation."""
    assert like("HASH-11", VLLM_0_22_1) == ()
    assert {d.name for d in like("HASH-11", NORMATIVE)} == {"uncomputed-hit", "one-spelling"}


def test_the_tables_of_advice_name_what_there_is() -> None:
    """Every family has its settings and effects, and every departure and rule that is named
    exists.
    """
    deciding = {s.id.partition("-")[0] for s in catalogue() if s.kind == "rule"}
    assert deciding <= set(SETTINGS) == set(EFFECTS) <= set(FAMILIES)
    assert set(LOOKS) <= {s.id for s in catalogue()}
    assert {name for names in LOOKS.values() for name in names} <= {d.name for d in DEPARTURES}


def test_a_stream_is_judged_in_one_reading(tmp_path: Path) -> None:
    """Without a second reading a verdict still tells rule, state and what was before."""
    path, line = altered(tmp_path, "a hit is longer")
    with path.open("rb") as stream:
        verdict = check(Path("-"), stream=stream)
    assert verdict.first is not None and verdict.first.explanation is not None
    assert verdict.first.line == line
    assert verdict.first.explanation.because == () and verdict.first.explanation.before


def test_a_violation_of_the_first_step_has_a_story(tmp_path: Path) -> None:
    """Nothing before it but the header and arrivals."""
    lines = documents(departing(tmp_path).read_bytes())
    next(x for x in lines if x["ev"] == "schedule")["tokens"][0] += 1
    path = tmp_path / "wrong"
    path.write_bytes(unsealed(lines))
    found = explained(path)
    assert [line for line, _ in found.before] == [1, 2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "nothing"),
        ([[1, 2]], "[1, 2]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]"),
        ("goes on", "goes on"),
    ],
)
def test_values_take_one_line(value: Any, said: str) -> None:
    """Long lists are cut, the only group stands for itself."""
    assert short(value) == said
