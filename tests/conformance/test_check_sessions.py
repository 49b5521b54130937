"""Traces of streaming sessions: what is caught, what is damage, what is refused by name, and what
is forgotten.
"""

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from altered import judge
from bases import Lines, as_recorded, bases, begun_later
from traces import trace_of, unsealed

from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.sessions import why_not
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.trace.header import TraceConfig
from nullblock.spec.profiles import VLLM_0_22_1

HERE = Path(__file__).parent
KEPT = HERE / "data" / "recorded" / "sessions.jsonl"
VECTORS = HERE.parents[1] / "conformance" / "vectors"


def golden() -> dict[str, Any]:
    """The golden scenarios with sessions, by name, without counts, of which no trace tells."""
    found = {}
    for path in sorted(VECTORS.glob("*.json")):
        document = json.loads(path.read_text())
        if path.stem != "index":
            document["events"] = [e for e in document["events"] if e["op"] != "counts"]
        if path.stem != "index" and any(e.get("resumable") for e in document["events"]):
            found[path.stem] = document
    return found


def of(data: bytes) -> Verdict:
    """The verdict on a trace."""
    return check(Path("t"), stream=io.BytesIO(data), deep=False)


REFUSED = {
    "session-with-a-window-is-loaded": "beside a KV connector",
    "session-beside-aligned-states": "blocks of several sizes",
}
"""Golden scenarios whose traces are INCONCLUSIVE, or are not made, and why."""
UNTOLD = {"session-beside-aligned-states"}
"""Those of which no engine makes a trace: it has no words for them."""


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("name", golden())
def test_golden_scenarios_conform_or_are_refused_by_name(name: str, engine: str) -> None:
    """Under both profiles."""
    for profile in ("vllm-0.22.1", "normative"):
        try:
            verdict = of(trace_of(golden()[name], engine, profile))
        except OutOfScope as error:
            assert engine == "spec" or name in UNTOLD
            assert REFUSED[name] in str(error)
            continue
        if verdict.verdict != "CONFORMS":
            assert verdict.verdict == "INCONCLUSIVE"
            assert REFUSED[name] in verdict.missing[0]


def places(lines: Lines, suits: Callable[[Any], Any]) -> list[int]:
    """Where records stand that suit."""
    return [at for at, line in enumerate(lines) if suits(line)]


def changed(change: Callable[[Any], Any], suits: Callable[[Any], Any]) -> tuple[int, Verdict]:
    """The verdict on the base with the first record changed that suits, and where that is."""
    lines = bases()["sessions"]
    at = places(lines, suits)[0]
    change(lines[at])
    return at, judge([line for line in lines if line["ev"] != "end"])


def is_taken(line: Any) -> bool:
    """A chunk that is taken at once."""
    return line["ev"] == "chunk" and "taken" in line


def is_queued(line: Any) -> bool:
    """A chunk that is not."""
    return line["ev"] == "chunk" and "taken" not in line


def goes_on(line: Any) -> bool:
    """An update in which a session goes on without a chunk."""
    return any("taken" not in turn for turn in line.get("turns", ()))


def takes(line: Any) -> bool:
    """An update in which a session takes a chunk."""
    return any("taken" in turn for turn in line.get("turns", ()))


