"""Scopes in which starving is easy: requests that nearly fill the pool, again and again in one
another's way. Small, so that every cycle is seen.
"""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.scopes import A, B, C
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED


def config(blocks: int, size: int, budget: int, seqs: int = 3, **more: object) -> Config:
    """`blocks` usable blocks: the null block comes on top."""
    settings = {"max_model_len": 16, **more}
    return Config(blocks + 1, size, budget, seqs, **settings)  # type: ignore[arg-type]


PAIR = Scope(
    "pair",
    "two requests, each as large as the pool, admitted as soon as a first chunk fits",
    config(4, 2, 4, scheduler_reserve_full_isl=False, long_prefill_token_threshold=2),
    (Template("a", (A,) * 6, 3), Template("b", (B,) * 6, 3)),
    frozenset("preempts-another threshold-cut slots-not-free".split()),
)
RESERVED = Scope(
    "reserved",
    "a long request waits for blocks before a short one that would fit, two running places",
    config(4, 2, 4, 2),
    (Template("a", (A,) * 6, 1), Template("b", (B, B), 3), Template("c", (C,), 1)),
    frozenset("held-by-reserve free-hit".split()),
)
TRIO = Scope(
    "trio",
    "three that preempt one another, no prefix cache to resume from",
    config(5, 2, 6, scheduler_reserve_full_isl=False, enable_prefix_caching=False),
    (Template("a", (A,) * 4, 5), Template("b", (B,) * 4, 5), Template("c", (C,) * 3, 4)),
    frozenset("three-at-once preempts-another preempts-twice".split()),
)
RANKED = Scope(
    "ranked",
    "PRIORITY: the least urgent runs first, and urgent ones come and go",
    config(
        *(3, 2, 4),
        scheduler_reserve_full_isl=False,
        policy="priority",
        long_prefill_token_threshold=2,
    ),
    (
        Template("a", (A,) * 4, 2, priority=2),
        Template("b", (B,) * 3, 2, priority=1),
        Template("c", (C,), 2, priority=0),
    ),
    frozenset("preempts-another preempts-itself withdrawal threshold-cut".split()),
)
TIED = Scope(
    "tied",
    "PRIORITY: three of equal priority and arrival time, which only their ids tell apart",
    config(
        *(4, 2, 4),
        scheduler_reserve_full_isl=False,
        policy="priority",
        enable_prefix_caching=False,
        long_prefill_token_threshold=2,
    ),
    (Template("a", (A,) * 6, 2), Template("b", (B,) * 5, 2), Template("c", (C,) * 4, 3)),
    frozenset("preempts-another preempts-itself threshold-cut".split()),
)
REGROWN = Scope(
    "regrown",
    "chunked prefill off: prompt and output of whoever is preempted are computed in one step",
    config(3, 2, 6, enable_chunked_prefill=False, scheduler_reserve_full_isl=False),
    (Template("a", (A, A, A), 4), Template("b", (B, B), 4)),
    frozenset("preempts-another slots-not-free".split()),
)
HALTED = Scope(
    "halted",
    "admissions paused, everything paused, and never for ever",
    config(3, 2, 4),
    (Template("a", (A, A, A), 3), Template("b", (B,), 2)),
    frozenset("paused-admissions paused-all preempts-another".split()),
    pauses=(UNPAUSED, PAUSED_NEW, PAUSED_ALL),
)
DISTURBED = Scope(
    "disturbed",
    "the cache is reset and hashes are evicted, as often as the world likes",
    config(3, 2, 2),
    (Template("a", (A, A, A), 2), Template("b", (A, A, B), 2)),
    frozenset("reset reset-refused orphan".split()),
    resets=(False, True),
    evicts=True,
)
FLYING = Scope(
    "flying",
    "scheduling ahead, up to three steps in flight, in every order of halves",
    config(3, 2, 4, scheduler_reserve_full_isl=False, async_scheduling=True, max_model_len=8),
    (Template("a", (A, A, A), 4), Template("b", (B, B), 3)),
    frozenset("three-in-flight passed-over preempted-in-flight".split()),
    halves=True,
    depth=3,
    aborts=False,
)
CONTENDED: dict[str, Scope] = {
    s.name: s for s in (PAIR, RESERVED, TRIO, RANKED, TIED, REGROWN, HALTED, DISTURBED, FLYING)
}
"""Searched by default, before the explorer's standard scopes."""
