"""The scopes in which requests wait for something else than their turn."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, **more: object) -> Config:
    """`blocks` usable blocks of two tokens, and one adapter that may run at a time."""
    settings = {"max_num_scheduled_tokens": 4, "max_num_seqs": 3, "max_model_len": 8}
    adapters = {"max_loras": 1, "scheduler_reserve_full_isl": False}
    return Config(blocks + 1, 2, **{**settings, **adapters, **more})  # type: ignore[arg-type]


ADAPTERS = Scope(
    "adapters",
    "one adapter at a time, FCFS: who has none, or the one that runs, overtakes",
    _config(3),
    (
        Template("a", (A, A), 3, adapter=1),
        Template("b", (B,), 2, adapter=2),
        Template("c", (C,), 4, adapter=1),
    ),
    frozenset(
        "no-place shares-place preempts-another overtakes-preempted preempted-passed-over".split()
    ),
)
ADAPTERS_PRIORITY = Scope(
    "adapters-priority",
    "one adapter at a time, PRIORITY: of two queues whoever comes first",
    _config(3, policy="priority"),
    (
        Template("a", (A, A), 3, adapter=1, priority=9),
        Template("b", (B,), 2, adapter=2, priority=5),
        Template("c", (C, C), 3, priority=1),
    ),
    frozenset("no-place preempts-another preempted-passed-over".split()),
)
GRAMMARS = Scope(
    "grammars",
    "grammars that are compiled some time after their requests have come, FCFS",
    _config(3, max_loras=0, grammars=True),
    (
        Template("a", (A, A), 3, grammar=True, reject_at=1),
        Template("b", (B,), 3, grammar=True),
        Template("c", (C,), 2),
    ),
    frozenset("grammar-awaited ends-by-grammar overtakes-preempted".split()),
)
SKIPPED = Scope(
    "skipped",
    "adapters and grammars, two steps in flight: resets, aborts, ends",
    _config(3, grammars=True),
    (
        Template("a", (A, A), 3, adapter=1),
        Template("b", (B,), 3, grammar=True, adapter=2, reject_at=1),
    ),
    frozenset(
        "no-place grammar-awaited compiled-and-passed-over preempted-passed-over finish-skipped "
        "ends-by-grammar id-reused-in-flight".split()
    ),
    halves=True,
    depth=2,
    resets=(True,),
)
RULES_WAITING = Scope(
    "rules-waiting",
    "the invariants after every single rule, adapters and grammars, scheduling ahead",
    _config(3, async_scheduling=True, grammars=True),
    (
        Template("a", (A,), 2, adapter=1),
        Template("b", (B,), 2, grammar=True, adapter=2, reject_at=1),
    ),
    frozenset("no-place grammar-awaited compiled-and-passed-over ends-by-grammar".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
WAIT_SCOPES = (ADAPTERS, ADAPTERS_PRIORITY, GRAMMARS, SKIPPED, RULES_WAITING)