TAKEN = {"tokens": 12, "chain": []}
WRONG: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a chunk is not taken": ("SESS-13", lambda x: x.pop("taken"), is_taken),
    "a chunk is taken too soon": ("SESS-13", lambda x: x.update(taken=TAKEN), is_queued),
    "a session does not go on": ("SESS-6", lambda x: x["turns"].pop(), goes_on),
    "a request that ends goes on": (
        "SESS-6",
        lambda x: x.update(turns=[{"id": x["finish"][0]["id"]}]),
        lambda x: x.get("finish") and not x.get("turns"),
    ),
    "a session waits though it has a chunk": (
        "SESS-6",
        lambda x: [turn.pop("taken", None) for turn in x["turns"]],
        takes,
    ),
    "a session takes what there is not": (
        "SESS-6",
        lambda x: [turn.setdefault("taken", TAKEN) for turn in x["turns"]],
        goes_on,
    ),
    "a session ends behind its chunks": (
        "SESS-12",
        lambda x: x.pop("ended"),
        lambda x: x["ev"] == "session_end" and x.get("ended"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_decision_is_caught_where_it_is(name: str) -> None:
    """By the rule of that name."""
    rule, change, suits = WRONG[name]
    at, verdict = changed(change, suits)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None, verdict
    assert (verdict.first.line, verdict.first.rule) == (at + 1, rule)


def test_more_content_than_tokens_is_damage() -> None:
    """A chain number for a block that a chunk does not fill."""
    at, verdict = changed(lambda x: x["taken"]["chain"].append([0, 3]), is_taken)
    assert verdict.verdict == "MALFORMED" and verdict.first is not None
    assert verdict.first.line == at + 1 and "do not fill" in verdict.first.what


@pytest.mark.parametrize("kind", ["chunk", "session_end"])
def test_nothing_is_sent_to_whoever_is_no_session(kind: str) -> None:
    """A request that is none, one that has ended, one that never arrived."""
    sent = {"ev": kind, "id": 0} | ({"prompt": 3, "max_tokens": 2} if kind == "chunk" else {})
    busy = [line for line in bases()["busy"] if line["ev"] != "end"]
    arrival = places(busy, lambda x: x["ev"] == "add" and x["id"] == 0)[0]
    for lines in ([*busy[: arrival + 1], sent], [*busy, sent], [busy[0], sent]):
        verdict = judge(lines)
        assert verdict.verdict == "MALFORMED" and verdict.first is not None
        assert verdict.first.line == len(lines)


def test_a_chunk_numbers_content_in_its_order() -> None:
    """What a session takes may not skip a chain number."""
    for suits, change in (
        (is_taken, lambda x: x["taken"].update(chain=[[900, 1]])),
        (takes, lambda x: x["turns"][0]["taken"].update(chain=[[900, 1]])),
    ):
        at, verdict = changed(change, suits)
        assert verdict.verdict == "MALFORMED" and verdict.first is not None
        assert verdict.first.line == at + 1 and "appears before" in verdict.first.what


def of_chunk(lines: Lines) -> Lines:
    next(line for line in lines if line["ev"] == "chunk")["features"] = ["prompt_embeds"]
    return lines


def unobserved(lines: Lines) -> Lines:
    del lines[0]["observed"]["chunk"]
    return lines


def by_priority(lines: Lines) -> Lines:
    lines[0]["config"]["policy"] = "priority"
    return [x | {"arrival": 0.0} if x["ev"] == "add" else x for x in lines]


def connected(lines: Lines) -> Lines:
    window = {"sliding_window": 5}
    lines[0]["config"] |= {"connector": {"failure_policy": "recompute"}, "groups": [window]}
    lines[0]["observed"] |= {"matched": "complete", "transfers": "complete"}
    return lines


def queued_twice(lines: Lines) -> Lines:
    told = begun_later(KEPT, 1)
    told[1]["waiting"].append(told[1]["requests"][0]["id"])
    return told


def without_its_chunks(lines: Lines) -> Lines:
    told = begun_later(KEPT, 1)
    del next(q for q in told[1]["requests"] if "session" in q)["session"]
    return told


UNKNOWN: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "a chunk with more than tokens": (of_chunk, "the feature prompt_embeds of a later chunk"),
    "chunks that were not seen": (unobserved, "the feature resumable"),
    "the PRIORITY policy": (by_priority, "the arrival time of a later chunk"),
    "a KV connector and a window": (connected, "a session with layers of which some see a part"),
    "a request in two places": (queued_twice, "is queued 2 times"),
    "a state without its chunks": (without_its_chunks, "the chunks of session"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_of_sessions_is_named(name: str) -> None:
    """INCONCLUSIVE, and what is missing."""
    change, words = UNKNOWN[name]
    lines = change([x for x in bases()["sessions"] if x["ev"] != "end"])
    for key in ("config_sha256", "sealed"):
        lines[0].pop(key, None)
    verdict = of(unsealed(lines))
    assert (verdict.verdict, verdict.first) == ("INCONCLUSIVE", None), verdict
    assert words in "\n".join(verdict.missing)


def test_a_session_may_stop_with_a_stop_id_and_then_without() -> None:
    """In vLLM all its later ends report the token of the first."""
    document = {
        "config": {"block_size": 4, "num_blocks": 20, "vocab": 1},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 5]}, "max_tokens": 2}
            | {"resumable": True, "stop": [0]},
            {"op": "run"},
            {"op": "add", "id": "a", "prompt": {"range": [9, 14]}, "max_tokens": 2}
            | {"resumable": True},
            {"op": "step", "n": 4},
        ],
    }
    for engine in ("spec", "reference"):
        data = trace_of(document, engine)
        ends = [f for line in map(json.loads, data.splitlines()) for f in line.get("finish", ())]
        assert [(f["reason"], f.get("by_stop_id")) for f in ends] == [
            ("stop", True),
            ("length", True),
        ]
        assert of(data).verdict == "CONFORMS"


