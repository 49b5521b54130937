"""Traces of requests that want a vector, and of prompts that are embeddings."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from bases import whole
from record_again import record_all
from traces import trace_of, unsealed

from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used

ADD: dict[str, Any] = {"op": "add", "prompt": {"range": [0, 11]}, "max_tokens": 4}
SCENARIO: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 12, "max_num_batched_tokens": 8, "kv_events": True},
    "events": [
        ADD | {"id": "vector", "pooling": True},
        ADD | {"id": "tokens"},
        {"op": "run"},
    ],
}
PROFILES = ("vllm-0.22.1", "normative", "vllm-0.32.0")
Lines = list[dict[str, Any]]


def lines_of(scenario: dict[str, Any], profile: str = "vllm-0.22.1") -> Lines:
    """The lines of its trace, unsealed."""
    header, *lines = map(json.loads, trace_of(scenario, "reference", profile).splitlines())
    return [header | {"sealed": False}, *lines[:-1]]


def judged(lines: Lines) -> Verdict:
    """The verdict on them."""
    lines[0].pop("config_sha256", None)
    return check(Path("t"), stream=io.BytesIO(unsealed(lines)), deep=False)


def of_kind(lines: Lines, kind: str) -> Lines:
    """The records of that kind."""
    return [line for line in lines if line["ev"] == kind]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_vector_counts_as_what_came_and_not_as_a_token(profile: str) -> None:
    """The chunk before the last of a prompt brings none; with the vector its request ends."""
    lines = lines_of(SCENARIO, profile)
    outputs, updates = of_kind(lines, "output"), of_kind(lines, "update")
    assert [dict(zip(o["ids"], o["counts"], strict=True)).get(0) for o in outputs][:2] == [0, 1]
    assert (updates[1]["ids"][0], updates[1]["tokens"][0]) == (0, 0)
    assert updates[1]["finish"] == [{"id": 0, "reason": "stop"}]
    assert judged(lines).verdict == "CONFORMS"


def test_a_vector_that_does_not_come_is_not_guessed() -> None:
    """As in recordings that do not count vectors."""
    lines = lines_of(SCENARIO)
    of_kind(lines, "output")[1]["counts"][0] = 0
    verdict = judged(lines)
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == ["the vector of request 0, which its output does not have"]


ALTERED: dict[str, tuple[dict[str, Any], str]] = {
    "it goes on": ({"finish": []}, "UPD-50"),
    "it ends at a limit": ({"finish": [{"id": 0, "reason": "length"}]}, "UPD-50"),
    "nobody is told": ({"ids": [], "tokens": []}, "UPD-3"),
    "a token is passed on": ({"tokens": [1]}, "UPD-3"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_what_becomes_of_a_vector_is_judged(name: str) -> None:
    """Each decision about it, told otherwise, is a violation at that step."""
    scenario = SCENARIO | {"events": [SCENARIO["events"][0], {"op": "run"}]}
    lines, (fields, rule) = lines_of(scenario), ALTERED[name]
    of_kind(lines, "update")[1].update(copy.deepcopy(fields))
    verdict = judged(lines)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert (verdict.first.rule, verdict.first.step) == (rule, 2)


REFUSED = {"a grammar": "structured_output", "a session": "resumable"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nobody_has_shown_beside_a_vector_is_refused_by_name(name: str) -> None:
    """Features of one request, each of which is judged where it is alone."""
    lines = lines_of(SCENARIO)
    of_kind(lines, "add")[0]["features"] = ["pooling", REFUSED[name]]
    lines[0]["observed"] |= dict.fromkeys(("compiled", "chunk"), "complete")
    verdict = judged(lines)
    assert verdict.verdict == "INCONCLUSIVE"
    assert verdict.missing == [f"the feature {REFUSED[name]} beside a vector of request 0"]


ALONE = {
    "config": SCENARIO["config"] | {"runner_type": "pooling"},
    "events": [*SCENARIO["events"]],
}
"""A model that makes no tokens, of which some are wanted."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_model_that_makes_no_tokens_is_asked_for_none(profile: str) -> None:
    """Nor for drafts, in scenarios and in traces."""
    vector, _, run = ALONE["events"]
    config = ALONE["config"]
    with pytest.raises(OutOfScope, match=r"a request for tokens .* makes vectors"):
        lines_of(ALONE, profile)
    with pytest.raises(OutOfScope, match=r"speculative decoding .* makes vectors"):
        lines_of({"config": config | {"num_spec_tokens": 1}, "events": [vector, run]}, profile)
    lines = lines_of({"config": config, "events": [vector, run]}, profile)
    assert judged(lines).verdict == "CONFORMS"
    told = lines[0]["config"] | {"runner_type": "pooling"}
    lines[0]["config"] = told
    of_kind(lines, "add")[0].pop("features")
    missing = "tokens of a model that makes none, of request 0"
    assert judged(lines).missing == [missing]
    lines[0]["config"] = told | {"num_spec_tokens": 1}
    lines[0]["observed"]["draft"] = "complete"
    assert judged(lines).missing[0] == "drafts of a model that makes no tokens"


def test_a_prompt_may_be_as_long_as_may_be() -> None:
    """Where no place is left for a token; a front end refuses longer ones, and tokens after it."""
    whole = {"op": "add", "id": "a", "prompt": {"range": [0, 16]}, "max_tokens": 1}
    config = {"max_model_len": 16}
    alone = config | {"runner_type": "pooling"}
    longer = whole | {"prompt": {"range": [0, 17]}}
    for settings, event, is_refused in (
        (alone, whole, False),
        (alone, longer, True),
        (config, whole, True),
    ):
        asked = {"config": settings, "events": [event | {"pooling": True}, {"op": "run"}]}
        features = {feature for feature, _ in used(from_dict(asked))}
        assert (Feature.unchecked_input in features) == is_refused


@pytest.mark.parametrize("profile", PROFILES)
def test_embeddings_tell_blocks_apart(profile: str) -> None:
    """Prompts of other embeddings share no block, equal ones do: as hashes, so chain numbers."""
    prompts = [{"seed": 1}, {"seed": 2}, {"seed": 1}]
    adds = [ADD | {"id": str(n), "prompt_embeds": one} for n, one in enumerate(prompts)]
    lines = lines_of({"config": SCENARIO["config"], "events": [*adds, {"op": "run"}]}, profile)
    chains = [add["chain"] for add in of_kind(lines, "add")]
    assert chains[0] == chains[2] != chains[1]
    assert judged(lines).verdict == "CONFORMS"


RECORDED: dict[str, dict[str, Any]] = {
    "plain": {},
    "ahead": {"async_scheduling": True},
    "drafts": {"num_spec_tokens": 2},
    "drafts ahead": {"num_spec_tokens": 2, "spec_method": "eagle", "async_scheduling": True},
}


@pytest.mark.oracle
def test_a_recording_counts_vectors(oracle_python: Path, tmp_path: Path) -> None:
    """Where drafts are sampled too, and where several clients hear of it, in schedule order."""
    first, second, run = SCENARIO["events"]
    events = [first | {"client_index": 1}, second, run]
    config = SCENARIO["config"]
    documents = {
        name: {"config": config | more, "events": events} for name, more in RECORDED.items()
    }
    record_all(oracle_python, documents, tmp_path)
    for name in documents:
        path = tmp_path / f"{name}.jsonl"
        output, update = (of_kind(whole(path), kind)[1] for kind in ("output", "update"))
        assert output["counts"][output["ids"].index(0)] == 1, name
        assert (update["ids"][0], update["tokens"][0]) == (0, 0), name
        assert check(path).verdict == "CONFORMS", name
