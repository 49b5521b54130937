"""KV events in a recording of the real engine: each alteration of one is a VIOLATION there."""

import copy
import io
from pathlib import Path

import pytest
from alterations import EMPTIED, EVENT_ALTERATIONS, Lines, first
from bases import bases
from traces import unsealed
from violations import agents

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check


def judge(lines: Lines) -> Verdict:
    """The verdict on these lines."""
    return check(Path("trace"), stream=io.BytesIO(unsealed(lines)), deep=False)


def test_the_real_vllm_conforms_with_its_events() -> None:
    """Every decision of the recording is the rules' own, the events of every update among them."""
    verdict = check(bundled.AGENTS)
    assert (verdict.verdict, verdict.profile) == ("CONFORMS", "vllm-0.22.1")
    assert verdict.decisions == 3 * verdict.steps
    assert verdict.rules["PREEMPT-2"] == 45


@pytest.mark.parametrize("name", EVENT_ALTERATIONS)
def test_an_altered_event_is_a_violation_there(name: str) -> None:
    """One update tells something else: VIOLATION on that line, by that rule."""
    rule, kind, suits, alter = EVENT_ALTERATIONS[name]
    lines = agents()
    at = first(lines, kind, suits)
    assert judge(lines[: at + 1]).verdict == "CONFORMS"
    before = copy.deepcopy(lines[at])
    alter(lines[at])
    assert lines[at] != before
    verdict = judge(lines[: at + 1])
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert (verdict.first.line, verdict.first.rule) == (at + 1, rule)
    assert verdict.first.what == "the next KV event"


@pytest.mark.parametrize("name", EVENT_ALTERATIONS | EMPTIED)
def test_so_it_is_two_steps_in_flight_and_where_a_cache_is_emptied(name: str) -> None:
    """Our own engine's trace, ahead of its outputs and with a reset, is held to the same rules."""
    rule, kind, suits, alter = (EVENT_ALTERATIONS | EMPTIED)[name]
    lines = bases()["ahead"][:-1]
    lines[0].pop("sealed")
    at = first(lines, kind, suits)
    alter(lines[at])
    first_wrong = judge(lines[: at + 1]).first
    assert first_wrong is not None
    assert (first_wrong.line, first_wrong.rule) == (at + 1, rule)
