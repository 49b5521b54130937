"""Every field of a trace as the recorder writes it, altered: the short forms of records, and whole
states in the middle of a run that is known.
"""

import copy
import tracemalloc
from collections.abc import Mapping

import pytest
from altered import (
    INPUT,
    Caught,
    Damage,
    Expected,
    Input,
    Unobserved,
    caught,
    each_alteration,
    judge,
    meets,
)
from bases import as_recorded
from fields import every_field
from msgspec import Struct

from nullblock.conformance.trace.deltas import Delta
from nullblock.conformance.trace.snapshot import State
from nullblock.spec.catalogue import catalogue

SHORT_KINDS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in Delta.__args__
}
POSITIONS = ("running", "waiting")
COUNTS = {"num_free": caught("QUEUE-4"), "num_waiting": caught("WAIT-14")}
REPEATED = Damage()
"""An input that was told before: who contradicts it contradicts the trace."""
FRAME = ("odd", "counts", "eos", "stop", "rejected", "chain", "fresh", "fills")
SHORT: dict[str, Expected] = {
    **{f"{kind}.step": Damage() for kind in SHORT_KINDS},
    "schedule+.gone": caught("RUN-2", "RUN-4", "RUN-14", "WAIT-5"),
    "schedule+.odd": caught("RUN-2", "UPD-1", "UPD-3"),
    "schedule+.drafts": caught("RUN-2"),
    "schedule+.drafted": caught("RUN-2", "DRAFT-3"),
    "schedule+.ids": caught("WAIT-9", "RUN-14"),
    "schedule+.tokens": caught("WAIT-2", "RUN-1", "RUN-2"),
    "schedule+.known": caught("UPD-1", "UPD-3", "HASH-11"),
    "schedule+.new.id": caught("WAIT-9", "OUT-16"),
    "schedule+.new.computed": caught("HASH-11"),
    "schedule+.new.prefill": caught("OUT-17"),
    "schedule+.new.blocks": caught("POOL-10", "HASH-10", "GROUP-4"),
    "schedule+.given": caught("POOL-10"),
    "schedule+.gets": caught("POOL-10", "OUT-2"),
    "schedule+.blocks": caught("POOL-10", "OUT-2"),
    "schedule+.resumed": caught("WAIT-9"),
    "schedule+.all_tokens": caught("OUT-3"),
    "schedule+.preempted": caught("PREEMPT-1", "PREEMPT-2", "ALLOC-1"),
    "schedule+.finished": caught("OUT-6"),
    "schedule+.common_prefix": caught("OUT-4"),
    "schedule+.encoder_inputs": caught("OUT-14"),
    "schedule+.evicted_items": caught("OUT-15"),
    "schedule+.item_answers": INPUT,
    "schedule+.connector_items": caught("OUT-21"),
    "schedule+.zeroed": caught("GROUP-26"),
    "schedule+.state.num_running": caught("RUN-19"),
    "update+.gone": caught("UPD-2", "UPD-3"),
    "update+.cut": caught("DRAFT-9", "DRAFT-10"),
    "update+.finish.id": caught("UPD-4", "UPD-54"),
    "update+.finish.reason": caught("UPD-4", "UPD-54"),
    "update+.finish.by_stop_id": caught("UPD-4"),
    "update+.turns.id": caught("SESS-6"),
    "update+.turns.taken.tokens": caught("SESS-3"),
    "update+.turns.taken.chain": INPUT,
    **{f"update+.events.{name}": caught("OUT-8", "OUT-9") for name in ("chain", "parent")},
    **{f"update+.events.{name}": caught("OUT-8", "OUT-9") for name in ("tokens", "group")},
    **{f"update+.events.{name}": caught("OUT-8") for name in ("kind", "window")},
    "update+.state.num_running": caught("UPD-5"),
    **{f"{kind}.state.{n}": e for kind in ("schedule+", "update+") for n, e in COUNTS.items()},
    **{f"output+.{n}": INPUT for n in FRAME},
    **{f"draft+.{n}": INPUT for n in ("each", "counts")},
}
"""Each field of a short form, and what becomes of a trace in which it is altered."""
KNOWN: dict[str, Expected] = {
    "state.step": caught("UPD-7"),
    **{f"state.requests.session.chunks.{n}": caught("SESS-11") for n in ("arrival", "tie")},
    "state.running": caught("RUN-19", "RUN-22"),
    "state.waiting": caught("WAIT-12", "WAIT-1"),
    "state.skipped": caught("WAIT-45"),
    "state.heap": caught("WAIT-53"),
    "state.requests.id": caught("LIFE-12"),
    "state.requests.status": caught("LIFE-12"),
    "state.requests.computed": caught("UPD-1"),
    "state.requests.tokens": caught("UPD-3"),
    "state.requests.blocks": caught("POOL-10", "GROUP-6"),
    **{
        f"state.requests.{name}": REPEATED
        for name in (
            *("min_tokens", "priority", "features", "chain"),
            *("arrival", "tie", "skip_reading_prefix_cache", "adapter"),
            *(f"items.{field}" for field in ("item", "offset", "length", "is_embed")),
        )
    },
    "state.requests.prompt": caught("SESS-1"),
    "state.requests.max_tokens": caught("SESS-2"),
    **{
        f"state.requests.session.chunks.{name}": caught("SESS-11")
        for name in ("prompt", "max_tokens", "min_tokens")
    },
    "state.requests.session.chunks.features": caught("SESS-11"),
    **{
        f"state.requests.session.chunks.items.{name}": caught("SESS-11")
        for name in ("item", "offset", "length", "is_embed")
    },
    "state.requests.session.ended": caught("SESS-12"),
    "state.requests.session.lost": caught("SESS-1"),
    "state.requests.session.by_stop_id": caught("UPD-4"),
    "state.requests.placeholders": caught("UPD-19"),
    "state.requests.discard": caught("UPD-18"),
    "state.requests.preemptions": caught("PREEMPT-4"),
    "state.requests.drafts": caught("DRAFT-7"),
    "state.requests.chunk": caught("UPD-1"),
    "state.requests.num_cached": caught("HASH-12"),
    "state.requests.states_before": caught("GROUP-30"),
    "state.requests.name": Unobserved("a request's own id is for people"),
    "state.free_queue": caught("QUEUE-10"),
    "state.ref_cnt": caught("POOL-2"),
    "state.chains": caught("HASH-12"),
    "state.chain_groups": caught("HASH-12"),
    "state.encoder.num_free_slots": caught("ENC-12", "ENC-54"),
    "state.encoder.num_freeable_slots": caught("ENC-14"),
    "state.encoder.cached": caught("ENC-12", "ENC-14"),
    "state.encoder.freeable": caught("ENC-9"),
    "state.encoder.to_forget": caught("ENC-52"),
    "state.encoder.at_connector": REPEATED,
    "state.remote.received": caught("REMOTE-13"),
    "state.remote.failed": caught("REMOTE-26"),
    "state.remote.kept.id": caught("REMOTE-4"),
    "state.remote.kept.blocks": caught("POOL-10"),
    **{
        f"state.in_flight.{name}": caught("UPD-8")
        for name in ("step", "ids", "tokens", "drafts", "owed", "gone")
    },
    "state.finished": caught("OUT-6"),
    "state.previous": caught("OUT-3"),
    "state.pause_state": caught("LIFE-7"),
}
"""Each field of a state that the rules have reached by themselves."""
ONLY_WHOLE = (
    "update+.finish.why",
    *(f"{kind}.state.{name}" for kind in ("schedule+", "update+") for name in POSITIONS),
)
"""Nothing that the recorder writes in short has them: test_fields.py."""
ORDER_OF_ARRIVAL = ("state.requests.arrival", "state.requests.tie")
"""What counts under the PRIORITY policy only."""
MOST = 3
"""Occurrences in one trace."""


