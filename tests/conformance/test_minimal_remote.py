"""Minimal scenarios of traces with a KV connector: what it answers and what workers report leads
to the recorded decisions, and a fault in it is shown by a scenario that both engines run alike.
"""

import json
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bases import KEPT, Lines, whole
from fields import alterations, every_field
from msgspec import UNSET
from msgspec.structs import replace
from traces import trace_of, unsealed

from nullblock.conformance import driver, scenario
from nullblock.conformance.checker import check
from nullblock.conformance.cli import main
from nullblock.conformance.compare import first_difference
from nullblock.conformance.engines import make_engine
from nullblock.conformance.minimal.ask import ask
from nullblock.conformance.minimal.document import Builder, Selection
from nullblock.conformance.minimal.history import read
from nullblock.conformance.minimal.remote import Remote
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import (
    Answer,
    Matched,
    Output,
    Record,
    Schedule,
    Transfers,
    Update,
)
from nullblock.conformance.trace.tape import Tape
from nullblock.spec.profiles import VLLM_0_22_1

NAMES = ("remote", "remote-fails")
SAID = tuple(f for f in every_field() if f[0] in ("matched", "transfers"))


def written(lines: Lines, folder: Path) -> Path:
    """A trace as a file."""
    path = folder / "trace"
    path.write_bytes(unsealed(lines))
    return path


def run(document: dict[str, Any], engine: str) -> list[str]:
    """The lines of a scenario."""
    taken = scenario.from_dict(document)
    return list(driver.run(taken, make_engine(engine, taken.config, VLLM_0_22_1)))


def told(records: list[Record], *, blocks: bool) -> list[Record]:
    """What an engine decided and a connector said, without what no scenario asks for. Without
    blocks: those that fail together give theirs up in the order of a set of ids, which others are
    then given.
    """
    found: list[Record] = []
    for record in records:
        if isinstance(record, Matched):
            answers = [a if blocks else replace(a, blocks=UNSET) for a in record.answers]
            found.append(Matched(answers=answers))
        elif isinstance(record, Transfers):
            found.append(replace(record, failed=sorted(record.failed)))
        elif isinstance(record, Schedule) and not blocks:
            ids, tokens = record.ids, record.tokens
            found.append(Schedule(step=record.step, ids=ids, tokens=tokens))
        elif isinstance(record, Update) and not blocks:
            pairs = sorted(zip(record.ids, record.tokens, strict=True))
            found.append(
                Update(step=record.step, ids=[r for r, _ in pairs], tokens=[n for _, n in pairs])
            )
        elif isinstance(record, Schedule):
            found.append(replace(record, state=UNSET))
        elif isinstance(record, Update):
            found.append(replace(record, state=UNSET, events=UNSET))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_history_comes_to_what_was_recorded(name: str, tmp_path: Path) -> None:
    """Every step, every answer, every report; block ids included where no loads fail together."""
    path = written(whole(KEPT / f"{name}.jsonl"), tmp_path)
    records = [located.record for located in TraceReader(path)]
    last = max(i for i, record in enumerate(records) if isinstance(record, Update))
    history = read(path, last + 1, str(path), 0)
    builder = Builder(history)
    taken = scenario.from_dict(builder.build(Selection(tuple(history.events))))
    made: list[Record] = []
    engine = make_engine("spec", taken.config, VLLM_0_22_1)
    tape = Tape(engine, taken, made.append, tagged_keys=False)
    tape.numbers.update({builder.names[life.number]: life.number for life in history.lives})
    deque(driver.run(taken, tape, dump="none"), maxlen=0)
    blocks = name != "remote-fails"
    expected = told(records[: last + 1], blocks=blocks)  # type: ignore[arg-type]
    assert told(made, blocks=blocks) == expected
    assert sum(isinstance(record, (Matched, Transfers)) for record in expected) >= 5
    # Steps matter to whom they are about, scheduled or not.
    about = {Matched: 0, Transfers: 0}
    for said, then in pairwise(r for r in records[:last] if not isinstance(r, Output)):
        match said, then:
            case Matched(), Schedule():
                whom = {a.id for a in said.answers}
            case Transfers(), Update():
                whom = {*said.received, *said.sent}
            case _:
                continue
        assert whom <= set(history.scheduled[then.step])
        about[type(said)] += len(whom)
    assert all(about.values())


@pytest.mark.parametrize("field", SAID, ids=".".join)
def test_a_fault_in_what_is_said_gets_a_scenario(field: tuple[str, ...], tmp_path: Path) -> None:
    """Both engines run it alike, and to its end, where they raise for a transfer that is not under
    way; where the fault is about one request it takes no other.
    """
    found = 0
    for name in NAMES:
        for _, lines in alterations(whole(KEPT / f"{name}.jsonl"), field, 2):
            path = written(lines, tmp_path)
            verdict = check(path, deep=False)
            if verdict.verdict != "VIOLATION":
                continue
            answer = ask(verdict, path)
            assert answer is not None and answer.document is not None, answer
            kept = run(answer.document, "spec")
            assert first_difference(kept, run(answer.document, "reference")) is None
            assert verdict.first is not None
            raised = verdict.first.rule in ("REMOTE-13", "REMOTE-21")
            assert [json.loads(line)["ev"] == "EXCEPTION" for line in kept].count(True) == raised
            adds = sum(event["op"] == "add" for event in answer.document["events"])
            if str(verdict.first.rule).startswith("REMOTE-"):
                assert adds == 1, answer.document
            found += 1
    assert found


