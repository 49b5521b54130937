"""Plays the draft model for the real engine: who proposes what, and what is accepted of it.

The other half of ``conformance/drafting.py``, which does the same beside the engines of ours.
"""

import zlib
from typing import Any

from snapshot import Fields

RULES: Fields = {"length": "all", "to": "sampled", "fill_in": False}
"""Of the configuration's ``drafts``, what is not written there."""

Drafts = dict[str, list[int]]
Config = dict[str, Any]


class Model:
    """The model that is played: what it samples is a pure function of seed, id and position."""

    def __init__(self, config: Config) -> None:
        self.seed, self.vocab, self.accept = config["seed"], config["vocab"], config["accept"]
        self.num_draws = 0

    def token(self, id: str, position: int) -> int:
        """The token at a position of a request."""
        return zlib.crc32(f"{self.seed}:{id}:{position}".encode()) % int(self.vocab)

    def accepted(self, id: str, num_drafts: int) -> int | None:
        """How many drafts of a request are accepted in this step; None: nothing is sampled."""
        self.num_draws += 1
        match self.accept:
            case "all":
                return num_drafts
            case "none":
                return 0
            case "hash":
                text = f"acc{self.seed}:{id}:{self.num_draws}"
                return zlib.crc32(text.encode()) % (num_drafts + 1)
            case numbers:
                number = numbers[(self.num_draws - 1) % len(numbers)]
                return None if number is None else min(num_drafts, int(number))


class Proposer:
    """Feeds a scheduler with drafts, and remembers which steps in flight verify how many."""

    def __init__(self, config: Config, scheduler: Any) -> None:
        self.num_spec_tokens = config["num_spec_tokens"]
        self.rules = {**RULES, **config.get("drafts", {})}
        self.is_asked = "drafts" in config
        """Whether the lines tell what was drafted."""
        proposes = self.num_spec_tokens or self.is_asked
        if config["async_scheduling"] and not self.rules["fill_in"]:
            proposes = False  # workers draft on their own
        self.proposes = proposes and self.rules["length"] != "none"
        self.model, self.scheduler = Model(config), scheduler
        self.num_proposals = 0
        self.outputs: list[tuple[Any, dict[str, int]]] = []
        """Steps in flight, oldest first: what was scheduled, and by id how many of the drafts
        filled in later are no padding."""

    def scheduled(self, output: Any) -> None:
        """A step was scheduled."""
        self.outputs.append((output, {}))

    def num_accepted(self, id: str) -> int | None:
        """How many drafts of a request are accepted in the oldest step in flight; None: nothing
        is sampled.
        """
        output, valid = self.outputs[0]
        num_drafts = len(output.scheduled_spec_decode_tokens.get(id, ()))
        return self.model.accepted(id, valid.get(id, num_drafts)) if num_drafts else 0

    def updated(self, sampled: Drafts, by_client: Any) -> Fields:
        """The oldest step returned: propose; what the line tells, if the scenario asks for it."""
        del self.outputs[0]
        drafts = self.proposals(sampled) if self.proposes else {}
        filled: Fields = {"spec": None, "invalid": None}
        if drafts and not self.rules["fill_in"]:
            self.propose(drafts)
        elif drafts and self.outputs:
            filled = self.fill_in(drafts)
        if not self.is_asked:
            return {}
        return {"drafted": {**filled, "proposed": drafts, "stats": _stats(by_client)}}

    def told(self, drafts: Drafts, fill_in: bool) -> Fields:
        """Drafts that the scenario writes out."""
        if fill_in:
            return self.fill_in(drafts)
        self.propose(drafts)
        return {"spec": None, "invalid": None}

    def proposals(self, sampled: Drafts) -> Drafts:
        """The drafts that follow a step."""
        drafts = {}
        for id, tokens in sampled.items():
            request = self.scheduler.requests.get(id)
            if self.rules["to"] == "sampled" and (request is None or not tokens):
                continue
            length = self.length(id)
            first = 0 if request is None else request.num_tokens
            drafts[id] = [self.model.token(id, first + i) for i in range(length)]
        return drafts

    def length(self, id: str) -> int:
        """How many drafts are proposed now."""
        self.num_proposals += 1
        match self.rules["length"]:
            case "all":
                return int(self.num_spec_tokens)
            case "hash":
                text = f"len{self.model.seed}:{id}:{self.num_proposals}"
                return zlib.crc32(text.encode()) % (int(self.num_spec_tokens) + 1)
            case numbers:
                return int(numbers[(self.num_proposals - 1) % len(numbers)])

    def propose(self, drafts: Drafts) -> None:
        """Drafts for the steps to come."""
        self.scheduler.update_draft_token_ids(_ids(drafts))

    def fill_in(self, drafts: Drafts) -> Fields:
        """Drafts for the newest step in flight."""
        output, valid = self.outputs[-1]
        self.scheduler.update_draft_token_ids_in_output(_ids(drafts), output)
        scheduled, invalid = output.scheduled_spec_decode_tokens, output.num_invalid_spec_tokens
        for id in drafts:
            if scheduled.get(id) and id in self.scheduler.requests:
                valid[id] = len(scheduled[id]) - invalid.get(id, 0)
        return {"spec": scheduled, "invalid": invalid}


def _ids(drafts: Drafts) -> Any:
    """As workers hand drafts over; the lists are the scheduler's to keep and change."""
    from vllm.v1.outputs import DraftTokenIds

    return DraftTokenIds(list(drafts), [list(tokens) for tokens in drafts.values()])


def _stats(by_client: Any) -> Fields | None:
    """What an update counted of drafts."""
    for outputs in by_client.values():
        if outputs.scheduler_stats and outputs.scheduler_stats.spec_decoding_stats:
            return dict(vars(outputs.scheduler_stats.spec_decoding_stats))
    return None
