"""The scopes with a KV connector.

One of `nullblock.spec.explorer.scopes` has three requests; here two are enough.
"""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Encoder, Item

A, B, C, P = 1001, 1002, 1003, 1009
"""Prompt tokens; P stands for items. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_model_len": 8, "connector": True, **more}
    return Config(blocks + 1, 2, 4, 3, **settings)  # type: ignore[arg-type]


LOADS = Scope(
    "loads",
    "loads within a step and over several, of one prompt; a remote side that has to look first",
    _config(4),
    (
        Template("a", (A, A, A), 2, remote=3, loads_over_steps=True),
        Template("b", (A, A, A), 2, remote=2, unsure=True),
    ),
    frozenset(
        "load-begins load-within-a-step load-ended load-awaited remote-unsure "
        "abort-loading".split()
    ),
    halves=True,
)
SENDS = Scope(
    "sends",
    "blocks that are kept after the end: while they are loaded, and until they are sent",
    _config(4),
    (
        Template("a", (A, A, A), 2, remote=2, loads_over_steps=True, delays_free=True),
        Template("b", (A, A, A), 1, delays_free=True),
    ),
    frozenset("kept kept-for-both abort-loading load-ended".split()),
    halves=True,
    resets=(False,),
)
SENDS_AHEAD = Scope(
    "sends-ahead",
    "blocks that are sent of a request that ended with steps in flight",
    _config(4, async_scheduling=True),
    (Template("a", (A,), 2, delays_free=True),),
    frozenset("kept abort-in-flight runs-ahead".split()),
    halves=True,
    depth=2,
)
LOSSY = Scope(
    "lossy",
    "a lossy store, loads over several steps: what is missing is computed",
    _config(4),
    (
        Template("a", (A, A, A, A), 1, remote=4, loads_over_steps=True),
        Template("b", (A, A, A), 1, remote=3, loads_over_steps=True),
    ),
    frozenset("load-begins load-ended loses-part loses-all".split()),
    halves=True,
    aborts=False,
    lossy=True,
)
LOSSY_NOW = Scope(
    "lossy-now",
    "a lossy store, loads within a step: who lacks blocks starts over",
    _config(5),
    (
        Template("a", (A, A, A, A), 2, remote=3),
        Template("c", (A, A, C), 1, remote=3, loads_over_steps=True),
    ),
    frozenset("load-within-a-step starts-over loses-all".split()),
    halves=True,
    lossy=True,
)
LOSSY_AHEAD = Scope(
    "lossy-ahead",
    "the same, scheduling ahead: outputs in flight are dropped",
    _config(4, async_scheduling=True),
    (
        Template("a", (A, A, A), 2, remote=2),
        Template("b", (A, A, B), 1, remote=2),
    ),
    frozenset("load-within-a-step starts-over token-dropped".split()),
    halves=True,
    depth=2,
    lossy=True,
)
LOSSY_NOW_ENDS = Scope(
    "lossy-now-ends",
    "a lossy store where who lacks blocks, and runs or waits for them, ends",
    _config(4, fail_failed_loads=True),
    (
        Template("a", (A, A, A), 2, remote=2, delays_free=True),
        Template("c", (A, A, C), 1, remote=3, loads_over_steps=True),
    ),
    frozenset("load-within-a-step ends-lacking kept".split()),
    halves=True,
    lossy=True,
)
LOADS_PRIORITY = Scope(
    "loads-priority",
    "loads under PRIORITY, in a pool too small: preemptions, and loads after them",
    _config(4, policy="priority", scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A, A), 2, remote=2, loads_over_steps=True, priority=9),
        Template("b", (B, B, B), 3, priority=5),
    ),
    frozenset("load-begins load-ended preempts-another".split()),
    halves=True,
)
RULES_REMOTE = Scope(
    "rules-remote",
    "the invariants after every single rule, with a lossy store",
    _config(4),
    (
        Template("a", (A, A, A), 1, remote=2, loads_over_steps=True, delays_free=True),
        Template("b", (A, A, A), 2, remote=2),
    ),
    frozenset("load-begins load-within-a-step starts-over loses-all kept".split()),
    halves=True,
    lossy=True,
    every_rule=True,
)
RULES_REMOTE_TOKEN = Scope(
    "rules-remote-token",
    "a prompt of one token that is loaded as a whole, a lossy store: the invariants after every "
    "rule",
    _config(4),
    (Template("a", (A,), 2, remote=1, loads_over_steps=True, delays_free=True),),
    frozenset("load-ended loaded-whole loses-all abort-loading kept-for-both".split()),
    halves=True,
    lossy=True,
    every_rule=True,
)
REMOTE_DRAFTS = Scope(
    "remote-drafts",
    "drafts of an EAGLE-like method beside a lossy store: the invariants after every rule",
    _config(5, num_spec_tokens=2, spec_method="eagle", scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A, A), 3, remote=2, loads_over_steps=True, misses=2),
        Template("b", (A, A, A), 2, remote=2, delays_free=True),
    ),
    frozenset(
        "load-begins load-within-a-step starts-over loses-all kept looks-ahead drafts-taken "
        "drafts-rejected".split()
    ),
    halves=True,
    aborts=False,
    lossy=True,
    every_rule=True,
)
REMOTE_ITEMS = Scope(
    "remote-items",
    "encoder inputs beside a lossy store: the invariants after every rule",
    _config(4, encoder=Encoder(2, 2), scheduler_reserve_full_isl=False),
    (
        Template("a", (P, P, A), 1, items=(Item(1, 0, 2),), remote=2, loads_over_steps=True),
        Template("b", (A, P, P), 1, items=(Item(1, 1, 2),), remote=2),
    ),
    frozenset("load-begins load-within-a-step starts-over loses-all item-shared".split()),
    halves=True,
    lossy=True,
    every_rule=True,
)
REMOTE_CLIENTS = Scope(
    "remote-clients",
    "two clients, which are told of ends for failed loads too",
    _config(4, include_finished_set=True, fail_failed_loads=True),
    (
        Template("a", (A, A, A), 1, remote=2),
        Template("b", (A, A, A), 1, remote=2, loads_over_steps=True, client=1),
    ),
    frozenset("load-begins load-within-a-step ends-lacking".split()),
    halves=True,
    lossy=True,
)
TWO_LOADS = Scope(
    "two-loads",
    "two loads that have ended, in a pool that has no room for the rest of either",
    _config(4),
    (
        Template("a", (A,) * 7, 1, remote=2, loads_over_steps=True),
        Template("b", (B,) * 5, 1, remote=2, loads_over_steps=True),
    ),
    frozenset("load-begins load-ended reclaims-for-head abort-loading".split()),
    halves=True,
)
LOADS_BEFORE_ONE = Scope(
    "loads-before-one",
    "one that runs alone, and comes first, lacks what others have loaded: after every rule",
    _config(4, policy="priority", scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A, A), 1, remote=2, loads_over_steps=True, priority=9, delays_free=True),
        Template("b", (B,) * 6, 2),
    ),
    frozenset("load-begins load-ended reclaims-for-running kept".split()),
    halves=True,
    aborts=False,
    lossy=True,
    every_rule=True,
)
REMOTE_SCOPES = (
    *(TWO_LOADS, LOADS_BEFORE_ONE),
    *(REMOTE_DRAFTS, REMOTE_ITEMS, REMOTE_CLIENTS),
    *(LOADS, SENDS, SENDS_AHEAD, LOSSY, LOSSY_NOW, LOSSY_AHEAD, LOSSY_NOW_ENDS),
    *(LOADS_PRIORITY, RULES_REMOTE, RULES_REMOTE_TOKEN),
)
