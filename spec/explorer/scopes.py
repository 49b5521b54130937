"""The scopes that are searched: small on purpose, and together reaching every witness.

Where a request never holds more than two blocks, or a block holds one token, whole families of
faults cannot show; so each scope says what it must reach, and no scope is all there is.
"""

from nullblock.spec.explorer.beside_scopes import BESIDE_SCOPES
from nullblock.spec.explorer.contract_scopes import CONTRACT_SCOPES
from nullblock.spec.explorer.cross_scopes import CROSS_SCOPES
from nullblock.spec.explorer.draft_scopes import DRAFT_SCOPES
from nullblock.spec.explorer.encoder_scopes import ENCODER_SCOPES
from nullblock.spec.explorer.group_scopes import GROUP_SCOPES
from nullblock.spec.explorer.hybrid_scopes import HYBRID_SCOPES
from nullblock.spec.explorer.loaded_scopes import LOADED_SCOPES
from nullblock.spec.explorer.mamba_scopes import MAMBA_SCOPES
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.remote_scopes import REMOTE_SCOPES
from nullblock.spec.explorer.session_scopes import SESSION_SCOPES
from nullblock.spec.explorer.together_scopes import TOGETHER_SCOPES
from nullblock.spec.explorer.wait_scopes import WAIT_SCOPES
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


def _config(blocks: int, size: int, budget: int, seqs: int = 3, **more: object) -> Config:
    """`blocks` usable blocks: the null block comes on top."""
    settings = {"max_model_len": 16, **more}
    return Config(blocks + 1, size, budget, seqs, **settings)  # type: ignore[arg-type]


