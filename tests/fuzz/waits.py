"""Random scenarios in which requests wait: adapters capped, remote KV, sessions, grammars.

Takes the product's own random scenarios and adds what makes requests wait. Much of that is only
possible at the right moment (a load can end when it has begun), so the reference plays along while
a scenario is made: what is added next depends on the state that it is in.
"""

import zlib
from typing import Any

from fuzz import drafts
from fuzz.encoder_scenarios import LENGTHS, encoder_scenario, items_scenario
from fuzz.groups import (
    with_groups,
    with_hybrid,
    with_mamba,
    with_sizes,
    with_unlike,
    with_window,
)
from fuzz.waits_play import Play

from nullblock.conformance.engine import ALL_FEATURES, CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Choices, Seeded
from nullblock.conformance.lockstep.generator import make

Event = dict[str, Any]
Scenario = dict[str, Any]
KINDS = {
    "lora": Feature.lora_cap,
    "connector": Feature.kv_connector,
    "streaming": Feature.streaming,
    "grammar": Feature.structured_output,
}


class Waits:
    """Adds waiting to one scenario."""

    lossy_groups = 3
    """Of a hundred reports of workers, in how many blocks of several groups were not loaded: vLLM
    raises for one, which ends the scenario.
    """

    def __init__(
        self, ask: Choices, base: Scenario, features: frozenset[Feature] = ALL_FEATURES
    ) -> None:
        kinds = [kind for kind, feature in KINDS.items() if feature in features]
        self.ask, self.base = ask, base
        self.config: dict[str, Any] = base["config"]
        self.kinds = {ask.pick(kinds)} | {kind for kind in kinds if ask.chance(30)}
        self.adds = [event for event in base["events"] if event["op"] == "add"]

    def scenario(self) -> Scenario:
        """The base with configuration and arrivals that wait, and with events while it plays."""
        ask = self.ask
        self.settle()
        play = Play({"config": self.config, "events": []})
        for event in self.base["events"]:
            if event["op"] == "add":
                event = self.waiting(event)
            for part in self.parts(event):
                if part.get("reset_running") and play.blocks_are_kept() and not ask.chance(5):
                    continue
                if not play.take(part):
                    break
                if ask.chance(35):
                    play.take(self.something(play))
            if play.is_over:
                break
        return {"config": self.config, "events": play.events}

    def settle(self) -> None:
        """The configuration."""
        ask, config = self.ask, self.config
        if "lora" in self.kinds:
            config["max_loras"] = ask.pick((1, 1, 2, 3))
        if "connector" in self.kinds:
            ids = [event["id"] for event in self.adds]
            some = [id for id in ids if ask.chance(50)]
            config["connector"] = {
                "matched": {id: self.num_matched() for id in ids if ask.chance(60)},
                "async": ask.pick((True, True, some, False)),
                "delay_free": ask.pick((False, False, some, True)),
                "failure_policy": ask.pick(("recompute", "fail")),
            }
            if len(config.get("groups", ())) > 1 and not ask.chance(5):
                config["connector"]["all_groups"] = True

    def num_matched(self) -> int | None:
        """How much of a request the remote side holds."""
        ask = self.ask
        return None if ask.chance(20) else ask.pick((4, 8, 1, 16, 5, 99, 0))

    def waiting(self, event: Event) -> Event:
        """An arrival that may wait for something."""
        ask = self.ask
        event = dict(event)
        if "lora" in self.kinds:
            if event.get("lora_id", 0) is None:
                del event["lora_id"]
            if ask.chance(65):
                event["lora"], event["lora_id"] = ask.pick(
                    (("A", 1), ("B", 2), ("C", 3), ("B2", 2), ("Z", 0), ("Y", 0), ("N", -1))
                )
        if "streaming" in self.kinds and ask.chance(60):
            event["resumable"] = True
            event["max_tokens"] = max(event.get("min_tokens", 0), ask.integer(1, 6))
        if "grammar" in self.kinds and ask.chance(60):
            event["grammar"] = self.grammar()
        return event

    def grammar(self) -> dict[str, Any]:
        """A grammar that often is not compiled yet, and seldom rejects."""
        ask = self.ask
        grammar: dict[str, Any] = {"ready": ask.chance(50)}
        if ask.chance(15):
            grammar["rejects"] = [ask.integer(0, 4)]
        if ask.chance(25):
            grammar["reject_at"] = ask.integer(0, 8)
        if ask.chance(20):
            grammar["after"] = ask.integer(1, 3)
        return grammar

    def parts(self, event: Event) -> list[Event]:
        """Single steps instead of several, so that something may happen in between."""
        if event["op"] == "step":
            return [{"op": "step"}] * int(event.get("n", 1))
        if event["op"] == "run" and self.ask.chance(70):
            return [{"op": "step"}] * min(12, int(event.get("max_steps", 12)))
        return [event]

    def something(self, play: Play) -> Event:
        """What may happen around the engine, in the state that it is in."""
        ask = self.ask
        choices: list[Event] = []
        if "connector" in self.kinds:
            choices += [self.report(play)] * 3
            if play.known():
                id = ask.pick(play.known())
                choices.append({"op": "kv_match", "matched": {id: self.num_matched()}})
        if "streaming" in self.kinds and play.sessions():
            choices += [self.chunk(ask.pick(play.sessions()))] * 2
        if "grammar" in self.kinds:
            ids = [id for id in play.known() if ask.chance(50)]
            choices += [{"op": "grammar_ready", "ids": ids}] * 2
        return ask.pick(choices) if choices else {"op": "step"}

    def report(self, play: Play) -> Event:
        """Workers report: some loads have ended, some blocks were sent, some were not loaded."""
        ask = self.ask
        event: Event = {"op": "kv_done"}
        kept = play.kept()
        recv = [id for id in play.loading() if ask.chance(60)]
        recv += [id for id in kept if ask.chance(20)]
        send = [id for id in kept if id not in recv and ask.chance(60)]
        if recv:
            event["recv"] = recv
        if send:
            event["send"] = send
        # The null block is nobody's, and is never loaded.
        tables = [table for table in play.tables() if any(table)]
        several = len(self.config.get("groups", ())) > 1
        if tables and ask.chance(self.lossy_groups if several else 35):
            picked = [ask.pick(ask.pick(tables)) for _ in range(ask.pick((1, 1, 2, 4)))]
            event["invalid"] = sorted(set(picked) - {0})
        if ask.chance(0.5) and play.known():
            event["recv"] = [ask.pick(play.known())]
        return event

    def chunk(self, id: str) -> Event:
        """The next chunk of a session, or its end."""
        ask = self.ask
        event: Event = {"op": "add", "id": id, "prompt": [], "resumable": True}
        if ask.chance(20):
            return {**event, "resumable": False, "prompt": [1]}
        length = ask.integer(0 if ask.chance(3) else 1, 2 * int(self.config["block_size"]))
        start = 1000 * ask.pick((0, 1, 5))
        event["prompt"] = {"range": [start, start + length]}
        event["max_tokens"] = ask.integer(1, 6)
        if ask.chance(30):
            event["arrival"] = ask.pick((0, 1, 2.5, 50))
        if ask.chance(15):
            event["stop"] = [ask.integer(0, 4)]
        return event


