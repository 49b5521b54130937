"""Scenarios from anywhere in the format: what arrives, each key of a request by its own dice."""

from typing import Any

from fuzz.anywhere_model import Fields

from nullblock.conformance.engine import Feature
from nullblock.conformance.lockstep.choices import Choices


class Requests:
    """Draws the requests of one scenario."""

    def __init__(self, dice: Choices, features: frozenset[Feature], config: Fields) -> None:
        self.dice, self.features, self.config = dice, features, config
        self.mixed = dice.pick((5, 15, 30, 60))
        """How likely a request has something in particular, in percent."""
        pool = config["block_size"] * (config["num_blocks"] - 1)
        self.length = dice.pick((3, 8, 20, 2 * config["max_model_len"] // 3 + 1, pool // 3))
        """About how long prompts are."""
        self.alphabet = dice.pick((1, 2, 5, 1000))
        self.has_grammars = dice.chance(30) and Feature.structured_output in features
        self.has_salts = dice.chance(30)
        self.has_wild_items = dice.chance(12) and Feature.sinks in features
        self.is_odd = dice.chance(40)
        """Whether prompts may be empty or too long, and limits strange."""
        self.oddities = dice.pick((10, 20, 50))
        """How many prompts then are, in percent."""

    def of(self, id: str) -> Fields:
        """What arrives."""
        dice, some = self.dice, self.mixed
        event: Fields = {"op": "add", "id": id, "prompt": self.prompt()}
        event["max_tokens"] = dice.pick((1, 2, 3, 5, 9, 20, 30, 90))
        if dice.chance(some):
            event["min_tokens"] = dice.integer(0, event["max_tokens"])
        if self.is_odd and dice.chance(1):
            event["max_tokens"] = dice.pick((0, -1))
        if dice.chance(some):
            event["stop"] = [dice.integer(0, 9) for _ in range(dice.integer(0, 3))]
        if dice.chance(some):
            event["eos"] = dice.integer(0, 9)
            if dice.chance(60):
                event["eos_at"] = dice.integer(0, 5)
        self.ordered(event)
        self.adapted(event)
        self.repeated(event)
        self.constrained(event)
        self.embedded(event)
        if Feature.clients in self.features and dice.chance(some / 2):
            event["client_index"] = dice.integer(0, 2)
        if dice.chance(some / 3):
            event["skip_cache_read"] = dice.pick((True, False))
        return event

    def ordered(self, event: Fields) -> None:
        """When it is its turn."""
        dice = self.dice
        likely = 60 if self.config.get("policy") == "priority" else 5
        if dice.chance(likely):
            event["priority"] = dice.integer(-1, 2)
        if dice.chance(likely / 2):
            event["arrival"] = dice.pick((0, 1, 1.5, 2, 3, 7.25))

    def adapted(self, event: Fields) -> None:
        """What else its hashes are of."""
        dice = self.dice
        if Feature.adapters not in self.features:
            return
        if dice.chance(60 if self.config.get("max_loras") else self.mixed / 3):
            event["lora"] = dice.pick(("x", "y", "z", ""))
            if dice.chance(40):
                event["lora_id"] = dice.pick((1, 2, 3, 3))
                if dice.chance(5):
                    event["lora_id"] = dice.pick((0, -1))
        if self.has_salts and dice.chance(40):
            event["salt"] = dice.pick(("", "s", "x"))

    def repeated(self, event: Fields) -> None:
        """What it ends by."""
        dice = self.dice
        if Feature.repetition in self.features and dice.chance(self.mixed / 3):
            most = dice.integer(0, 4)
            event["repetition_detection"] = {
                "max_pattern_size": most,
                "min_pattern_size": dice.integer(0, most),
                "min_count": dice.integer(2, 3),
            }
        if Feature.repetition in self.features and dice.chance(self.mixed / 3):
            event["cycle"] = [dice.integer(0, 4), dice.integer(1, 3)]

    def constrained(self, event: Fields) -> None:
        """Its grammar."""
        dice = self.dice
        if not self.has_grammars or not dice.chance(60):
            return
        grammar: Fields = {"ready": dice.chance(50)}
        if dice.chance(25):
            grammar["rejects"] = [dice.integer(0, 9) for _ in range(dice.integer(1, 4))]
        if dice.chance(25):
            grammar["reject_at"] = dice.integer(0, 6)
        if dice.chance(25):
            grammar["after"] = dice.integer(0, 4)
        event["grammar"] = grammar

    def embedded(self, event: Fields) -> None:
        """What its prompt is, if not tokens, and what stands in it."""
        dice, features = self.dice, self.features
        if Feature.prompt_embeds in features and dice.chance(self.mixed / 4):
            event["prompt_embeds"] = {"seed": dice.integer(0, 2), "with_tokens": dice.chance(50)}
        wants_vector = Feature.pooling in features and dice.chance(self.mixed / 6)
        if self.config.get("runner_type") == "pooling":
            event.pop("grammar", None)
            wants_vector = True
        if wants_vector and "grammar" not in event:
            event["pooling"] = True
        if "encoder" in self.config and dice.chance(70):
            event["mm_features"] = self.items(_length(event["prompt"]))

    def items(self, length: int) -> list[Fields]:
        """Encoder inputs of a prompt so long."""
        dice = self.dice
        if self.config["encoder"].get("is_encoder_decoder"):
            hash = dice.pick("pqrs")
            return [{"hash": hash, "offset": 0, "length": self.length_of(hash)}]
        if self.has_wild_items and dice.chance(50):
            return [self.wild_item(length) for _ in range(dice.integer(1, 4))]
        found: list[Fields] = []
        at = dice.integer(0, 2)
        while at < length and len(found) < 8:
            hash = dice.pick("pqrstu")
            item: Fields = {"hash": hash, "offset": at, "length": self.length_of(hash)}
            if at + item["length"] > length:
                break
            mask = [(ord(hash) + i) % 3 > 0 for i in range(item["length"])]
            if ord(hash) % 2 and len(mask) > 1:
                item["is_embed"] = mask
            found.append(item)
            at += item["length"] + dice.integer(0, 4)
        return found

    def wild_item(self, length: int) -> Fields:
        """One that stands anywhere, of any size."""
        size = self.dice.integer(0, 6)
        item: Fields = {
            "hash": self.dice.pick("pqrstu"),
            "offset": self.dice.integer(0, length),
            "length": size,
        }
        if self.dice.chance(40):
            item["is_embed"] = [self.dice.chance(40) for _ in range(size)]
        return item

    def length_of(self, hash: str) -> int:
        """Tokens of an item: always as many."""
        block: int = self.config["block_size"]
        return 1 + (ord(hash) * 7 + block) % 7

    def prompt(self) -> Any:
        """A prompt: often the beginning of another."""
        dice = self.dice
        n = dice.integer(1, max(self.length, 1))
        if self.is_odd and dice.chance(self.oddities):
            most = self.config["max_model_len"]
            n = dice.pick((0, 0, most, most + 1, most - 1, most + self.config["block_size"] + 1))
            n = max(n, 0)
        elif dice.chance(20):
            n = self.config["block_size"] * dice.integer(1, 4)
        base = dice.pick((0, 0, 0, 100))
        shape = dice.integer(0, 3)
        if shape == 0:
            return {"fill": dice.integer(0, 2), "n": n}
        if shape == 1 and n > 1:
            cut = dice.integer(1, n - 1)
            tail = [dice.integer(0, self.alphabet) for _ in range(n - cut)]
            return {"concat": [{"range": [base, base + cut]}, tail]}
        if shape == 2 and n < 12:
            return [dice.integer(0, self.alphabet) for _ in range(n)]
        return {"range": [base, base + n]}


def _length(prompt: Any) -> int:
    """Tokens of a prompt."""
    match prompt:
        case {"fill": _, "n": n}:
            return int(n)
        case {"range": [low, high]}:
            return int(high - low)
        case {"concat": parts}:
            return sum(map(_length, parts))
        case _:
            return len(prompt)
