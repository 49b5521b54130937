"""Random scenarios with encoder inputs and with what else an engine tells the outside.

A pure function of the seed. Items come from few identifiers, so that requests share them; caches
are smaller than what is asked for, so that they evict; prompts are shared, so that prefixes are
hit which end within an item. Every fourth scenario has an encoder-decoder model; every fourth is
crowded, so that requests in the middle of their prompts push each other out; in a few, items
stand anywhere, in any order.
"""

import json
import random
from typing import Any

Fields = dict[str, Any]
LENGTHS = (1, 2, 3, 4, 5, 6, 8)
"""Tokens of an item, by the number of its identifier."""
PLACEHOLDER = 7
"""The token that stands for items, whichever."""


class Maker:
    """Makes one scenario."""

    def __init__(self, seed: int, num_events: int) -> None:
        self.r = random.Random(f"encoder {seed}")
        self.num_events = num_events
        self.is_decoder_only = self.chance(0.75)
        self.is_crowded = self.is_decoder_only and self.chance(0.33)
        self.is_wild = self.chance(0.08)
        self.config = self.make_config()
        self.ids: list[str] = []
        self.prefixes = [self.layout() for _ in range(6 if self.is_crowded else 3)]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.r.random() < probability

    def make_config(self) -> Fields:
        """A small engine, with room for few items."""
        r = self.r
        batched = r.choice((4, 6, 8, 12, 16, 32))
        encoder: Fields = {
            "max_num_encoder_input_tokens": r.choice((2, 4, 6, 8, 12, None)),
            "encoder_cache_size": r.choice((2, 4, 6, 8, 10, 16, None)),
            "max_tokens_per_item": r.choice((1, 4, min(8, batched))),
        }
        if self.chance(0.4):
            encoder["disable_chunked_mm_input"] = True
            encoder["max_tokens_per_item"] = min(encoder["max_tokens_per_item"], batched)
        groups = [{"type": "full"}]
        if not self.is_decoder_only:
            encoder["is_encoder_decoder"] = True
            if self.chance(0.7):
                groups.append({"type": "cross_attention"})
        if self.chance(0.25):
            encoder["external"] = [f"m{r.randrange(len(LENGTHS))}" for _ in range(r.randrange(4))]
        config: Fields = {
            "block_size": r.choice((1, 2, 2, 3, 4, 4)),
            "num_blocks": r.choice((8, 10, 12, 16, 24, 40)),
            "max_num_batched_tokens": batched,
            "max_num_seqs": r.choice((2, 3, 4, 8)),
            "max_model_len": r.choice((24, 32, 48)),
            "long_prefill_token_threshold": r.choice((0, 0, 0, 2, 5)),
            "enable_chunked_prefill": self.chance(0.8),
            "enable_prefix_caching": self.chance(0.5 if self.is_crowded else 0.8),
            "policy": r.choice(("fcfs", "priority", "priority")),
            "scheduler_reserve_full_isl": self.chance(0.5),
            "async_scheduling": self.chance(0.4),
            "queue_depth": r.choice((2, 2, 3)),
            "vocab": r.choice((2, 3, 1000)),
            "seed": r.randrange(5),
            "kv_events": self.chance(0.4),
            "use_v2_model_runner": self.chance(0.2),
            "pipeline_parallel_size": r.choice((1, 1, 2)),
            "hash_algo": r.choice(("sha256", "sha256_cbor")),
            "log_stats": self.chance(0.1),
            "groups": groups,
            "encoder": encoder,
        }
        if len(groups) > 1:
            config["enable_prefix_caching"] = False
        if self.chance(0.4):
            config["include_finished_set"] = True
        if self.chance(0.35):
            config["num_spec_tokens"] = r.randrange(1, 4)
            config["spec_method"] = r.choice(("eagle", "eagle", "ngram", "draft_model"))
        if self.is_crowded:
            crowd = {"policy": "priority", "scheduler_reserve_full_isl": False, "block_size": 2}
            crowd |= {"num_blocks": r.choice((10, 14, 18)), "max_num_seqs": 8}
            crowd |= {
                "max_num_batched_tokens": 16,
                "long_prefill_token_threshold": r.choice((3, 5)),
            }
            config |= crowd
            encoder |= {"max_num_encoder_input_tokens": r.choice((2, 3, 4, 12))}
            encoder |= {"encoder_cache_size": 16, "max_tokens_per_item": 2}
        return config

    def layout(self) -> tuple[list[int], list[Fields]]:
        """A prompt with items: text between them, or nothing."""
        r, tokens, items = self.r, list[int](), list[Fields]()
        longest = 13 if self.is_crowded else 6 + r.randrange(20)
        limit = min(self.config["max_model_len"] - 4, longest)
        while len(tokens) < limit:
            tokens += [r.randrange(3) for _ in range(r.randrange(2 if self.is_crowded else 4))]
            if self.chance(0.9 if self.is_crowded else 0.7):
                item = self.item(len(tokens))
                items.append(item)
                tokens += [PLACEHOLDER] * item["length"]
        return tokens[:limit], items

    def item(self, offset: int) -> Fields:
        """An item; one identifier has one length, and one mask, but for few scenarios."""
        r, number = self.r, self.r.randrange(len(LENGTHS))
        if self.is_crowded:
            length = r.randrange(1, 3)
            return {"hash": f"s{length}{r.randrange(20)}", "offset": offset, "length": length}
        length = LENGTHS[number] if self.chance(0.98) else r.choice(LENGTHS)
        item: Fields = {"hash": f"m{number}", "offset": offset, "length": length}
        if number in (3, 5):
            item["is_embed"] = [i % 3 != number % 2 for i in range(length)]
        elif number == 1 and self.chance(0.1):
            item["is_embed"] = [False] * length
        return item

    def prompt(self) -> tuple[list[int], list[Fields]]:
        """The front of a shared prompt, and something of its own behind it."""
        r = self.r
        tokens, items = r.choice(self.prefixes)
        cut = len(tokens) if self.is_crowded else r.randrange(1, len(tokens) + 1)
        taken = tokens[:cut] + [r.randrange(3) for _ in range(r.randrange(4))]
        return taken, [dict(item) for item in items if item["offset"] < cut]

    def add(self, id: str) -> Fields:
        """A request of any kind."""
        r = self.r
        tokens, items = self.prompt()
        event: Fields = {"op": "add", "id": id, "prompt": tokens, "max_tokens": r.randrange(1, 9)}
        if not self.is_decoder_only:
            items = [self.item(0) for _ in range(r.choice((0, 1, 1, 1, 2)))]
        if items and self.chance(0.9):
            event["mm_features"] = items
        if self.is_wild:
            event["mm_features"] = [self.item(r.randrange(40)) for _ in range(r.randrange(5))]
        if self.chance(0.08):
            event["prompt_embeds"] = {"seed": r.randrange(2), "with_tokens": self.chance(0.5)}
        if self.chance(0.1):
            event["pooling"] = True
        if self.chance(0.4):
            event["client_index"] = r.randrange(3)
        if self.chance(0.5):
            event["priority"] = r.randrange(-2, 4)
        if self.is_crowded:
            # Whoever comes later is more urgent, and finds the others in mid-prompt.
            event["priority"] = -len(self.ids)
        if self.chance(0.2):
            event["arrival"] = r.choice((0, 1, 2.5))
        if self.chance(0.15):
            event["lora"] = r.choice("XY")
        if self.chance(0.15):
            event["salt"] = r.choice("XY")
        if self.chance(0.1):
            event["skip_cache_read"] = self.chance(0.7)
        return event

    def new_id(self) -> str:
        """An id that was not used yet."""
        self.ids.append(f"{self.r.choice('abcd')}{len(self.ids)}")
        return self.ids[-1]

    def disturbance(self) -> list[Fields]:
        """Something that may happen at any time."""
        r = self.r
        match r.randrange(8):
            case 0:
                return [{"op": "reset_prefix_cache", "reset_running": self.chance(0.6)}]
            case 1:
                return [{"op": "reset_encoder_cache"}] if self.chance(0.5) else []
            case 2:
                state = r.choice(("UNPAUSED", "UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"))
                return [{"op": "pause", "state": state}, {"op": "counts"}]
            case 3:
                blocks = self.config["num_blocks"]
                return [{"op": "evict_blocks", "ids": [r.randrange(blocks) for _ in range(3)]}]
            case 4:
                return [{"op": "counts"}]
            case _ if self.ids:
                ids = None if self.chance(0.1) else [r.choice(self.ids)]
                return [{"op": "abort", "ids": ids}, {"op": "counts"}]
        return []

    def scenario(self) -> Fields:
        """The whole of it."""
        r, events = self.r, list[Fields]()
        for _ in range(r.randrange(5, self.num_events)):
            kind = r.random()
            if kind < 0.42:
                events.append(self.add(self.new_id()))
            elif kind < 0.72:
                events.append({"op": "step", "n": r.randrange(1, 5)})
            elif kind < 0.84:
                events += [{"op": "schedule"}, *self.disturbance(), {"op": "update"}]
            elif kind < 0.95:
                events += self.disturbance()
            else:
                events.append({"op": "run", "max_steps": r.choice((5, 20))})
        tail: list[Fields] = [{"op": "drain"}, {"op": "pause", "state": "UNPAUSED"}]
        events += [*tail, {"op": "run", "max_steps": 40}, {"op": "counts"}]
        return {"config": self.config, "events": events}


def encoder_scenario(seed: int, num_events: int = 40) -> Fields:
    """The scenario of that seed, decoded from JSON as it reaches the real engine."""
    made: Fields = json.loads(json.dumps(Maker(seed, num_events).scenario()))
    return made


def items_scenario(seed: int, num_events: int = 40) -> Fields:
    """The same with encoder inputs and little beside them: no encoder-decoder model or connector,
    one full-attention group, tokens in and out; and no item goes beyond its prompt.
    """
    maker = Maker(seed, num_events)
    while not maker.is_decoder_only:
        seed += 1_000_003
        maker = Maker(seed, num_events)
    made = maker.scenario()
    config = made["config"]
    config["use_v2_model_runner"] = config["log_stats"] = False
    config.pop("include_finished_set", None)
    config["encoder"].pop("external", None)
    made["events"] = [event for event in made["events"] if event["op"] != "counts"]
    for event in made["events"]:
        for key in ("prompt_embeds", "pooling", "client_index"):
            event.pop(key, None)
        if "mm_features" in event:
            event["mm_features"] = [
                item
                for item in event["mm_features"]
                if item["offset"] + item["length"] <= len(event["prompt"])
            ]
    plain: Fields = json.loads(json.dumps(made))
    return plain