class EncoderWaits(Waits):
    """Adds waiting to a scenario with encoder inputs; in a few, later chunks of sessions have some
    too.
    """

    def settle(self) -> None:
        """The configuration; drafts of any length, which grammars may reject."""
        super().settle()
        if self.config.get("num_spec_tokens"):
            ahead = self.config["async_scheduling"]
            length = self.ask.pick(("all", "hash", [2, 0, 1]))
            self.config["drafts"] = {"length": length, "fill_in": ahead and self.ask.chance(80)}
        self.shows_later = self.ask.chance(10)

    def waiting(self, event: Event) -> Event:
        """An arrival that may wait for something; no session of embeddings or of vectors."""
        made = super().waiting(event)
        if made.get("pooling") or made.get("prompt_embeds"):
            made.pop("resumable", None)
            made.pop("grammar", None)
        return made

    def chunk(self, id: str) -> Event:
        """The next chunk of a session, or its end."""
        event, ask = super().chunk(id), self.ask
        if self.shows_later and event["resumable"] and ask.chance(60):
            number, decodes = ask.integer(0, len(LENGTHS) - 1), "is_encoder_decoder"
            item = {"hash": f"m{number}", "offset": 0, "length": LENGTHS[number]}
            if not self.config["encoder"].get(decodes):
                item["offset"] = ask.integer(0, 3)
            event["mm_features"] = [item]
        return event


def give_clients(ask: Choices, base: Scenario) -> None:
    """Clients that are told of the ends of their requests."""
    base["config"]["include_finished_set"] = True
    for event in base["events"]:
        if event["op"] == "add":
            event["client_index"] = ask.integer(0, 2)


def with_sessions(seed: str, size: int = 30, policy: str = "fcfs") -> Scenario:
    """The scenario of a seed with sessions, with drafts or without, with groups, windows or
    encoder inputs; at times with adapters that are capped, or with grammars.
    """
    ask = Seeded(f"sessions:{seed}")
    features = CORE_FEATURES - {Feature.priority} | {Feature.streaming}
    if policy == "priority":
        features |= {Feature.priority}
    match ask.integer(0, 99):
        case n if n < 25:
            base = drafts.seeded(seed, size, features | {Feature.drafts})
        case n if n < 35:
            base = with_window(seed, size)
        case n if n < 50:
            base = with_hybrid(seed, size, eagle=0.1)
        case n if n < 65:
            base = items_scenario(zlib.crc32(seed.encode()), size)
        case _:
            base = make(ask, size, features)
    config = base["config"]
    config["policy"] = policy
    if ask.chance(20):
        config["use_v2_model_runner"] = True
    waits = _kind_of(base)(ask, base, frozenset({Feature.streaming}))
    waits.kinds |= {kind for kind in ("lora", "grammar") if ask.chance(15)}
    return waits.scenario()


def _kind_of(base: Scenario) -> type[Waits]:
    return EncoderWaits if base["config"].get("encoder") else Waits


