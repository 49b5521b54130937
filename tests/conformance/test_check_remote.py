"""Traces of KV connectors: what stands before a call, reports that no transfer explains, states to
begin with, and the recorder that watches a connector. Recordings of the real engine, drawn and
kept, are judged in test_check_features.py; each field is altered in test_fields.py.
"""

import copy
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from altered import judge
from bases import KEPT, Lines, bases, begun_later, whole
from fields import alterations, every_field
from record_secrets import WORDS
from recorded_engine import ended, engine, request
from traces import trace_of

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.adapters.vllm.remote import Answers
from nullblock.conformance.checker import Verdict, check, fast
from nullblock.conformance.played.connector import PlayedConnector, make_connector
from nullblock.conformance.trace.records import End, Header, Lost
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.erased.kept import kept
from nullblock.spec.machine.schedule import schedule

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
NAMES = ("remote", "remote-fails")
OF_STATE = ("received", "kept.id", "kept.blocks")


def unsealed(name: str) -> Lines:
    """A kept recording, whole records, without its end."""
    return copy.deepcopy(whole(KEPT / f"{name}.jsonl"))


def place(lines: Lines, kind: str, **has: Any) -> int:
    """The index of the first record of a kind that has some values."""
    found = (
        at
        for at, line in enumerate(lines)
        if line["ev"] == kind and all(line.get(name) == value for name, value in has.items())
    )
    return next(found)


@pytest.mark.parametrize("field", OF_STATE)
def test_an_altered_field_of_a_state_to_go_on_from(field: str) -> None:
    """What a recorded state says of loads and of kept blocks is what the rules go on from."""
    said = set()
    for name in NAMES:
        for number in range(sum(line["ev"] == "state" for line in unsealed(name))):
            lines = begun_later(KEPT / f"{name}.jsonl", number)
            assert judge(lines).verdict == "CONFORMS"
            for _, told in alterations(lines, ("state", "remote", *field.split(".")), 1):
                said.add(judge(told).verdict)
    assert said - {"CONFORMS"}


def test_whoever_lost_all_of_a_load_starts_over_from_a_state() -> None:
    """Where nothing of a load is left, it matters whether it failed: then the request gives its
    blocks back.
    """
    said = []
    for failed in ([3], []):
        lines = begun_later(KEPT / "remote.jsonl", 1)
        told = next(one for one in lines[1]["requests"] if one["id"] == 3)
        assert (lines[1]["remote"]["failed"], told["computed"]) == ([3], 8)
        told["computed"], lines[1]["remote"]["failed"] = 0, failed
        verdict = judge(lines)
        assert verdict.verdict == "VIOLATION"
        said.append("REMOTE-16" in verdict.rules)
    assert said == [True, False]


def test_a_state_that_says_nothing_of_a_connector_is_no_beginning() -> None:
    """INCONCLUSIVE, by name."""
    lines = begun_later(KEPT / "remote.jsonl", 0)
    del lines[1]["remote"]
    verdict = judge(lines)
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == ["`remote` of the state at step 3"]


@pytest.mark.parametrize(
    ("kind", "moved", "words"),
    [
        ("matched", 1, "add right after matched"),
        ("transfers", 1, "add right after transfers"),
    ],
)
def test_what_is_said_in_a_call_stands_right_before_it(kind: str, moved: int, words: str) -> None:
    """Anything between is damage, on the line of what is between."""
    lines = unsealed("remote")
    at = place(lines, kind)
    add = {"ev": "add", "id": 99, "prompt": 2, "max_tokens": 1}
    verdict = judge([*lines[: at + moved], add, *lines[at + moved :]])
    assert verdict.verdict == "MALFORMED" and verdict.first is not None
    assert (verdict.first.line, verdict.first.what[: len(words)]) == (at + moved + 1, words)


@pytest.mark.parametrize(
    "record",
    [
        {"ev": "matched", "answers": [{"id": 77, "tokens": 1}]},
        {"ev": "transfers", "received": [77]},
        {"ev": "transfers", "delayed": [77]},
    ],
)
def test_nobody_is_told_of_whom_nobody_added(record: dict[str, Any]) -> None:
    """That is damage."""
    lines = unsealed("remote")
    at = place(lines, "matched")
    verdict = judge([*lines[:at], record, *lines[at:]])
    assert verdict.verdict == "MALFORMED" and "77, which nobody added" in verdict.first.what  # type: ignore[union-attr]


def test_who_is_asked_is_a_decision() -> None:
    """Of whom the rules ask the connector and the trace tells no answer: VIOLATION, and of whom it
    tells one and the rules do not ask as well.
    """
    lines = unsealed("remote")
    at = place(lines, "matched")
    fewer = copy.deepcopy(lines)
    fewer[at]["answers"].pop()
    for told in (fewer, [*lines[:at], *lines[at + 1 :]]):
        verdict = judge(told)
        assert verdict.first is not None and verdict.first.rule == "REMOTE-1"
    late = next(i for i, x in enumerate(lines) if x["ev"] == "schedule" and x["step"] == 5)
    more = [*lines[:late], {"ev": "matched", "answers": [{"id": 1, "tokens": 0}]}, *lines[late:]]
    verdict = judge(more)
    assert verdict.first is not None
    assert (verdict.first.rule, verdict.first.line) == ("REMOTE-1", late + 2)


