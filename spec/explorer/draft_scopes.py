"""The scopes with drafts: small, like the others, and together reaching what drafts add."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, drafts: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens, and so many drafts: the null block comes on top."""
    settings = {"max_num_seqs": 3, "max_model_len": 8, "scheduler_reserve_full_isl": False}
    tokens = {"max_num_scheduled_tokens": 6, "num_spec_tokens": drafts}
    return Config(blocks + 1, 2, **{**tokens, **settings, **more})  # type: ignore[arg-type]


DRAFTS = Scope(
    "drafts",
    "drafts in step: taken, rejected, cut to the budget, lost in a preemption",
    _config(4, 2, max_num_scheduled_tokens=5),
    (
        Template("a", (A, A, A), 4, misses=3),
        Template("b", (A, A), 4, misses=1),
        Template("c", (C,), 2),
    ),
    frozenset(
        "drafts-taken drafts-rejected drafts-cut drafts-lost stops-on-draft "
        "preempts-another".split()
    ),
)
DRAFTS_EAGLE = Scope(
    "drafts-eagle",
    "drafts of an EAGLE-like method: slots for the next ones, the last hit computed again",
    _config(6, 2, spec_method="eagle"),
    (Template("a", (A, A, A, B, B), 2, misses=2), Template("b", (A, A, A, B), 3)),
    frozenset("looks-ahead last-hit-dropped drafts-taken drafts-rejected free-hit".split()),
)
DRAFTS_IN_FLIGHT = Scope(
    "drafts-in-flight",
    "drafts in step, three steps in flight: resets and preemptions, ends on a draft",
    _config(4, 2),
    (Template("a", (A, A, A), 3, misses=2), Template("b", (A, A), 4, eos_at=1)),
    frozenset(
        "waits-for-drafts stops-on-draft earlier-run-rejected three-in-flight "
        "preempted-in-flight".split()
    ),
    halves=True,
    depth=3,
    aborts=False,
    resets=(True,),
)
DRAFTS_AHEAD = Scope(
    "drafts-ahead",
    "drafts, scheduling ahead: aborts, preemptions, ids used again",
    _config(4, 2, async_scheduling=True),
    (Template("a", (A, A, A), 3, misses=2), Template("b", (A, A), 4)),
    frozenset(
        "runs-ahead drafts-taken drafts-rejected stops-on-draft preempted-in-flight "
        "abort-in-flight id-reused-in-flight".split()
    ),
    halves=True,
    depth=2,
)
DRAFTS_RESETS = Scope(
    "drafts-resets",
    "drafts, scheduling ahead: resets that preempt while drafts are in flight",
    _config(4, 2, async_scheduling=True),
    (Template("a", (A, A, A), 3, misses=2), Template("b", (A, A), 4)),
    frozenset("drafts-dropped token-dropped reset-upon-reset".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
)
DRAFTS_PRIORITY = Scope(
    "drafts-priority",
    "drafts, scheduling ahead under PRIORITY: victims that are scheduled, or in flight",
    _config(4, 1, max_num_scheduled_tokens=5, async_scheduling=True, policy="priority"),
    (
        Template("a", (A, A, A, B), 3, misses=2, priority=9),
        Template("b", (A, A, B), 4, misses=3, priority=1),
        Template("c", (C,), 3, priority=1),
    ),
    frozenset("withdrawal preempted-in-flight earlier-run-rejected".split()),
    halves=True,
    depth=2,
    aborts=False,
)
DRAFTS_DEEP = Scope(
    "drafts-deep",
    "drafts, four steps in flight: a request is resumed before its drafts have come back",
    _config(5, 1, async_scheduling=True),
    (Template("a", (A, A, A), 5, eos_at=0, misses=1), Template("b", (B,), 5, misses=1)),
    frozenset("waits-for-earlier-run earlier-run-rejected overrun resumed-in-flight".split()),
    halves=True,
    depth=4,
    aborts=False,
)
RULES_DRAFTS = Scope(
    "rules-drafts",
    "the invariants after every single rule, drafts and scheduling ahead",
    _config(4, 2, max_num_scheduled_tokens=4, max_num_seqs=2, async_scheduling=True),
    (Template("a", (A, A, A), 3, misses=2), Template("b", (A,), 3, misses=3, eos_at=1)),
    frozenset("drafts-taken drafts-rejected drafts-dropped stops-on-draft".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
RULES_DRAFTS_IN_STEP = Scope(
    "rules-drafts-in-step",
    "the invariants after every single rule, drafts of an EAGLE-like method in step",
    _config(4, 2, max_num_scheduled_tokens=4, max_num_seqs=2, spec_method="eagle"),
    (Template("a", (A, A, A), 3, misses=2), Template("b", (A,), 4, misses=3, proposes=1)),
    frozenset(
        "drafts-taken drafts-rejected drafts-cut drafts-lost stops-on-draft looks-ahead "
        "last-hit-dropped preempts-another preempts-itself".split()
    ),
    aborts=False,
    resets=(True,),
    every_rule=True,
)
SILENCE = Scope(
    "silence",
    "a step returns without the token that it owes, two in flight; resets meanwhile",
    _config(4, 2, max_num_seqs=2),
    (Template("a", (A, A, A), 3, silent_at=1), Template("b", (A, A), 2)),
    frozenset("resume-with-hit token-to-preempted free-hit".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
SILENCE_AHEAD = Scope(
    "silence-ahead",
    "the same, scheduling ahead: what is in flight behind it is dropped",
    _config(4, 2, max_num_seqs=2, async_scheduling=True),
    (Template("a", (A, A, A), 3, silent_at=1), Template("b", (A, A), 2)),
    frozenset("resume-with-hit token-dropped free-hit".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
DRAFT_SCOPES = (
    *(DRAFTS, DRAFTS_EAGLE, DRAFTS_IN_FLIGHT, DRAFTS_AHEAD, DRAFTS_RESETS, DRAFTS_PRIORITY),
    *(DRAFTS_DEEP, RULES_DRAFTS, RULES_DRAFTS_IN_STEP, SILENCE, SILENCE_AHEAD),
)
