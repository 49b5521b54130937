"""Families of scenarios: each stresses one feature, so that a failure says where to look."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep import drafts, generator

Features = frozenset[Feature]
CHECKED = CORE_FEATURES - {Feature.unchecked_input}


@dataclass(frozen=True, slots=True)
class Family:
    """What scenarios ask for, as far as an engine does it."""

    name: str
    about: str
    needs: Features = frozenset()
    """Without these the family makes no sense; its scenarios have them wherever they can."""
    also: Features = frozenset()
    """What its scenarios may have besides."""
    seeded: Callable[[str, int, Features, Features], dict[str, Any]] = generator.seeded
    """The scenario of a seed and a size, with these features, and the latter wherever they can."""

    def lacking(self, features: Features) -> list[str]:
        """What it needs and the engine does not do, by name."""
        return sorted(feature.value for feature in self.needs - features)

    def of(self, features: Features) -> Features:
        """What its scenarios may ask an engine for that does these."""
        return (self.needs | self.also) & features


FAMILIES = (
    Family("fcfs", "who runs, waits and is preempted: first come, first served"),
    Family("priority", "the same by priority", frozenset({Feature.priority})),
    Family(
        "prefix-caching",
        "hits, evictions, adapters, salts",
        frozenset({Feature.prefix_caching}),
        frozenset({Feature.adapters, Feature.evict}),
    ),
    Family(
        "chunked-prefill",
        "budgets and thresholds, with chunked prefill on and off",
        frozenset({Feature.unchunked}),
    ),
    Family("stop-tokens", "how requests end", frozenset({Feature.stop_tokens})),
    Family(
        "aborts",
        "requests ended from outside",
        frozenset({Feature.abort}),
        frozenset({Feature.prefix_caching, Feature.priority}),
    ),
    Family("pauses", "admissions or everything paused", frozenset({Feature.pause})),
    Family(
        "resets",
        "the prefix cache emptied, requests running or not",
        frozenset({Feature.reset, Feature.prefix_caching}),
    ),
    Family(
        "in-flight",
        "several steps scheduled before the first returns",
        frozenset({Feature.several_in_flight}),
        frozenset({Feature.abort, Feature.prefix_caching, Feature.priority}),
    ),
    Family(
        "async",
        "scheduled ahead of the outputs",
        frozenset({Feature.async_scheduling, Feature.several_in_flight}),
        frozenset({Feature.abort, Feature.prefix_caching, Feature.priority, Feature.stop_tokens}),
    ),
    Family(
        "kv-events",
        "what is published of the prefix cache",
        frozenset({Feature.kv_events, Feature.prefix_caching}),
        frozenset({Feature.adapters, Feature.evict, Feature.reset}),
    ),
    Family(
        "pipeline",
        "tokens for stages that do not sample",
        frozenset({Feature.pipeline}),
        frozenset({Feature.prefix_caching, Feature.priority}),
    ),
    Family(
        "drafts",
        "drafts scheduled, accepted and rejected",
        frozenset({Feature.drafts}),
        frozenset({Feature.abort, Feature.prefix_caching, Feature.priority, Feature.stop_tokens}),
        drafts.seeded,
    ),
    Family(
        "drafts-ahead",
        "drafts that workers make and verify, scheduled ahead of the outputs",
        frozenset({Feature.drafts, Feature.async_scheduling, Feature.several_in_flight}),
        frozenset({Feature.abort, Feature.prefix_caching, Feature.priority, Feature.stop_tokens}),
        drafts.seeded,
    ),
    Family("everything", "all of it together", also=CORE_FEATURES),
)
