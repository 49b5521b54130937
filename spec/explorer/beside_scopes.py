"""The scopes in which one feature stands beside another that meets it in a rule."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_scheduled_tokens": 5, "max_num_seqs": 2, "max_model_len": 8}
    plain = {"scheduler_reserve_full_isl": False}
    return Config(blocks + 1, 2, **{**settings, **plain, **more})  # type: ignore[arg-type]


DRAFTS_GRAMMARS = Scope(
    "drafts-grammars",
    "drafts of requests with a grammar, in step: it sees an output as a whole",
    _config(4, num_spec_tokens=2, grammars=True),
    (
        Template("a", (A, A), 4, grammar=True, reject_at=2),
        Template("b", (A, B), 3, grammar=True, eos_at=1, reject_at=1, misses=3),
    ),
    frozenset(
        "grammar-awaited ends-by-grammar rejected-on-draft stops-on-draft drafts-taken "
        "drafts-lost".split()
    ),
    resets=(True,),
)
RULES_DRAFTS_GRAMMARS = Scope(
    "rules-drafts-grammars",
    "the invariants after every single rule, drafts of requests with a grammar, scheduling ahead",
    _config(4, num_spec_tokens=2, grammars=True, async_scheduling=True),
    (
        Template("a", (A,), 3, grammar=True, reject_at=1),
        Template("b", (A, B), 3, eos_at=1, misses=2),
    ),
    frozenset("grammar-awaited ends-by-grammar rejected-on-draft drafts-rejected".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
SESSIONS_PRIORITY = Scope(
    "sessions-priority",
    "a session under PRIORITY, beside one that comes before it and one that comes behind: the "
    "invariants after every rule",
    _config(3, sessions=True, policy="priority", max_num_scheduled_tokens=4),
    (
        Template("a", (A, A), 2, priority=5, chunks=((B,),), limits=(2,)),
        Template("b", (A, A, B), 2, priority=1),
        Template("c", (B,), 2, priority=9),
    ),
    frozenset(
        "waits-for-chunk chunk-at-stop chunk-arrives continues-session preempts-another".split()
    ),
    aborts=False,
    every_rule=True,
)
SESSIONS_LOADS = Scope(
    "sessions-loads",
    "a session whose first prompt is loaded and whose blocks are sent, beside a request with the "
    "same prompt: the invariants after every rule",
    _config(4, sessions=True, connector=True, max_num_scheduled_tokens=4),
    (
        Template(
            "a",
            (A, A),
            1,
            chunks=((B,),),
            limits=(1,),
            remote=2,
            loads_over_steps=True,
            delays_free=True,
        ),
        Template("b", (A, A), 1),
    ),
    frozenset(
        "waits-for-chunk chunk-arrives continues-session load-begins load-ended kept".split()
    ),
    halves=True,
    aborts=False,
    every_rule=True,
)
BESIDE_SCOPES = (DRAFTS_GRAMMARS, RULES_DRAFTS_GRAMMARS, SESSIONS_PRIORITY, SESSIONS_LOADS)
