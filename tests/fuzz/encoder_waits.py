"""Scenarios with encoder inputs in which requests wait: sessions, remote KV, caps, grammars."""

from fuzz.encoder_scenarios import LENGTHS, encoder_scenario
from fuzz.waits import Event, Scenario, Waits

from nullblock.conformance.lockstep.choices import Seeded


class EncoderWaits(Waits):
    """Adds waiting to a scenario with encoder inputs; chunks of sessions have some too."""

    def settle(self) -> None:
        """The configuration; drafts of any length, which grammars may reject."""
        super().settle()
        if self.config.get("num_spec_tokens"):
            ahead = self.config["async_scheduling"]
            length = self.ask.pick(("all", "hash", [2, 0, 1]))
            self.config["drafts"] = {"length": length, "fill_in": ahead and self.ask.chance(80)}

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
        if event["resumable"] and ask.chance(60):
            number, decodes = ask.integer(0, len(LENGTHS) - 1), "is_encoder_decoder"
            item = {"hash": f"m{number}", "offset": 0, "length": LENGTHS[number]}
            if not self.config["encoder"].get(decodes):
                item["offset"] = ask.integer(0, 3)
            event["mm_features"] = [item]
        return event


def encoder_waits(seed: int, num_events: int = 40) -> Scenario:
    """The scenario of that seed."""
    ask = Seeded(f"encoder waits:{seed}")
    return EncoderWaits(ask, encoder_scenario(seed, num_events)).scenario()
