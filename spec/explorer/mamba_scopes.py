"""The scopes with Mamba layers: small, like the others."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Group

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
FULL = Group()
STATES = Group(mamba=True)
BESIDE = Group(mamba=True, num_speculative_blocks=1)
ALIGNED = Group(mamba=True, aligned=True)
ALIGNED_BESIDE = Group(mamba=True, aligned=True, num_speculative_blocks=1)
WITHIN = Group(mamba=True, aligned=True, prefill_checkpoint_alignment=2)
WITHIN_BESIDE = Group(
    mamba=True, aligned=True, num_speculative_blocks=1, prefill_checkpoint_alignment=1
)


def _config(blocks: int, budget: int, *groups: Group, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_seqs": 2, "max_model_len": 8, "scheduler_reserve_full_isl": False, **more}
    return Config(blocks + 1, 2, budget, groups=groups, **settings)  # type: ignore[arg-type]


_TWO = (Template("a", (A, A, A, A, B), 2), Template("b", (A, A, A), 3))
_LONG_AND_SHORT = (Template("a", (A,) * 9, 2), Template("b", (A, A, A), 2))
MAMBA = Scope(
    "mamba",
    "Mamba layers alone: the last state is hit, the one before is given back",
    _config(5, 5, STATES),
    _TWO,
    frozenset(
        "outlived-freed hit-behind-nulls nulls-dropped free-hit shared-hit state-awaited "
        "hash-evicted".split()
    ),
)
MAMBA_HYBRID = Scope(
    "mamba-hybrid",
    "full attention and Mamba layers, with a state beside: hits on which both agree, preemption",
    _config(8, 4, FULL, BESIDE),
    (*_TWO, Template("c", (C, C), 2)),
    frozenset(
        "outlived-freed hit-behind-nulls nulls-dropped free-hit preempts-another "
        "resume-with-hit zeroed".split()
    ),
    resets=(True,),
)
MAMBA_AHEAD = Scope(
    "mamba-ahead",
    "Mamba layers before full attention, scheduling ahead",
    _config(7, 4, STATES, FULL, async_scheduling=True),
    _TWO,
    frozenset("outlived-freed hit-behind-nulls runs-ahead cached-at-output".split()),
    halves=True,
    depth=2,
    aborts=False,
)
RULES_MAMBA = Scope(
    "rules-mamba",
    "the invariants after every single rule, Mamba layers",
    _config(6, 4, FULL, STATES),
    (Template("a", (A, A, A, A), 2), Template("b", (A, A, A), 2)),
    frozenset("outlived-freed nulls-dropped preempts-another".split()),
    every_rule=True,
    aborts=False,
)
MAMBA_ALIGN = Scope(
    "mamba-align",
    "Mamba layers that keep the states at ends of steps alone: gaps, steps cut to whole blocks",
    _config(6, 5, FULL, ALIGNED, mamba_split=2),
    (Template("a", (A, A, A, A, B), 2), Template("b", (A, A, A, A, C), 3)),
    frozenset(
        "outlived-freed gap-left cut-to-blocks hit-behind-nulls nulls-dropped free-hit "
        "state-awaited".split()
    ),
)
RULES_MAMBA_ALIGN = Scope(
    "rules-mamba-align",
    "the invariants after every single rule, states at ends of steps and one beside",
    _config(9, 5, ALIGNED_BESIDE, mamba_split=2, max_model_len=12),
    _LONG_AND_SHORT,
    frozenset("outlived-freed gap-left state-moved cut-to-nothing nulls-dropped".split()),
    every_rule=True,
    aborts=False,
)
MAMBA_WITHIN = Scope(
    "mamba-within",
    "Mamba layers that keep a state within a step as well: prefills that do not stop for it",
    _config(9, 7, FULL, WITHIN, mamba_split=2),
    (Template("a", (A,) * 5, 2), Template("b", (A,) * 6, 2)),
    frozenset(
        "outlived-freed inner-kept gap-left hit-behind-nulls free-hit state-awaited".split()
    ),
)
RULES_MAMBA_WITHIN = Scope(
    "rules-mamba-within",
    "the invariants after every single rule, states within steps and one beside",
    _config(9, 7, WITHIN_BESIDE, mamba_split=2, max_model_len=12),
    _LONG_AND_SHORT,
    frozenset("outlived-freed inner-kept gap-left nulls-dropped".split()),
    every_rule=True,
    aborts=False,
)
SESSIONS_ALIGN = Scope(
    "sessions-align",
    "a session beside states at ends of steps: what is left of them between its turns",
    _config(7, 5, FULL, ALIGNED, mamba_split=2, sessions=True),
    (
        Template("a", (A, A), 1, chunks=((B, B, B, B),), limits=(2,)),
        Template("b", (A, C), 1),
    ),
    frozenset("outlived-freed gap-left waits-for-chunk chunk-arrives continues-session".split()),
)
LOADS_MAMBA = Scope(
    "loads-mamba",
    "Mamba layers beside a connector: states that are loaded, hit, or left out behind a load",
    _config(7, 5, FULL, STATES, connector=True),
    (
        Template("a", (A, A, A, A), 1, remote=4, loads_over_steps=True),
        Template("b", (A, A, A), 1, remote=1),
    ),
    frozenset("load-begins load-within-a-step state-awaited".split()),
    halves=True,
)
RULES_LOADS_MAMBA = Scope(
    "rules-loads-mamba",
    "the invariants after every single rule, Mamba layers beside a connector: what is zeroed and "
    "what is loaded",
    _config(6, 5, FULL, STATES, connector=True),
    (
        Template("a", (A, A, A, A), 1, remote=3, loads_over_steps=True),
        Template("b", (B, B, B), 1),
    ),
    frozenset("load-begins load-ended zeroed free-hit left-behind".split()),
    halves=True,
    every_rule=True,
    aborts=False,
)
MAMBA_SCOPES = (
    *(MAMBA, MAMBA_HYBRID, MAMBA_AHEAD, RULES_MAMBA),
    *(MAMBA_ALIGN, RULES_MAMBA_ALIGN),
    *(MAMBA_WITHIN, RULES_MAMBA_WITHIN),
    *(SESSIONS_ALIGN, LOADS_MAMBA, RULES_LOADS_MAMBA),
)
