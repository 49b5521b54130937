"""Random scenarios over the whole scope, a pure function of their seed.

Most are busy: prompts fit, but not all at once, so that requests preempt each other, resume and
hit each other's prefixes. The rest are wild: any prompt in any pool, most of which get stuck.
Those that are ahead have several steps in flight, most of them asynchronously.
"""

import json
import random
from typing import Any

PREFIXES = 3
NAMES = ("X", "Y", "XY")
ENDS = ("FINISHED_ABORTED", "FINISHED_STOPPED", "FINISHED_ERROR", "FINISHED_LENGTH_CAPPED")
PAUSES = ("UNPAUSED", "UNPAUSED", "PAUSED_NEW", "PAUSED_ALL")


class Generator:
    """Makes one scenario."""

    def __init__(self, seed: int, ahead: bool) -> None:
        self.r = random.Random(seed)
        self.ahead = ahead
        self.busy = self.chance(0.75)
        self.config = self.make_config()
        self.ids: list[str] = []
        length = self.config["max_model_len"] + 8
        self.prefixes = [[self.r.randrange(3) for _ in range(length)] for _ in range(PREFIXES)]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.r.random() < probability

    def make_config(self) -> dict[str, Any]:
        """A small engine."""
        r, busy = self.r, self.busy
        chunked = self.chance(0.75)
        budgets = (4, 6, 8, 12, 16, 24, 32, 64) if busy else (1, 2, 3, 5, 8, 16, 40, 128)
        config = {
            "block_size": r.choice((1, 1, 2, 2, 3, 4, 4, 8)),
            "num_blocks": r.choice(
                (5, 6, 7, 8, 9, 10, 12, 16) if busy else (1, 2, 3, 4, 7, 12, 40)
            ),
            "max_model_len": r.choice((24, 32, 48, 64, 100) if busy else (4, 8, 12, 16, 32, 64)),
            "max_num_batched_tokens": r.choice(budgets) if chunked or not busy else 128,
            "max_num_scheduled_tokens": None if self.chance(0.9) else r.choice((0, 3, 10, 40)),
            "max_num_seqs": r.choice((3, 4, 8, 8) if busy else (1, 2, 3, 8)),
            "long_prefill_token_threshold": r.choice((0, 0, 0, 1, 2, 3, 4, 8)),
            "enable_chunked_prefill": chunked,
            "enable_prefix_caching": self.chance(0.85),
            "policy": r.choice(("fcfs", "priority", "priority")),
            "scheduler_reserve_full_isl": self.chance(0.5),
            "hash_algo": r.choice(("sha256", "sha256", "sha256_cbor")),
            "hash_seed": str(r.randrange(3)),
            "vocab": r.choice((2, 3, 5, 1000)),
            "seed": r.randrange(5),
            "log_stats": self.chance(0.2),
            "pipeline_parallel_size": r.choice((1, 1, 1, 2)),
            "use_v2_model_runner": self.chance(0.15),
        }
        if self.ahead:
            config["async_scheduling"] = self.chance(0.7)
            config["queue_depth"] = r.choice((2, 2, 3, 4))
            config["kv_events"] = self.chance(0.6)
        return config

    def prompt(self) -> list[int]:
        """Mostly a shared prefix; now and then a length that is at a limit or beyond."""
        r, limit = self.r, self.config["max_model_len"]
        if self.chance(0.01):
            return [r.randrange(5) for _ in range(r.choice((0, limit, limit + 1, limit + 5)))]
        room = limit - 2
        if self.busy:
            slots = (self.config["num_blocks"] - 1) * self.config["block_size"]
            room = min(room, int(slots * 0.7))
        tokens = r.choice(self.prefixes)[: r.randrange(1, max(2, room))]
        if self.chance(0.4):
            tokens = tokens + [r.randrange(5) for _ in range(r.randrange(5))]
        return tokens[: max(1, room)]

    def add(self, name: str) -> dict[str, Any]:
        """A request."""
        r = self.r
        max_tokens = r.randrange(1, r.choice((4, 9, 14, 22)))
        event: dict[str, Any] = {
            "op": "add",
            "id": name,
            "prompt": self.prompt(),
            "max_tokens": max_tokens,
        }
        if self.chance(0.2):
            event["min_tokens"] = r.randrange(max_tokens + 1)
        if self.chance(0.5):
            event["priority"] = r.randrange(-2, 4)
        if self.chance(0.3):
            event["arrival"] = r.choice((0, 1, 2, 2.5, 3, 7))
        if self.chance(0.3):
            event["lora"] = r.choice(NAMES)
        if self.chance(0.3):
            event["salt"] = r.choice(NAMES)
        if self.chance(0.25):
            event["stop"] = [r.randrange(4) for _ in range(r.randrange(4))]
        if self.chance(0.25):
            event["eos"] = r.randrange(4)
            event["eos_at"] = r.randrange(7)
        if self.chance(0.1):
            event["skip_cache_read"] = self.chance(0.7)
        return event

    def new_name(self) -> str:
        """An id that has not been used; its order says nothing about its age."""
        name = f"{self.r.choice('abcdefgh')}{len(self.ids)}"
        self.ids.append(name)
        return name

    def disturbance(self) -> list[dict[str, Any]]:
        """Something that may happen at any time, between halves of a step as well."""
        r = self.r
        match r.randrange(6):
            case 0:
                return [{"op": "reset_prefix_cache", "reset_running": self.chance(0.5)}]
            case 1:
                return [{"op": "pause", "state": r.choice(PAUSES)}]
            case 2:
                blocks = self.config["num_blocks"]
                return [{"op": "evict_blocks", "ids": [r.randrange(blocks) for _ in range(4)]}]
            case 3 if self.ids and (not self.ahead or self.chance(0.2)):
                name = r.choice(self.ids)
                # At once again under the same id: an output in flight finds a new owner.
                return [{"op": "abort", "ids": [name]}, self.add(name)]
            case _ if self.ids:
                ids = None if self.chance(0.1) else [r.choice(self.ids)]
                return [{"op": "abort", "ids": ids, "status": r.choice(ENDS)}]
        return []

    def events(self) -> list[dict[str, Any]]:
        """Arrivals, steps and disturbances; at the end everything may run out."""
        r = self.r
        events: list[dict[str, Any]] = []
        for _ in range(r.randrange(5, 50)):
            kind = r.random()
            if kind < 0.38:
                reuse = self.ids and self.chance(0.015)
                events.append(self.add(r.choice(self.ids) if reuse else self.new_name()))
            elif kind < 0.75:
                events.append({"op": "step", "n": r.randrange(1, 5)})
            elif kind < 0.86 and self.ahead:
                for _ in range(r.randrange(1, 5)):
                    events += [
                        {"op": "schedule"},
                        *(self.disturbance() if r.random() < 0.5 else []),
                    ]
                events += [{"op": "update"}] * r.randrange(3) or [{"op": "drain"}]
            elif kind < 0.86:
                events += [{"op": "schedule"}, *self.disturbance(), {"op": "drain"}]
            elif kind < 0.96:
                events += self.disturbance()
            else:
                events.append({"op": "run", "max_steps": r.choice((5, 20))})
        drain = [{"op": "drain"}] if self.ahead else []
        unpause = {"op": "pause", "state": "UNPAUSED"}
        return [*events, *drain, unpause, {"op": "run", "max_steps": 60}]


def random_scenario(seed: int, ahead: bool = False) -> dict[str, Any]:
    """The scenario of that seed; with several steps in flight if it is to be ahead.

    By way of JSON, as it reaches the real engine: pickled block hashes tell one string used twice
    from two equal strings, so an adapter and a salt of one name must be two objects here too.
    """
    generator = Generator(seed, ahead)
    scenario = {"config": generator.config, "events": generator.events()}
    decoded: dict[str, Any] = json.loads(json.dumps(scenario))
    return decoded