def test_no_field_is_forgotten() -> None:
    """The tables have every field that the types have, and no other; their rules exist."""
    short = [".".join(path) for path in every_field(SHORT_KINDS)]
    assert sorted([*SHORT, *ONLY_WHOLE]) == sorted(short)
    assert sorted(KNOWN) == sorted(".".join(path) for path in every_field({"state": State}))
    tables = [*SHORT.values(), *KNOWN.values()]
    named = [rule for e in tables if isinstance(e, Caught) for rule in e.rules]
    assert set(named) <= {s.id for s in catalogue()}


@pytest.mark.parametrize("name", as_recorded())
def test_what_is_altered_conforms_before(name: str) -> None:
    """It is the alteration that is noticed."""
    assert judge(as_recorded()[name]).verdict == "CONFORMS"


@pytest.mark.parametrize("path", [*SHORT, *KNOWN])
def test_an_altered_field(path: str) -> None:
    """Several occurrences of it, in several recordings, each altered alone."""
    tables: Mapping[str, Expected] = SHORT | KNOWN
    expected, traces = tables[path], list(as_recorded().values())
    if path in ORDER_OF_ARRIVAL:
        traces = [lines for lines in traces if lines[0]["config"]["policy"] != "fcfs"]
    found = each_alteration(traces, path, expected, MOST)
    if isinstance(expected, Input):
        assert set(found) != {"CONFORMS"}


