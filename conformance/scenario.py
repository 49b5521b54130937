"""Reading scenarios: strictly, and with the place and the remedy of whatever is wrong.

The format is that of the driver of the real engine (:mod:`nullblock.conformance.scenario_format`):
what it documents is read, what it does not is refused. The answer to a file is, in this order: not
JSON, then wrong types and impossible values (:class:`ScenarioError`), then features that no engine
here has (:class:`OutOfScope`).
"""

import difflib
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct

from nullblock.conformance import repetition, scope, strict_json
from nullblock.conformance.encoder_format import Encoder, Item, PromptEmbeds
from nullblock.conformance.errors import InputError, ScenarioError
from nullblock.conformance.prompts import Prompt, PromptError, parse_prompt
from nullblock.conformance.repetition import Repetition
from nullblock.conformance.scenario_format import (
    EVENTS,
    Add,
    Config,
    Connector,
    Document,
    Drafts,
    Event,
    Grammar,
    Group,
    Scenario,
    Status,
)

MAX_TOKENS = 2**24
"""Prompt tokens that all requests of a scenario may stand for together."""


def load(path: Path, name: str = "") -> Scenario:
    """The scenario in a file. Errors carry ``name``, or else the path. Raises also ``OSError``."""
    return parse(path.read_bytes(), name or str(path))


def parse(data: bytes, name: str) -> Scenario:
    """The scenario in ``data``; raises :class:`ScenarioError` or :class:`OutOfScope`."""
    try:
        scenario = _decode(strict_json.loads(data))
        scope.check(scenario)
    except InputError as error:
        raise error.at(file=name) from None
    return scenario


def from_dict(document: dict[str, Any]) -> Scenario:
    """The scenario that a document of plain JSON values writes; raises as :func:`parse` does."""
    return parse(json.dumps(document).encode(), "")


def _decode(document: Any) -> Scenario:
    try:
        decoded = msgspec.convert(document, Document, dec_hook=_prompt_hook)
    except msgspec.ValidationError as error:
        raise _explained(error, document) from None
    _check_events(decoded.events)
    written = document.get("config", {})
    watermark = ["watermark"] if written.get("watermark") is not None else []
    return Scenario(
        config=_as_built(decoded.config, written),
        events=decoded.events,
        written_config={**_DEFAULTS, **written},
        ignored=watermark + (["requests"] if decoded.requests else []),
    )


def _as_built(config: Config, written: dict[str, Any]) -> Config:
    """The configuration as an engine is built from it: an empty connector, and no adapters to be
    capped, count for none.
    """
    absent: dict[str, None] = {} if written.get("connector") else {"connector": None}
    if not config.max_loras:
        absent["max_loras"] = None
    return msgspec.structs.replace(config, **absent)


def _prompt_hook(kind: type, value: Any) -> Any:
    assert kind is Prompt, kind
    return parse_prompt(value)


_DEFAULTS: dict[str, Any] = {**msgspec.to_builtins(Config()), "groups": [{"type": "full"}]}


def _check_events(events: list[Event]) -> None:
    """What no type says: an end token to sample, patterns, and the total of all prompts."""
    total = 0
    for index, event in enumerate(events):
        if not isinstance(event, Add):
            continue
        if event.eos_at is not UNSET and event.eos is None:
            raise ScenarioError(
                "eos_at without a token to sample", 'add "eos"', f"events[{index}].eos_at"
            )
        repetition.check(event.repetition_detection, f"events[{index}].repetition_detection")
        total += len(event.prompt)
        if total > MAX_TOKENS:
            raise ScenarioError(
                f"the prompts stand for more than {MAX_TOKENS} tokens together",
                "split the scenario",
                f"events[{index}].prompt",
            )


def _explained(error: msgspec.ValidationError, document: Any) -> ScenarioError:
    """One line for what does not fit the types: place, what was found, what to write."""
    what, _, path = str(error).rpartition(" - at `$")
    what, place = (what, path.rstrip("`").removeprefix(".")) if what else (str(error), "")
    cause = error.__cause__
    if isinstance(cause, PromptError):
        return ScenarioError(str(cause), cause.remedy, place + cause.place)
    if what.startswith("Object contains unknown field"):
        key = what.partition("`")[2].removesuffix("`")
        remedy = _spelling(key, _known_keys(place, document))
        return ScenarioError(f"unknown key {key[:80]!r}", remedy, place)
    if place.endswith(".op"):
        found = _found(place, document)
        op = found if isinstance(found, str) else json.dumps(found)
        return ScenarioError(f"unknown op {op[:80]!r}", _spelling(op, list(EVENTS)), place)
    if what.startswith("Object missing required field"):
        key = what.partition("`")[2].rstrip("`")
        return ScenarioError(f"{key!r} is missing", "add it", place)
    what = what[:1].lower() + what[1:]
    if not place:
        return ScenarioError(what, 'write {"events": [...]}')
    if what.startswith("invalid enum value"):
        what = "unknown value"
    if ", got " not in what:
        what += f", got {json.dumps(_found(place, document))[:80]}"
    return ScenarioError(what, _choices(what, place), place)


def _found(place: str, document: Any) -> Any:
    """The value that stands at ``place``."""
    value = document
    for key in place.replace("[", ".[").split("."):
        value = value[int(key[1:-1])] if key.startswith("[") else value[key]
    return value


def _spelling(word: str, known: list[str]) -> str:
    """The known word that was probably meant, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"


_NESTED: tuple[tuple[str, type[Struct]], ...] = (
    ("config.encoder", Encoder),
    ("].mm_features[", Item),
    ("].prompt_embeds", PromptEmbeds),
    ("].repetition_detection", Repetition),
)
"""What stands inside of something else, by part of its place."""


def _known_keys(place: str, document: Any) -> list[str]:
    """The keys that may stand at ``place``."""
    nested = next((kind for part, kind in _NESTED if part in place), None)
    if nested is not None:
        return list(nested.__struct_encode_fields__)
    kind: type[Struct] = Document
    if place.startswith("events[") and place.endswith("].grammar"):
        kind = Grammar
    elif place.startswith("events["):
        index = int(place.removeprefix("events[").partition("]")[0])
        kind = EVENTS[document["events"][index]["op"]]
    elif place.startswith("config.groups"):
        kind = Group
    elif place.startswith("config.connector"):
        kind = Connector
    elif place.startswith("config.drafts"):
        kind = Drafts
    elif place == "config":
        kind = Config
    keys = list(kind.__struct_encode_fields__)
    return ["op", *keys] if place.startswith("events[") and kind is not Grammar else keys


_CHOICES: dict[str, Any] = {
    "policy": ("fcfs", "priority"),
    "spec_method": ("ngram", "eagle", "draft_model"),
    "hash_algo": ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"),
    "accept": ("all", "none", "hash", "a list of whole numbers"),
    "state": ("UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"),
    "type": ("full", "sliding_window", "chunked_local", "mamba", "cross_attention", "sink"),
    "status": tuple(s for s in get_args(Status) if s.startswith("FINISHED_")),
    "groups": ('[{"type": "full"}]',),
    "failure_policy": ("recompute", "fail"),
    "mamba_cache_mode": ("none", "all", "align"),
    "length": ("all", "none", "hash", "a list of whole numbers"),
    "to": ("sampled", "scheduled"),
}


def _choices(what: str, place: str) -> str:
    """What may stand at a place with a few choices."""
    if "`int`" in what or "`bool`" in what or "`str`" in what:
        return ""
    known = _CHOICES.get(place.rpartition(".")[2])
    return f"write one of {', '.join(known)}" if known else ""
