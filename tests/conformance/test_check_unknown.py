"""Traces that cannot be judged, and damaged ones: never a crash, never CONFORMS."""

import copy
import io
import random
from pathlib import Path
from typing import Any

import pytest
from bases import bases
from traces import BUSY, documents, gzipped, trace_of, unsealed, written, zstd

from nullblock.conformance import bundled
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.trace import seal
from nullblock.conformance.trace.records import MINOR

Lines = list[dict[str, Any]]


def judge(data: bytes) -> Verdict:
    """The verdict on these bytes."""
    return check(Path("trace"), stream=io.BytesIO(data))


@pytest.fixture(scope="module")
def sealed() -> bytes:
    """A small trace with every kind of event and a seal."""
    return trace_of(BUSY)


@pytest.fixture
def lines(sealed: bytes) -> Lines:
    """Its lines."""
    return documents(sealed)


def without(name: str, kind: str) -> Any:
    """Take a field out of every record of a kind."""

    def change(lines: Lines) -> None:
        for line in lines:
            if line["ev"] == kind:
                line.pop(name, None)

    return change


def header(**fields: Any) -> Any:
    """Change the header."""
    return lambda lines: lines[0].update(fields)


def observed(**kinds: str) -> Any:
    """Change what is observed; and then let something happen that was not seen."""

    def change(lines: Lines) -> None:
        lines[0]["observed"].update(kinds)
        step = next(x for x in lines if x["ev"] == "schedule" and x["ids"])
        step["tokens"][0] += 1

    return change


def priority(lines: Lines) -> None:
    lines[0]["config"]["policy"] = "priority"


def cut(kind: str, **fields: Any) -> Any:
    """The trace ends after its first step with a record of that kind."""

    def change(lines: Lines) -> None:
        at = next(i for i, line in enumerate(lines) if line["ev"] == "output")
        lines[at:] = [{"ev": kind, **fields}]

    return change


def speculative(lines: Lines) -> None:
    output = next(x for x in lines if x["ev"] == "output" and 1 in x["counts"])
    output["counts"][output["counts"].index(1)] = 3


def feature_of_a_request(lines: Lines) -> None:
    next(x for x in lines if x["ev"] == "add")["features"] = ["structured_output"]


def nothing_told(lines: Lines) -> None:
    """An abort and a reset of which nobody saw what became."""
    del lines[1:]
    lines += [{"ev": "abort", "asked": [], "status": "FINISHED_ABORTED"}, {"ev": "reset"}]


def named(lines: Lines) -> None:
    """Something decides the third step, and no record says how: nobody is scheduled then."""
    at = [i for i, x in enumerate(lines) if x["ev"] == "schedule"][2]
    lines[at:] = [
        {"ev": "feature", "name": "throttle_prefills"},
        {"ev": "schedule", "step": 3, "ids": [], "tokens": []},
    ]


def unordered(lines: Lines) -> None:
    """Two running requests are aborted, and nobody saw which first."""
    at = next(i for i, x in enumerate(lines) if x["ev"] == "update" and len(x["ids"]) == 2)
    lines[at + 1 :] = [{"ev": "abort", "asked": None, "status": "FINISHED_ABORTED"}]