def test_what_sessions_were_sent_is_forgotten() -> None:
    """Chunks that are taken, and all of a session that has ended: memory is that of what waits."""
    events: list[dict[str, Any]] = []
    for turn in range(60):
        prompt = {"range": [100 * turn, 100 * turn + 3]}
        add = {"op": "add", "id": "a", "prompt": prompt, "max_tokens": 1, "resumable": True}
        events += [add, {"op": "step", "n": 2}]
    document = {"config": {"block_size": 4, "num_blocks": 200}, "events": events}
    replay = of(trace_of(document, "spec")).replay
    assert replay is not None
    assert {r: len(chunks) for r, chunks in replay.k.talk.sent.items()} == {0: 1}
    end = {"op": "add", "id": "a", "prompt": [1], "max_tokens": 1}
    document["events"] = [*events, end, {"op": "step", "n": 2}]
    verdict = of(trace_of(document, "spec"))
    assert verdict.verdict == "CONFORMS" and verdict.replay is not None
    k = verdict.replay.k
    assert not (k.talk.sent or k.talk.by_stop_id or k.requests or k.chains)


def out_of_order(state: dict[str, Any]) -> None:
    """The last of the skipped queue is told as the first."""
    for name in ("skipped", "waiting"):
        state[name] = [state["skipped"][-1], *state["skipped"][:-1]]


@pytest.mark.parametrize(
    ("places", "ordered", "missing"),
    [
        (True, True, ""),
        (True, False, ""),
        (False, True, "moves it past others in the skipped queue"),
        (False, False, "which is out of order"),
    ],
)
def test_where_those_stand_who_wait_under_priority(
    places: bool, ordered: bool, missing: str
) -> None:
    """Where recording begins in the middle, who stands where in the heap is told, or more than
    two stand there and a chunk has moved one of them, or does so next: what follows is not known.
    """
    lines = begun_later(KEPT.with_name("heap.jsonl"), 2)
    assert len(lines[1]["heap"]) == 4
    if not ordered:
        out_of_order(lines[1])
    if not places:
        del lines[1]["heap"]
    verdict = judge(lines)
    assert missing in " ".join(verdict.missing)
    assert (verdict.verdict == "INCONCLUSIVE") is bool(missing)


def test_other_places_in_the_heap_are_caught() -> None:
    """A state that says that two of those who wait stand in each other's place."""
    lines = as_recorded()["heap"]
    at = [n for n, line in enumerate(lines) if "heap" in line][-1]
    first, *others, last = lines[at]["heap"]
    altered = [*lines[:at], lines[at] | {"heap": [last, *others, first]}, *lines[at + 1 :]]
    found = judge(altered).first
    assert found is not None and (found.rule, found.line) == ("WAIT-53", at + 1)


@pytest.mark.parametrize("chain", [[[3, 3], [7, 2]], [[3, 3], [8, 2]], [[3, 3], [8, 1]]])
def test_a_session_has_the_chain_numbers_that_were_told_before(chain: list[Any]) -> None:
    """Also those of blocks that are full no more; none of them, and none behind, is another."""
    lines = copy.deepcopy(as_recorded()["sessions"])
    at = [n for n, line in enumerate(lines) if line["ev"] == "state"][3]
    told = next(q for q in lines[at]["requests"] if q["id"] == 1)
    assert (told["chain"], told["tokens"]) == ([[3, 3], [7, 1]], 3)
    told["chain"] = chain
    verdict = judge(lines)
    assert verdict.verdict == "MALFORMED" and verdict.first is not None
    assert (verdict.first.line, verdict.first.what) == (
        at + 1,
        "other chain numbers of request 1 than before",
    )


def test_a_state_tells_where_those_stand_from_then_on() -> None:
    """It need not be the one in which recording began; and none has others than wait there."""
    lines = as_recorded()["heap"]
    states = [at for at, line in enumerate(lines) if line["ev"] == "state"]
    begun = [lines[0] | {"start": "unknown"}, *lines[states[2] :]]
    begun[1] = {name: told for name, told in begun[1].items() if name != "heap"}
    assert judge(begun).verdict == "INCONCLUSIVE"
    begun.insert(2, lines[states[2]])
    assert judge(begun).verdict == "CONFORMS"
    begun[2] = begun[2] | {"heap": begun[2]["heap"][1:]}
    damaged = judge(begun)
    assert damaged.verdict == "MALFORMED" and damaged.first is not None
    assert damaged.first.what == "`heap` has those of `skipped`"


def test_only_layers_that_see_a_part_are_refused_beside_a_connector() -> None:
    """One group of latent attention is as plain as one of full attention."""
    header = as_recorded()["remote"][0]
    for group, refused in (({}, False), ({"mla": True}, False), ({"sliding_window": 6}, True)):
        config = msgspec.convert(header["config"] | {"groups": [group]}, TraceConfig)
        assert config.is_plain != refused
        assert bool(why_not(config, VLLM_0_22_1)) == refused