def seeded(seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a seed, for engines that do all of these features."""
    ask = Seeded(f"waits:{seed}")
    bases = ask.integer(0, 99) if features == ALL_FEATURES else 99
    match bases:
        case n if n < 10:
            base = with_groups(seed, size)
        case n if n < 20:
            base = drafts.seeded(seed, size)
        case n if n < 30:
            base = encoder_scenario(zlib.crc32(seed.encode()))
        case _:
            base = make(ask, size, CORE_FEATURES)
    return Waits(ask, base, features).scenario()


def with_loaded_sessions(seed: str, size: int = 30) -> Scenario:
    """The scenario of a seed with streaming sessions beside a connector."""
    ask = Seeded(f"loaded sessions:{seed}")
    if ask.chance(25):
        base = drafts.seeded(seed, size, CORE_FEATURES | {Feature.drafts})
    else:
        base = make(ask, size, CORE_FEATURES)
    kinds = frozenset({Feature.kv_connector, Feature.streaming, Feature.lora_cap})
    made = Waits(ask, base, kinds)
    made.kinds |= {"connector", "streaming"}
    return made.scenario()


def with_connector(
    seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """The scenario of a seed in which there is a connector: beside a cap or grammars, drafts,
    encoder inputs, a window, chunks, several groups, or several clients.
    """
    ask = Seeded(f"remote:{seed}")
    kinds = {Feature.kv_connector} | ({Feature.lora_cap, Feature.structured_output} & features)
    match ask.integer(0, 99):
        case n if n < 25 and Feature.drafts in features:
            base = drafts.seeded(seed, size, CORE_FEATURES | {Feature.drafts})
        case n if 25 <= n < 40 and Feature.encoder_inputs in features:
            base = items_scenario(zlib.crc32(seed.encode()), size)
        case n if 70 <= n < 85 and Feature.windows in features:
            base = with_window(seed, size)
        case n if n >= 85 and {Feature.hybrid, Feature.block_sizes} <= features:
            base = with_hybrid(seed, size, eagle=0.1)
        case _:
            base = make(ask, size, CORE_FEATURES)
    if Feature.clients in features and ask.chance(25):
        give_clients(ask, base)
    only = CORE_FEATURES | ({Feature.kv_connector} if ask.chance(70) else kinds)
    made = _kind_of(base)(ask, base, frozenset(only))
    made.kinds.add("connector")
    scenario = made.scenario()
    if zlib.crc32(f"role:{seed}".encode()) % 5 == 0:
        # Later lines ask whether it loads while steps overlap.
        scenario["config"]["connector"]["kv_role"] = "kv_producer"
    if zlib.crc32(f"delivers:{seed}".encode()) % 3 == 0:
        scenario["config"]["connector"]["requires_kv_delivery"] = True
    return scenario


def with_kinds(seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a seed on a model with kinds of layers that may not agree on a hit, beside a
    connector or without one.
    """
    ask = Seeded(f"kinds:{seed}")
    base = with_unlike(seed, size, features)
    if Feature.kv_connector not in features or ask.chance(50):
        return base
    made = _kind_of(base)(ask, base, CORE_FEATURES | {Feature.kv_connector})
    made.kinds.add("connector")
    return made.scenario()


def with_dropped(
    seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """The scenario of a seed in which a lookup drops what it hits last, of blocks of several
    sizes, beside a connector, sessions or neither.
    """
    ask = Seeded(f"dropped:{seed}")
    base = with_sizes(seed, size)
    kind = ask.pick(("connector", "streaming", "", ""))
    if not kind or KINDS[kind] not in features:
        return base
    made = _kind_of(base)(ask, base, CORE_FEATURES | {KINDS[kind]})
    made.kinds.add(kind)
    return made.scenario()


def beside_models(
    seed: str, size: int = 30, features: frozenset[Feature] = ALL_FEATURES
) -> Scenario:
    """The scenario of a seed in which requests wait, in any way, beside any model: with Mamba
    layers, sinks, windows, chunks, several groups, or encoder inputs, with drafts or without.
    """
    ask = Seeded(f"models:{seed}")
    number = zlib.crc32(seed.encode())
    match ask.integer(0, 5):
        case 0:
            base = with_groups(seed, size)
        case 1:
            base = with_mamba(seed, size, features)
        case 2:
            base = with_hybrid(seed, size)
        case 3:
            base = encoder_scenario(number, size)
        case 4:
            base = _items_beside_groups(ask, seed, size)
        case _:
            base = drafts.seeded(seed, size, CORE_FEATURES | {Feature.drafts})
    return _kind_of(base)(ask, base, features).scenario()


def _items_beside_groups(ask: Choices, seed: str, size: int) -> Scenario:
    """A decoder with encoder inputs and layers that see a part of the past, or several groups."""
    base = items_scenario(zlib.crc32(seed.encode()), size)
    other = with_window(seed, size) if ask.chance(50) else with_hybrid(seed, size, eagle=0.1)
    for key in ("groups", "block_size", "num_blocks", "enable_prefix_caching"):
        base["config"].pop(key, None)
        if key in other["config"]:
            base["config"][key] = other["config"][key]
    return base
