"""Random scenarios with speculative decoding: those of the generator, and drafts in them.

Aimed at what a plain run seldom meets: drafts that a budget, a threshold or a length limit cuts,
proposals of any length or none, rejections that arrive after a preemption or a reset, drafts for
requests that wait, compute a chunk, or are gone, and drafts filled in while their step is in
flight.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

from nullblock.conformance.engine import Feature
from nullblock.conformance.lockstep.choices import Choices, Seeded
from nullblock.conformance.lockstep.configurations import NONE
from nullblock.conformance.lockstep.generator import Event, Generator, Scenario

ACCEPTS = ("hash", "hash", "all", "none", [0, 1, 2], [3, 0], [1, None, 2])
LENGTHS = ("all", "hash", "hash", "none", [2, 0, 1], [0], [5, 1])
METHODS = ("eagle", "draft_model", "ngram", "eagle")


class Drafting(Generator):
    """Makes one scenario with drafts."""

    def scenario(self) -> Scenario:
        """A scenario of the product's, with drafts wherever they fit."""
        made = super().scenario()
        if Feature.drafts not in self.features:
            return made
        ask, config = self.ask, made["config"]
        config["num_spec_tokens"] = ask.pick((3, 1, 2, 5, 3, 8, 0))
        config["spec_method"] = ask.pick(METHODS)
        accept = ask.pick(ACCEPTS)
        speaks = Feature.silence in self.features or None not in list(accept)
        config["accept"] = accept if speaks else "hash"
        if ask.chance(15):
            config["groups"] = [{"type": "full", "eagle": True}]
        if ask.chance(60):
            config["drafts"] = self.rules()
            config["log_stats"] = ask.chance(60)
        if config.get("long_prefill_token_threshold") and ask.chance(60):
            del config["long_prefill_token_threshold"]  # else nobody gets more than a few drafts
        if config["max_num_batched_tokens"] < 8 and ask.chance(60):
            config["max_num_batched_tokens"] = ask.pick((16, 24))
        if ask.chance(40):
            made["events"] = [e for event in made["events"] for e in self.with_drafts(event)]
        return made

    def rules(self) -> dict[str, Any]:
        """How drafts are proposed: what is left out has its default."""
        ask = self.ask
        rules: dict[str, Any] = {}
        if ask.chance(70):
            rules["length"] = ask.pick(LENGTHS)
        if ask.chance(55):
            rules["to"] = "scheduled"
        if ask.chance(75 if self.is_ahead else 8):
            rules["fill_in"] = True
        return rules

    def with_drafts(self, event: Event) -> list[Event]:
        """An event, and drafts after it that a scenario writes out."""
        ask = self.ask
        if event["op"] in ("step", "run") or not ask.chance(12):
            return [event]
        ids = {self.known_id() for _ in range(ask.integer(1, 3))}
        most = ask.pick((2, 4, 7))
        drafts: Event = {
            "op": "draft",
            "tokens": {id: [ask.integer(0, 4)] * ask.integer(0, most) for id in sorted(ids)},
        }
        if event["op"] == "schedule" and ask.chance(50):
            drafts["fill_in"] = True
        return [event, drafts]


def make(
    choices: Choices,
    size: int,
    features: frozenset[Feature],
    wanted: frozenset[Feature] = NONE,
) -> Scenario:
    """A scenario. ``size`` bounds the number of groups of events.

    Without resets no id is used again either: scheduling ahead, vLLM seldom survives that.
    """
    made = Drafting(choices, size, features, wanted).scenario()
    if Feature.reset not in features:
        made["events"] = list(_under_new_names(made["events"]))
    return cast(Scenario, json.loads(json.dumps(made)))


def seeded(
    seed: str,
    size: int,
    features: frozenset[Feature],
    wanted: frozenset[Feature] = NONE,
) -> Scenario:
    """The scenario of a seed."""
    return make(Seeded(seed), size, features, wanted)


def _under_new_names(events: list[Event]) -> Iterator[Event]:
    """The events with another id for each request that would reuse one."""
    used: Counter[str] = Counter()
    for event in events:
        if event["op"] == "add":
            used[event["id"]] += 1
            event = {**event, "id": event["id"] + "'" * (used[event["id"]] - 1)}
        yield event