def test_an_event_may_claim_more_blocks_than_there_is_memory_for() -> None:
    """It costs no more than the blocks that the rules store."""
    lines = copy.deepcopy(as_recorded()["ahead"])
    at = next(
        i
        for i, line in enumerate(lines)
        if any(event["t"] == "stored" for event in line.get("events", ()))
    )
    event = next(event for event in lines[at]["events"] if event["t"] == "stored")
    event["chain"][-1][1] = 2**22
    tracemalloc.start()
    verdict = judge(lines)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    meets(verdict, at, caught("OUT-8"))
    assert peak < 20 * 2**20


def test_no_more_content_than_tokens_fill() -> None:
    """A chain number for a block that is not full yet is damage, on the line that tells it."""
    lines = copy.deepcopy(as_recorded()["ahead"])
    at = next(i for i, line in enumerate(lines) if line["ev"] == "output+" and line.get("chain"))
    (request, number) = lines[at]["chain"][-1]
    lines[at]["chain"].append([request, number])
    verdict = judge(lines)
    meets(verdict, at, Damage())
    assert verdict.first is not None and verdict.first.line == at + 1


@pytest.mark.parametrize(
    ("kind", "words"), [("schedule+", "gone twice"), ("update+", "gone twice")]
)
def test_nobody_is_gone_twice(kind: str, words: str) -> None:
    """What is told twice is damage, even where it means the same."""
    for lines in as_recorded().values():
        for at, line in enumerate(lines):
            if line["ev"] == kind and line.get("gone"):
                told = line | {"gone": [*line["gone"], line["gone"][0]]}
                verdict = judge([*lines[:at], told, *lines[at + 1 :]])
                assert verdict.first is not None and words in verdict.first.what
                assert (verdict.verdict, verdict.first.line) == ("MALFORMED", at + 1)
                return
    raise AssertionError(f"no {kind} has it")


@pytest.mark.parametrize("more", [[[999, 1]], [[0, 1], [0, 1]]])
def test_drafts_in_flight_are_of_who_is_in_the_step(more: list[list[int]]) -> None:
    """Of somebody else, or told twice of one, they are damage, whatever else tells of them."""
    for lines in as_recorded().values():
        for at, line in enumerate(lines):
            if line["ev"] == "state" and any(0 in f["ids"] for f in line["in_flight"]):
                told = copy.deepcopy(lines)
                step = next(f for f in told[at]["in_flight"] if 0 in f["ids"])
                step["drafts"] = more
                verdict = judge(told)
                assert verdict.first is not None and "`drafts` are of some" in verdict.first.what
                assert (verdict.verdict, verdict.first.line) == ("MALFORMED", at + 1)
                return
    raise AssertionError("no state has it")


def test_what_a_state_leaves_out_of_a_request_is_0() -> None:
    """So an arrival at 0 may be left out, and another one contradicts what was told."""
    found = set()
    for lines in as_recorded().values():
        if lines[0]["config"]["policy"] == "fcfs":
            continue
        for at, line in enumerate(lines):
            for place, request in enumerate(line.get("requests", ())):
                told = copy.deepcopy(lines)
                arrival = told[at]["requests"][place].pop("arrival", None)
                if "session" in request or arrival is None or bool(arrival) in found:
                    continue
                verdict = judge(told)
                found.add(bool(arrival))
                assert verdict.verdict == ("MALFORMED" if arrival else "CONFORMS"), verdict.first
                what = f"arrival of request {request['id']}: 0, which was {arrival} before"
                assert verdict.first is None or verdict.first.what == what
    assert found == {False, True}