CORE = Scope(
    "core",
    "FCFS, blocks of two tokens: sharing, eviction, preemption, chunked prefill",
    _config(5, 2, 4),
    (Template("a", (A, A, A), 3), Template("b", (A, A, B, B), 2), Template("c", (C,), 3)),
    frozenset(
        "preempts-another preempts-itself preempts-with-budget duplicate-hash hash-evicted "
        "free-hit shared-hit same-step-hit resume-with-hit held-by-reserve budget-cut "
        "three-at-once stop-length".split()
    ),
)
PRIORITY = Scope(
    "priority",
    "PRIORITY, two of them equal: victims already scheduled, withdrawn tokens and hashes",
    _config(4, 2, 5, scheduler_reserve_full_isl=False, policy="priority"),
    (
        Template("a", (A, A, A, B), 3, priority=9),
        Template("b", (A, A, B), 4, priority=1),
        Template("c", (C,), 3, priority=1),
    ),
    frozenset(
        "withdrawal hashes-withdrawn preempts-itself preempts-another preempts-twice "
        "slots-not-free resume-with-hit".split()
    ),
)
TWINS = Scope(
    "twins",
    "blocks of one token, equal prompts: duplicate hashes",
    _config(5, 1, 3),
    (Template("a", (A, B), 2), Template("b", (A, B), 2), Template("c", (A, C), 2)),
    frozenset(
        "duplicate-hash same-step-hit shared-hit free-hit hash-evicted resume-with-hit".split()
    ),
)
CROWD = Scope(
    "crowd",
    "two running places for three requests, the last of which preempts itself",
    _config(4, 2, 4, 2, scheduler_reserve_full_isl=False),
    (Template("a", (A, A), 4), Template("b", (A, A, B), 4), Template("c", (C,), 2)),
    frozenset("full-house preempts-itself slots-not-free".split()),
)
THRESHOLD = Scope(
    "threshold",
    "a long-prefill threshold",
    _config(4, 2, 4, long_prefill_token_threshold=2),
    (Template("a", (A, A, A, B), 2), Template("b", (A, A, B, B), 2), Template("c", (C,), 3)),
    frozenset("threshold-cut budget-cut preempts-another preempts-twice".split()),
)
UNCUT = Scope(
    "uncut",
    "chunked prefill off: a prompt that does not fit the budget waits",
    _config(4, 2, 4, enable_chunked_prefill=False, scheduler_reserve_full_isl=False),
    (
        Template("a", (A, A), 3),
        Template("b", (C, A, B), 2),
        Template("c", (A,), 2),
        Template("d", (C, C, C, C, C, C), 2),
    ),
    frozenset("held-uncut rejection preempts-another slots-not-free".split()),
)
UNCUT_LONG = Scope(
    "uncut-long",
    "chunked prefill off and a long-prefill threshold, which cuts all the same",
    _config(
        *(3, 2, 3),
        enable_chunked_prefill=False,
        long_prefill_token_threshold=2,
        scheduler_reserve_full_isl=False,
    ),
    (Template("a", (A, A, A, B), 2), Template("b", (C, A, B), 2), Template("c", (A,), 1)),
    frozenset("threshold-cut held-uncut preempts-another preempts-itself".split()),
)
INFLIGHT = Scope(
    "inflight",
    "events between schedule and update: aborts, ids used again, resets that preempt",
    _config(3, 2, 4),
    (Template("a", (A, A, A), 2), Template("b", (A, A), 3), Template("c", (C,), 1)),
    frozenset(
        "abort-in-flight output-for-nobody id-reused-in-flight token-to-preempted "
        "finish-in-queue reset reset-refused".split()
    ),
    halves=True,
    resets=(False, True),
)
ORPHANS = Scope(
    "orphans",
    "hashes evicted from outside, and resets",
    _config(4, 1, 4),
    (Template("a", (A, B), 2), Template("b", (A, B, C), 1), Template("c", (A, A), 1)),
    frozenset("orphan reset reset-refused hash-evicted".split()),
    evicts=True,
    resets=(False,),
)
KEYS = Scope(
    "keys",
    "adapters and cache salts of one spelling, and a request that reads no cache",
    _config(5, 2, 4),
    (
        Template("a", (A, A, B), 1, lora="X"),
        Template("b", (A, A, B), 1, salt="X"),
        Template("c", (A, A, B), 1, skip_cache_read=True),
    ),
    frozenset({"free-hit", "hash-evicted", "duplicate-hash"}),
)
STOPS = Scope(
    "stops",
    "eos, stop ids, min_tokens, max_tokens and max_model_len",
    _config(4, 2, 4, max_model_len=6),
    (
        Template("a", (A, A), 9, min_tokens=2, eos_at=0),
        Template("b", (A, B, B), 9, min_tokens=1, stop_at=1),
        Template("c", (C, A, A, A), 9, min_tokens=9),
    ),
    frozenset("stop-eos stop-id stop-max-len below-min-tokens".split()),
)
NOCACHE = Scope(
    "nocache",
    "prefix caching off",
    _config(5, 2, 5, enable_prefix_caching=False),
    (Template("a", (A, A, A), 4), Template("b", (A, A, B), 4), Template("c", (C,), 5)),
    frozenset("three-at-once preempts-another preempts-twice stop-length".split()),
)
PAUSES = Scope(
    "pauses",
    "pausing admissions and everything, whole steps and half ones",
    _config(3, 2, 3),
    (Template("a", (A, A), 2), Template("b", (A, B), 2)),
    frozenset("paused-admissions paused-all".split()),
    halves=True,
    pauses=(UNPAUSED, PAUSED_NEW, PAUSED_ALL),
)
RULES_PAUSES = Scope(
    "rules-pauses",
    "the invariants after every single rule, paused and not",
    PAUSES.config,
    PAUSES.templates,
    PAUSES.witnesses,
    aborts=False,
    pauses=PAUSES.pauses,
    every_rule=True,
)
RULES = Scope(
    "rules",
    "the invariants after every single rule, FCFS",
    _config(3, 2, 4),
    (Template("a", (A, A, A), 2), Template("b", (A, A), 3), Template("c", (C,), 2)),
    frozenset("preempts-another same-step-hit hash-evicted reset".split()),
    resets=(True,),
    every_rule=True,
)
_RANKED = (*PRIORITY.templates[:2], Template("c", (C,), 3))
"""No two of equal priority."""
RULES_PRIORITY = Scope(
    "rules-priority",
    "the invariants after every single rule, PRIORITY",
    PRIORITY.config,
    _RANKED,
    frozenset("withdrawal hashes-withdrawn preempts-another preempts-twice".split()),
    aborts=False,
    every_rule=True,
)
_AHEAD = {"async_scheduling": True, "max_model_len": 8}
AHEAD = Scope(
    "ahead",
    "scheduling ahead, two steps in flight: aborts, preemptions, ids used again",
    _config(3, 2, 4, scheduler_reserve_full_isl=False, **_AHEAD),
    (Template("a", (A, A, A), 3), Template("b", (A, A), 4, eos_at=2)),
    frozenset(
        "runs-ahead passed-over preempted-in-flight token-to-preempted overrun "
        "cached-at-output abort-in-flight output-for-nobody id-reused-in-flight".split()
    ),
    halves=True,
    depth=2,
)
DEEP = Scope(
    "deep",
    "scheduling ahead, three steps in flight",
    _config(4, 2, 4, scheduler_reserve_full_isl=False, **_AHEAD),
    (Template("a", (A, A), 4), Template("b", (A, A), 5), Template("c", (C, A, A), 3)),
    frozenset(
        "three-in-flight runs-ahead passed-over preempted-in-flight resumed-in-flight".split()
    ),
    halves=True,
    depth=3,
    aborts=False,
)
RESETS = Scope(
    "resets",
    "scheduling ahead: resets that preempt while tokens are in flight",
    _config(3, 2, 4, 2, **_AHEAD),
    (Template("a", (A, A), 3), Template("b", (A,), 2)),
    frozenset("three-in-flight token-dropped reset-upon-reset".split()),
    halves=True,
    depth=3,
    aborts=False,
    resets=(True,),
)
RESETS_ABORTS = Scope(
    "resets-aborts",
    "scheduling ahead in a pool too small: aborts beside resets that preempt, ids used again",
    _config(2, 2, 3, 2, scheduler_reserve_full_isl=False, **_AHEAD),
    (Template("a", (A, A), 2), Template("b", (A,), 2)),
    frozenset(
        "token-dropped reset-upon-reset abort-in-flight output-for-nobody "
        "id-reused-in-flight preempted-in-flight preempts-another passed-over".split()
    ),
    halves=True,
    depth=2,
    resets=(True,),
)
AHEAD_PRIORITY = Scope(
    "ahead-priority",
    "scheduling ahead under PRIORITY: victims that are in flight, or scheduled already",
    _config(4, 2, 5, scheduler_reserve_full_isl=False, policy="priority", **_AHEAD),
    _RANKED,
    frozenset("withdrawal passed-over preempted-in-flight hashes-withdrawn".split()),
    halves=True,
    depth=2,
    aborts=False,
)
REPETITION = Scope(
    "repetition",
    "outputs that repeat themselves: below min_tokens, behind it, and at max_tokens",
    _config(4, 2, 4, scheduler_reserve_full_isl=False, **_AHEAD),
    (
        Template("a", (A, A), 6, min_tokens=3, repeats_at=1),
        Template("b", (A, B), 2, repeats_at=1),
    ),
    frozenset("stop-repetition repeats-below-min-tokens stop-length overrun".split()),
    halves=True,
    depth=2,
    aborts=False,
)
PIPELINE = Scope(
    "pipeline",
    "three steps in flight, none scheduled ahead",
    _config(4, 2, 4, scheduler_reserve_full_isl=False, max_model_len=8),
    (Template("a", (A, A), 4), Template("b", (A, A), 5), Template("c", (C, A, A), 3)),
    frozenset("three-in-flight preempted-in-flight resumed-in-flight".split()),
    halves=True,
    depth=3,
    aborts=False,
)
PIPELINE_CHUNKS = Scope(
    "pipeline-chunks",
    "three steps in flight, none scheduled ahead: chunks of a prefill, and preemptions",
    _config(4, 2, 3, scheduler_reserve_full_isl=False, max_model_len=8),
    (Template("a", (A, A, A, A, B), 2), Template("b", (A, A), 4)),
    frozenset("three-in-flight budget-cut preempted-in-flight token-to-preempted".split()),
    halves=True,
    depth=3,
    aborts=False,
)
RULES_AHEAD = Scope(
    "rules-ahead",
    "the invariants after every single rule, scheduling ahead",
    _config(3, 2, 4, 2, scheduler_reserve_full_isl=False, **_AHEAD),
    (Template("a", (A, A, A), 2), Template("b", (A,), 4, eos_at=1)),
    frozenset("runs-ahead preempted-in-flight token-dropped overrun cached-at-output".split()),
    halves=True,
    depth=2,
    aborts=False,
    resets=(True,),
    every_rule=True,
)
STANDARD: dict[str, Scope] = {
    s.name: s
    for s in (
        *(CORE, PRIORITY, TWINS, CROWD, THRESHOLD, UNCUT, UNCUT_LONG, INFLIGHT, ORPHANS),
        *(KEYS, STOPS, REPETITION, NOCACHE, PAUSES, AHEAD, DEEP, RESETS, RESETS_ABORTS),
        *(AHEAD_PRIORITY, PIPELINE, PIPELINE_CHUNKS, RULES, RULES_PRIORITY, RULES_AHEAD),
        RULES_PAUSES,
        *DRAFT_SCOPES,
        *WAIT_SCOPES,
        *GROUP_SCOPES,
        *HYBRID_SCOPES,
        *MAMBA_SCOPES,
        *ENCODER_SCOPES,
        *CROSS_SCOPES,
        *SESSION_SCOPES,
        *REMOTE_SCOPES,
        *LOADED_SCOPES,
        *CONTRACT_SCOPES,
        *BESIDE_SCOPES,
        *TOGETHER_SCOPES,
    )
}
"""Searched by default: every witness and every reachable rule is in some of them."""