def raising(**report: Any) -> str:
    """What is said of an engine that raises for a report with the output of step 4: request 0 is
    loaded, 2 waits, 1, 4 and 5 run.
    """
    lines = unsealed("remote")
    at = next(i for i, line in enumerate(lines) if line["ev"] == "output" and line["step"] == 4)
    error = {"ev": "error", "during": "update", "type": "AssertionError"}
    return judge([*lines[:at], {"ev": "transfers", **report}, error]).verdict


def test_a_transfer_that_is_not_under_way_explains_an_exception() -> None:
    """vLLM raises for it, whatever came with the output. Where whoever is named may end with the
    output, or the transfer is under way, that is not known.
    """
    assert raising(sent=[2]) == "CONFORMS"
    assert raising(received=[2]) == "CONFORMS"
    assert raising(received=[0]) == "INCONCLUSIVE"
    assert raising(sent=[0]) == "CONFORMS"
    assert raising(sent=[1]) == "INCONCLUSIVE"
    assert raising(invalid=[1]) == "INCONCLUSIVE"


@pytest.mark.parametrize("engine_name", ["spec", "reference"])
def test_a_second_report_raises_as_vllm_does(engine_name: str) -> None:
    """In vllm-0.22.1 blocks that are loaded and to be sent go with the first report."""
    document = json.loads((VECTORS / "defect-aborted-load-is-sent-too.json").read_text())
    data = trace_of(document, engine_name, "vllm-0.22.1")
    assert data.splitlines()[-2].startswith(b'{"ev":"error","during":"update"')
    assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"


def test_blocks_that_have_no_ids_cannot_be_said_not_to_be_loaded() -> None:
    """INCONCLUSIVE, by name; without such a report the trace conforms."""
    lines = unsealed("remote")
    lines[0]["block_ids"] = "absent"
    verdict = judge(lines)
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", ["which blocks were not loaded"])
    at = next(i for i, line in enumerate(lines) if line.get("invalid"))
    assert judge(lines[:at]).verdict == "CONFORMS"


@pytest.mark.parametrize("name", NAMES)
def test_blocks_may_have_other_names(name: str) -> None:
    """Renamed one to one, in reports and tables as well, they are the same blocks."""
    data = trace_of(json.loads((KEPT / "scenarios.json").read_text())[name])
    lines = [json.loads(line) for line in data.splitlines()[:-1]]
    lines[0].pop("sealed"), lines[0].pop("config_sha256")
    lines[0]["block_ids"] = "opaque"
    for line in lines:
        if line["ev"] == "transfers" and "invalid" in line:
            line["invalid"] = [b + 1000 for b in line["invalid"]]
        for one in (*line.get("answers", ()), *line.get("new", ())):
            if "blocks" in one:
                one["blocks"] = [[b + 1000 for b in one["blocks"][0]]]
        for pair in line.get("cached", {}).get("blocks", ()):
            pair[1] = [[b + 1000 for b in pair[1][0]]]
    assert judge(lines).verdict == "CONFORMS"


