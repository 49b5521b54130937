"""Random scenarios with drafts beside another feature: hybrid models, requests that wait."""

from fuzz import drafts
from fuzz.groups import Groups, first_built, give_each, num_slots
from fuzz.waits import Scenario, Waits

from nullblock.conformance.lockstep.choices import Seeded


def hybrid(key: str, size: int) -> Scenario:
    """The scenario of a key on a hybrid model: the first that can be built."""

    def draw(attempt: str) -> Scenario:
        scenario = drafts.seeded(attempt, size)
        config = scenario["config"]
        config["groups"] = Groups(attempt, config).draw()
        give_each(config, num_slots(config))
        return scenario

    return first_built(key, draw)


def waiting(key: str, size: int) -> Scenario:
    """The scenario of a key with requests that wait for something else than their turn."""
    ask = Seeded(key)
    base = hybrid(key, size) if ask.chance(20) else drafts.make(ask, size)
    return Waits(ask, base).scenario()
