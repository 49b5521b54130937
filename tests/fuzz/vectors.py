"""Random scenarios of a model that makes vectors and no tokens.

Those of other families, whose requests all want a vector: of one group of layers, of several, with
encoder inputs, with adapters that are capped or a connector. Some prompts are as long as may be.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from fuzz import waits
from fuzz.contract import with_contract
from fuzz.encoder_scenarios import encoder_scenario
from fuzz.groups import with_hybrid

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.prompts import parse_prompt

Scenario = dict[str, Any]
Features = frozenset[Feature]
NEEDS = CORE_FEATURES | {
    *(Feature.pooling, Feature.encoder_inputs, Feature.hybrid, Feature.block_sizes),
    *(Feature.kv_connector, Feature.prompt_embeds, Feature.v2_model_runner, Feature.counts),
    *(Feature.clients, Feature.drafts),
}
"""What engines have to do for it."""
OF_TOKENS = ("grammar", "resumable", "repetition_detection", "cycle", "eos", "eos_at", "stop")
"""Keys of requests that no request for a vector has; for outputs there are others."""
MUST_REACH = {
    "a vector",
    "a vector ahead",
    "a vector of the longest prompt",
    "a vector of the longest prompt in chunks",
}


def with_vectors(key: str, size: int, features: Features) -> Scenario:
    """The scenario of that key, with what these features allow."""
    dice = random.Random(f"vectors {key}")
    makers: tuple[Callable[[], Scenario], ...] = (
        lambda: with_contract(key, size, features),
        lambda: with_hybrid(key, size),
        lambda: encoder_scenario(dice.randrange(1 << 30), size),
        lambda: waits.with_connector(key, size, features),
    )
    made = dice.choice(makers)()
    config = made["config"]
    config["runner_type"] = "pooling"
    for name in ("num_spec_tokens", "spec_method", "drafts", "accept"):
        config.pop(name, None)
    config["async_scheduling"] = dice.random() < 0.6
    config["max_model_len"] = longest = min(
        config.get("max_model_len", 256), dice.choice((9, 16, 31, 48))
    )
    made["events"] = [
        {k: v for k, v in event.items() if k not in OF_TOKENS}
        for event in made["events"]
        if event["op"] not in ("draft", "grammar_ready")
    ]
    for event in made["events"]:
        if event["op"] != "add":
            continue
        event["pooling"] = True
        event.pop("min_tokens", None)
        tokens = parse_prompt(event["prompt"]).tokens()
        if dice.random() < 0.3 or len(tokens) > longest:
            more = [dice.randrange(3) for _ in range(longest - len(tokens))]
            event["prompt"] = tokens[:longest] + more
    plain: Scenario = json.loads(json.dumps(made))
    return plain


def reached(document: Scenario, lines: list[str]) -> set[str]:
    """What of :data:`MUST_REACH` the lines show."""
    found: set[str] = set()
    longest = document["config"]["max_model_len"]
    ahead = document["config"]["async_scheduling"]
    whole = {
        event["id"]
        for event in document["events"]
        if event["op"] == "add" and len(parse_prompt(event["prompt"])) == longest
    }
    parts: dict[str, int] = {}
    for line in map(json.loads, lines):
        if line["ev"] == "schedule":
            for id in line["order"]:
                parts[id] = parts.get(id, 0) + 1
        for output in line["outputs"] if line["ev"] == "update" else ():
            if output["finish"] != "stop":
                continue
            found |= {"a vector"} | ({"a vector ahead"} if ahead else set())
            if output["id"] in whole:
                found.add("a vector of the longest prompt")
                if parts.get(output["id"], 0) > 1:
                    found.add("a vector of the longest prompt in chunks")
    return found