def test_what_is_loaded_is_known_no_more() -> None:
    """Whoever asks again is told anew, where the remote side still has it; who is told the same
    twice, as its load could not begin, learns nothing.
    """
    remote = Remote()
    waits = Matched(answers=[Answer(id=1, local=4, tokens=8)])
    begins = Matched(answers=[Answer(id=1, tokens=12, begins=True)])
    said = [remote.answered(one) for one in (waits, waits, begins, begins, None)]
    assert said == [(), (), (), ((1, 12),), ()]
    assert remote.first == {1: 12}


def altered(folder: Path) -> Path:
    """A recording in which the load of request 3 does not begin, though it has room."""
    lines = whole(KEPT / "remote.jsonl")
    answers = [a for line in lines if line["ev"] == "matched" for a in line["answers"]]
    begun = next(answer for answer in answers if answer["id"] == 3 and answer.get("begins"))
    del begun["begins"], begun["blocks"]
    return written(lines, folder)


def test_the_scenario_ends_where_the_load_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--scenario FILE` writes what `nullblock run FILE` takes: one request, whose blocks are
    loaded into where the trace says that nothing begins.
    """
    target = tmp_path / "fault.json"
    assert main(["check", "--scenario", str(target), str(altered(tmp_path))]) == 1
    assert "1 request and 0 steps before the decision" in capsys.readouterr().out
    document = json.loads(target.read_text())
    assert document["config"]["connector"] == {"matched": {"r3": 16}, "async": ["r3"]}
    assert main(["run", "--profile", "vllm-0.22.1", str(target)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-2])
    (request,) = last["state"]["requests"].values()
    assert request["status"] == "WAITING_FOR_REMOTE_KVS"


def test_a_connector_beside_two_groups_takes_the_blocks_of_all(tmp_path: Path) -> None:
    """A load that covers less than was said is shown by a scenario that an engine can be asked:
    with two groups, and a connector that takes the blocks of both.
    """
    groups = [{"type": "full"}, {"type": "sliding_window", "sliding_window": 5}]
    connector = {"matched": {"a": 7, "b": 9}, "async": ["b"], "all_groups": True}
    data = trace_of(
        {
            "config": {
                "block_size": 4,
                "num_blocks": 20,
                "groups": groups,
                "connector": connector,
            },
            "events": [
                {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
                {"op": "add", "id": "b", "prompt": {"range": [30, 42]}, "max_tokens": 2},
                {"op": "step"},
                {"op": "kv_done", "recv": ["b"]},
                {"op": "run"},
            ],
        }
    )
    lines = [line for line in map(json.loads, data.splitlines()) if line["ev"] != "end"]
    lines[0]["spec"] = "vllm-0.22.1"
    enters = next(line for line in lines if line.get("new", [{}])[0].get("id") == 1)
    enters["new"][0]["computed"] -= 4
    enters["tokens"] = [tokens + 4 for tokens in enters["tokens"]]
    verdict = check(path := written(lines, tmp_path), deep=False)
    assert verdict.first is not None and verdict.first.rule == "HASH-11"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
    assert answer.document["config"]["connector"]["all_groups"]
    for engine in ("spec", "reference"):
        *_, last, _ = map(json.loads, run(answer.document, engine))
        assert [new["computed"] for new in last["new"]] == [9]


def test_a_request_whose_blocks_are_kept_is_looked_at(tmp_path: Path) -> None:
    """A send that ends where the blocks are not kept for one is shown by a request that has ended
    long before, and by nobody else.
    """
    lines = whole(KEPT / "remote.jsonl")
    sent = [i for i, line in enumerate(lines) if line.get("sent")]
    again = {"ev": "transfers", "sent": lines[sent[0]]["sent"]}
    at = next(i for i, line in enumerate(lines) if i > sent[0] + 2 and line["ev"] == "output")
    verdict = check(path := written([*lines[:at], again, *lines[at:]], tmp_path), deep=False)
    assert verdict.first is not None and verdict.first.rule == "REMOTE-21"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
    ops = [event["op"] for event in answer.document["events"]]
    assert ops.count("add") == 1


def test_blocks_without_ids_cannot_be_named(tmp_path: Path) -> None:
    """Which were not loaded is told to an engine by their ids: it is said that none is known."""
    lines = whole(KEPT / "remote.jsonl")
    lines[0]["block_ids"] = "opaque"
    last = max(i for i, line in enumerate(lines) if line["ev"] == "update" and line["tokens"])
    lines[last]["tokens"] = [n + 1 for n in lines[last]["tokens"]]
    verdict = check(path := written(lines, tmp_path), deep=False)
    assert verdict.verdict == "VIOLATION"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is None
    assert "blocks were not loaded whose ids" in answer.note


def test_who_was_not_asked_for_gets_a_scenario(tmp_path: Path) -> None:
    """A trace in which nobody is asked for before a decision says so: by the rules somebody is."""
    lines = whole(KEPT / "remote.jsonl")
    at = next(i for i, line in enumerate(lines) if line["ev"] == "matched")
    verdict = check(path := written([*lines[:at], *lines[at + 1 :]], tmp_path), deep=False)
    assert verdict.first is not None and verdict.first.rule == "REMOTE-1"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
    assert sum(event["op"] == "add" for event in answer.document["events"]) == 1


def test_what_a_connector_alone_looks_at_is_no_reason_to_give_no_scenario(tmp_path: Path) -> None:
    """Parameters of a transfer, which every request of a server has that hands blocks on."""
    lines = whole(KEPT / "remote.jsonl")
    for line in lines:
        if line["ev"] == "add":
            line["features"] = ["kv_transfer"]
    step = next(line for line in lines if line["ev"] == "schedule" and line["ids"])
    step["tokens"][0] += 1
    verdict = check(path := written(lines, tmp_path), deep=False)
    assert verdict.verdict == "VIOLATION"
    answer = ask(verdict, path)
    assert answer is not None and answer.document is not None, answer
