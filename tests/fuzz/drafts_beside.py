"""Random scenarios with drafts beside another feature: hybrid models, grammars, whoever waits."""

from fuzz import drafts
from fuzz.groups import Groups, first_built, give_each, num_slots, with_hybrid
from fuzz.waits import Scenario, Waits

from nullblock.conformance.engine import ALL_FEATURES, Feature
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


def waiting(key: str, size: int, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a key with requests that wait for something else than their turn, for
    engines that do all of these features.
    """
    ask = Seeded(key)
    if features == ALL_FEATURES:
        base = hybrid(key, size) if ask.chance(20) else drafts.make(ask, size)
    elif ask.chance(20) and Feature.hybrid in features:
        base = with_hybrid(key, size)
    else:
        base = drafts.make(ask, size, features)
    return Waits(ask, base, features).scenario()


def grammars(key: str, size: int, features: frozenset[Feature] = ALL_FEATURES) -> Scenario:
    """The scenario of a key in which drafts are proposed for requests with a grammar, for engines
    that do all of these features.
    """
    ask = Seeded(f"grammars:{key}")
    base = drafts.make(ask, size, features)
    if base["config"].get("async_scheduling") and ask.chance(60):
        base["config"].setdefault("drafts", {})["fill_in"] = True
    waits = Waits(ask, base, frozenset({Feature.structured_output, Feature.lora_cap}))
    waits.kinds.add("grammar")
    return waits.scenario()