def in_both_forms(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """The verdict on a trace, which is the same whether the text is erased or not."""
    said = []
    for after in (0, 10**9):
        monkeypatch.setattr(fast, "AFTER", after)
        verdict = judge(lines)
        assert verdict.replay is not None
        assert not verdict.decisions or verdict.replay.machine.erased == (not after)
        told = verdict.first and replace(verdict.first, mismatch=None)
        said.append((verdict.verdict, verdict.missing, verdict.decisions, verdict.rules, told))
    assert said[0] == said[1]
    return verdict


@pytest.mark.parametrize("name", NAMES)
def test_the_erased_form_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a recording of the engine, in which it asks for some, and of some it is not known yet."""
    assert in_both_forms(unsealed(name), monkeypatch).verdict == "CONFORMS"


def test_who_is_asked_twice_is_told() -> None:
    """The rules ask once."""
    lines = unsealed("remote")
    at = place(lines, "matched")
    lines[at]["answers"].append(lines[at]["answers"][0])
    found = judge(lines).first
    assert found is not None and (found.rule, found.line) == ("REMOTE-1", at + 2)


@pytest.mark.parametrize("field", [f for f in every_field() if f[0] in ("matched", "transfers")])
def test_the_erased_form_finds_the_same(
    field: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one thing is altered that the connector answers or workers report: which line, which
    rule, what is expected.
    """
    altered = [told for name in NAMES for _, told in alterations(unsealed(name), field)]
    assert altered
    for lines in altered:
        in_both_forms(lines, monkeypatch)


def test_the_erased_form_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps in which the connector is asked for somebody are decided by it as well: but for those
    in which it does not know yet.
    """
    monkeypatch.setattr(fast, "AFTER", 0)
    plain: list[int] = []

    def spied(s: Any) -> Any:
        plain.append(len(s.k.answers))
        return schedule(s)

    monkeypatch.setattr(fast, "schedule", spied)
    monkeypatch.setattr(
        fast, "kept", lambda f, k, *made, **how: kept(schedule if f is spied else f, k, **how)
    )
    assert judge(unsealed("remote-fails")).verdict == "CONFORMS"
    assert not plain
    lines = unsealed("remote")
    assert judge(lines).verdict == "CONFORMS"
    unsure = [
        any("tokens" not in answer for answer in line["answers"])
        for line in lines
        if line["ev"] == "matched"
    ]
    assert 0 < sum(unsure) < len(unsure) and len(plain) == sum(unsure)


SCRIPTED = {"matched": {"a": 6, WORDS[0]: 4}, "async": ["a"], "delay_free": True}


class WithConnector(Scheduler):
    """The reference's scheduler, which makes itself a connector."""

    made: Any = staticmethod(lambda: make_connector(copy.deepcopy(SCRIPTED)))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connector = self.made()


class Recorded(Recording, WithConnector):
    """It, recorded, under the name of the release that it follows."""

    engine_name, engine_version = "vllm", ("0.22.1", None)


class Slotted:
    """A connector whose methods cannot be watched."""

    __slots__ = ("inner",)

    def __init__(self) -> None:
        self.inner = make_connector(copy.deepcopy(SCRIPTED))

    def get_num_new_matched_tokens(self, asked: Any, local: int) -> Any:
        """Passed on, as are the others."""
        return self.inner.get_num_new_matched_tokens(asked, local)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def served(late: str = "") -> list[Any]:
    """What an engine with a connector decides, from a load to the end of a send. ``late``: where
    it is recorded from the middle on.
    """
    made = engine()
    scheduler = made.scheduler
    made.add(request("a", prompt=9))
    made.add(request(WORDS[0], prompt=7))
    taken: list[Any] = []
    for step in range(9):
        if step == 2:
            made.report_transfers(["a"], [], [])
        if step == 5:
            made.report_transfers([], [WORDS[0]], [])
        if step == 4 and late:
            scheduler.start_recording(late)
        decided = made.schedule()
        taken += [decided, made.update({id: [1] for id in decided["num_scheduled_tokens"]})]
    scheduler.shutdown()
    return taken


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler of the reference has a connector, and is recorded."""
    monkeypatch.setattr(adapter, "Scheduler", Recorded)


def test_a_recording_tells_no_more_than_numbers(where: Path, connected: None) -> None:
    """Whose loads they are is told in numbers, and the recording conforms."""
    served()
    found = where.with_name("t.jsonl")
    kinds = [json.loads(line)["ev"] for line in found.read_bytes().splitlines()]
    assert kinds.count("matched") >= 1 and kinds.count("transfers") >= 2
    assert check(found).verdict == "CONFORMS"
    assert WORDS[0].encode() not in found.read_bytes()


def test_a_recording_may_begin_while_blocks_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connected: None
) -> None:
    """Its first state says whose, and it conforms from there."""
    monkeypatch.delenv("NULLBLOCK_TRACE", raising=False)
    served(late=str(tmp_path / "late.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "late.jsonl").read_bytes().splitlines()]
    assert lines[1]["ev"] == "state" and lines[1]["remote"]["kept"]
    assert check(tmp_path / "late.jsonl").verdict == "CONFORMS"


@pytest.mark.parametrize("name", ["asked", "begun", "ended", "take", "with_output"])
def test_what_goes_wrong_while_it_watches_stays_there(
    where: Path, monkeypatch: pytest.MonkeyPatch, connected: None, name: str
) -> None:
    """The engine decides as it would have, and the recording says that it gave up."""
    with monkeypatch.context() as plain:
        plain.setattr(adapter, "Scheduler", WithConnector)
        expected = served()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Answers, name, fail)
    assert served() == expected
    found = ended(where.with_name("t.jsonl"))
    assert found[-2] == Lost(reason="OSError") and isinstance(found[-1], End)


def test_a_connector_that_cannot_be_watched_is_named(
    where: Path, monkeypatch: pytest.MonkeyPatch, connected: None
) -> None:
    """The header has the feature and no constants of it: INCONCLUSIVE, by name."""
    monkeypatch.setattr(WithConnector, "made", staticmethod(Slotted))
    served()
    found = where.with_name("t.jsonl")
    header = ended(found)[0]
    assert isinstance(header, Header) and header.features == ["kv_connector"]
    verdict = check(found)
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", ["the feature kv_connector"])


def test_the_plain_connector_is_not_changed_for_others() -> None:
    """What is watched is one connector, and not its class."""
    assert "watched" not in PlayedConnector.get_num_new_matched_tokens.__qualname__
    assert bases()["remote"][0]["config"]["connector"] == {"failure_policy": "recompute"}