UNKNOWN: dict[str, tuple[Any, str]] = {
    "a feature": (
        header(features=["speculative_decoding", "kv_connector"]),
        "speculative_decoding",
    ),
    "a later one": (header(features=["speculative_decoding", "kv_connector"]), "kv_connector"),
    "a request's feature": (feature_of_a_request, "structured_output"),
    "the start": (header(start="unknown"), "state in which the recording began"),
    "an engine": (header(spec="vllm-9.9"), "vllm-9.9"),
    "a huge pool": (lambda x: x[0]["config"].update(num_blocks=2**50), "blocks"),
    "arrivals": (observed(add="sampled"), "all add records (sampled)"),
    "outputs": (observed(output="absent"), "all output records (absent)"),
    "aborts": (observed(abort="absent"), "all abort records (absent)"),
    "pauses": (observed(pause="sampled"), "all pause records (sampled)"),
    "resets": (observed(reset="absent"), "all reset records (absent)"),
    "evictions": (observed(evict="absent"), "all evict records (absent)"),
    "chains": (
        lambda x: (without("chain", "add")(x), without("chain", "output")(x)),
        "the chain numbers of request 0",
    ),
    "chains of output": (without("chain", "output"), "the chain number of block"),
    "arrival times": (priority, "arrival time of request 0"),
    "evicted blocks": (header(block_ids="absent"), "which blocks were evicted"),
    "the recorder's end": (cut("lost", reason="MemoryError"), "MemoryError"),
    "what comes between steps": (named, "the feature throttle_prefills"),
    "an unknown exception": (cut("error", during="abort", type="KeyError"), "abort raised"),
    "speculative tokens": (speculative, "3 in its output"),
    "decisions that are nowhere told": (nothing_told, "decisions"),
    "the order of an abort": (unordered, "order aborted requests gave up"),
    "decisions": (lambda x: x.__delitem__(slice(1, None)), "decisions"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_named(lines: Lines, name: str) -> None:
    """A trace that lacks something, or uses a feature that the rules do not have, is INCONCLUSIVE
    and says what it is.
    """
    change, words = UNKNOWN[name]
    change(lines)
    verdict = judge(unsealed(lines))
    assert verdict.verdict == "INCONCLUSIVE", verdict.first
    assert words in "\n".join(verdict.missing)
    assert verdict.exit_code == 3 and verdict.first is None


def test_a_kind_of_a_later_version_is_not_passed_over(lines: Lines) -> None:
    """A record that a later format has may have decided something."""
    lines[0]["version"] = f"1.{MINOR + 1}"
    lines.insert(3, {"ev": "telepathy", "to": 1})
    verdict = judge(unsealed(lines))
    assert verdict.verdict == "INCONCLUSIVE"
    assert "telepathy" in verdict.missing[0]


def test_unseen_inputs_are_no_matter_where_all_is_explained(lines: Lines) -> None:
    """If every decision follows from the inputs that were seen, nothing else happened."""
    lines = [x for x in lines if x["ev"] not in ("pause", "evict")]
    assert judge(unsealed(copy.deepcopy(lines))).verdict == "CONFORMS"
    lines[0]["observed"].update(pause="absent", evict="absent")
    assert judge(unsealed(lines)).verdict == "CONFORMS"


def test_an_exception_is_explained_if_the_rules_contradict_themselves_there() -> None:
    """vLLM raises for a prompt beyond max_model_len that goes on; its rules raise there, too.
    Where they do not, an exception is a violation.
    """
    longer = {
        "config": {"block_size": 4, "num_blocks": 12, "max_model_len": 16},
        "events": [
            {
                "op": "add",
                "id": "a",
                "prompt": {"range": [0, 22]},
                "max_tokens": 4,
                "min_tokens": 2,
            },
            {"op": "step", "n": 3},
        ],
    }
    data = trace_of(longer)
    assert documents(data)[-2]["ev"] == "error"
    assert judge(data).verdict == "CONFORMS"
    honest = documents(trace_of(BUSY))
    at = next(i for i, line in enumerate(honest) if line["ev"] == "schedule")
    honest[at:] = [{"ev": "error", "during": "schedule", "type": "AssertionError"}]
    verdict = judge(unsealed(honest))
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", None)


def test_an_arrival_of_a_request_that_is_alive_is_damage(lines: Lines) -> None:
    """By the rules it is alive, so that no recorder can have seen it arrive."""
    at = next(i for i, line in enumerate(lines) if line["ev"] == "add")
    lines.insert(at + 1, lines[at])
    verdict = judge(unsealed(lines))
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.line) == ("MALFORMED", at + 2)
    assert verdict.exit_code == 4


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one piece flipped, cut, doubled, dropped, or replaced."""
    at = chance.randrange(len(data))
    length = chance.choice((1, 1, 1, 2, 7, 100))
    match chance.randrange(5):
        case 0:
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at : at + length] + data[at:]
        case 3:
            return data[:at] + data[at + length :]
        case _:
            return data[:at] + chance.randbytes(length) + data[at + length :]


@pytest.mark.parametrize("name", ["plain", "x.gz", "x.zst"])
def test_damage_never_conforms(sealed: bytes, name: str) -> None:
    """Random damage to a sealed trace, plain or compressed, is a violation or damage; nothing
    crashes.
    """
    whole, chance = written(sealed, name), random.Random(20)
    assert judge(whole).verdict == "CONFORMS"
    seen = set()
    for _ in range(500):
        data = damaged(whole, chance)
        if data in (whole, whole[: -seal.ZSTD.size], whole[: -seal.GZIP.size]):
            continue  # it lost its seal and nothing else: the content is whole
        verdict = judge(data)
        seen.add(verdict.verdict)
        assert verdict.verdict != "CONFORMS", data
        assert verdict.first is not None or verdict.missing
    assert "MALFORMED" in seen


def test_damage_to_the_bundled_recording() -> None:
    """The recording that comes with the package, bytes changed anywhere: never CONFORMS."""
    whole, chance = bundled.TRACE.read_bytes(), random.Random(4)
    for _ in range(12):
        verdict = judge(damaged(whole, chance))
        assert verdict.verdict == "MALFORMED"
        assert verdict.first is not None and verdict.first.what


LIES = (0, 1, -1, 2, 17, 2**31, 2**53, -(2**53), True, None, "x", [], {}, 1.5, [[]], [0, 0])


def test_lies_are_judged_and_never_crash(lines: Lines) -> None:
    """Any value anywhere replaced by any other: some verdict, quickly, and a place for it."""
    chance, seen = random.Random(11), set()
    for _ in range(1500):
        told = copy.deepcopy(lines)
        line = chance.choice(told[:40])
        inside: Any = line
        while True:
            keys: Any = list(inside) if isinstance(inside, dict) else range(len(inside))
            key = chance.choice(list(keys))
            if not isinstance(inside[key], (dict, list)) or not inside[key]:
                break
            if chance.random() < 0.2:
                break
            inside = inside[key]
        inside[key] = chance.choice(LIES)
        kept = b"".join(_encode(x) for x in told if x.get("ev") != "end")
        verdict = judge(kept)
        seen.add(verdict.verdict)
        assert verdict.verdict == "CONFORMS" or verdict.first or verdict.missing
    assert {"VIOLATION", "MALFORMED"} <= seen


def _encode(line: Any) -> bytes:
    import json

    return json.dumps(line).encode() + b"\n"


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_every_bit_of_a_compressed_trace_counts(sealed: bytes, name: str) -> None:
    """Bits at the start and at the end, where formats keep what no content depends on."""
    whole = written(sealed, name)
    for at in [*range(24), *range(len(whole) - 64, len(whole))]:
        for bit in range(8):
            data = whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
            assert judge(data).verdict == "MALFORMED", (at, bit)


@pytest.mark.parametrize("form", [gzipped, zstd])
def test_other_compressors_are_as_good(sealed: bytes, form: Any) -> None:
    """A file that was compressed by other means has no digest at its end, and is read."""
    assert judge(form(sealed)).verdict == "CONFORMS"


@pytest.mark.parametrize("name", ["busy", "ahead"])
def test_cut_out_of_the_middle(name: str) -> None:
    """Wherever a trace of unknown start begins, nothing is judged before a state tells."""
    head, *lines = bases()[name]
    head = {k: v for k, v in head.items() if k not in ("sealed", "config_sha256")}
    for at in range(1, len(lines), 3):
        verdict = judge(unsealed([head | {"start": "unknown"}, *lines[at:-1]]))
        assert verdict.verdict == "INCONCLUSIVE" and verdict.decisions == 0
        assert "the state in which the recording began" in verdict.missing[0]
