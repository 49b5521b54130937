"""Under which conditions everybody is served in the end: the exact list, and why each is on it.

A condition is needed if a scope that violates it, and no other, has a fair cycle in which somebody
starves. `tests/spec/test_liveness_preconditions.py` pins each of these cycles, and shows by every
small configuration that together they are enough there.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.scopes import A, B, C
from nullblock.spec.explorer.session_scopes import SESSIONS_AHEAD
from nullblock.spec.facts import Config
from nullblock.spec.liveness.fairness import EVERY, SENTENCE, Assumption
from nullblock.spec.liveness.scopes import DISTURBED, HALTED, PAIR, RANKED, config
from nullblock.spec.profiles import NORMATIVE, Semantics

LENIENT = replace(NORMATIVE, reject_unservable=False)
"""Whoever arrives is taken in, as in vllm-0.22.1: so that one sees what LIFE-2 spares us."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a condition is about: a scope, the profile it runs in, and what is assumed for ever."""

    scope: Scope
    semantics: Semantics = LENIENT
    assumed: frozenset[Assumption] = EVERY


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition, and a setting that violates it alone."""

    name: str
    sentence: str
    upheld: str
    """Who sees to it, in normative and in vllm-0.22.1."""
    holds: Callable[[Setting], bool]
    violated: Setting


def longest(c: Config, t: Template) -> int:
    """The most tokens of a request that ever have to be in the cache: the last one never has."""
    return min(len(t.prompt) + t.max_tokens, c.max_model_len) - 1


def _each(test: Callable[[Config, Template], bool]) -> Callable[[Setting], bool]:
    return lambda setting: all(test(setting.scope.config, t) for t in setting.scope.templates)


def _fits(c: Config, t: Template) -> bool:
    return -(-longest(c, t) // c.block_size) <= c.num_blocks - 1


def _cut(c: Config, t: Template) -> bool:
    threshold, budget = c.long_prefill_token_threshold, c.max_num_scheduled_tokens
    return c.enable_chunked_prefill or longest(c, t) <= budget or 0 < threshold <= budget


def _ends(setting: Setting) -> bool:
    c = setting.scope.config
    return setting.semantics.length_before_min_tokens or all(
        t.min_tokens <= min(t.max_tokens, c.max_model_len - len(t.prompt))
        for t in setting.scope.templates
    )


def _ranked(setting: Setting) -> bool:
    places = [(t.priority, t.arrival) for t in setting.scope.templates]
    apart = setting.semantics.victim_by_id or len(set(places)) == len(places)
    return setting.scope.config.policy == "fcfs" or apart


def _assumption(which: Assumption, upheld: str, scope: Scope) -> Precondition:
    """An assumption about what happens for ever, and what happens without it."""
    return Precondition(
        which.value,
        SENTENCE[which],
        upheld,
        lambda setting: which in setting.assumed,
        Setting(scope, NORMATIVE, EVERY - {which}),
    )


def _alone(name: str, config: Config, *templates: Template, pauses: tuple[int, ...] = ()) -> Scope:
    return Scope(name, "", config, templates, aborts=False, pauses=pauses)


def _with_connector(name: str, *templates: Template) -> Scope:
    """The second half of a step reports what became of loads and sends."""
    taken = config(2, 2, 4, connector=True)
    return Scope(name, "", taken, templates, aborts=False, halves=True)


_REFUSED = "normative refuses the request at arrival (LIFE-2); vllm-0.22.1 takes it in"
_CONFIGURED = "both: a configuration of at least one"

PRECONDITIONS: tuple[Precondition, ...] = (
    Precondition(
        "pool",
        "the pool holds all blocks that the request may come to need: those of "
        "min(prompt + max_tokens, max_model_len) - 1 tokens",
        _REFUSED,
        _each(_fits),
        Setting(_alone("outgrows", config(2, 2, 8), Template("a", (A,), 9))),
    ),
    Precondition(
        "cutting",
        "prefills may be cut (chunked prefill, or a long-prefill threshold within the budget), or "
        "the budget covers all these tokens: after a preemption prompt and output are computed "
        "in one step",
        f"{_REFUSED}, and its front end looks at the prompt alone",
        _each(_cut),
        Setting(
            _alone(
                "resumes-uncut",
                config(
                    *(5, 1, 3),
                    enable_chunked_prefill=False,
                    enable_prefix_caching=False,
                    scheduler_reserve_full_isl=False,
                ),
                Template("a", (A,), 3),
                Template("b", (B, B), 3),
            )
        ),
    ),
    Precondition(
        "prompt-length",
        "the prompt is shorter than max_model_len: there is room for a token of output",
        "normative refuses the request at arrival (LIFE-2); vLLM's front end does, its scheduler "
        "does not",
        _each(lambda c, t: len(t.prompt) < c.max_model_len),
        Setting(
            _alone("all-prompt", config(4, 2, 2, max_model_len=4), Template("a", (A,) * 4, 1))
        ),
    ),
    Precondition(
        "min-tokens",
        "a length limit stops a request even below min_tokens, or min_tokens is no more than "
        "max_tokens and what max_model_len leaves",
        "normative stops it (UPD-4); vllm-0.22.1 does not",
        _ends,
        Setting(
            _alone(
                "no-room-for-min-tokens",
                config(4, 2, 4, max_model_len=4),
                Template("a", (A, A), 9, min_tokens=9),
            ),
            replace(NORMATIVE, length_before_min_tokens=False),
        ),
    ),
    Precondition(
        "ranks",
        "the policy is FCFS, or victims are chosen by the order of the queue, ids included, or no "
        "two live requests have the same priority and arrival time",
        "normative chooses by that order (PREEMPT-1); in vllm-0.22.1 of equals the first in the "
        "list goes, whoever came first",
        _ranked,
        Setting(
            replace(
                PAIR,
                name="ties",
                config=replace(PAIR.config, policy="priority", enable_prefix_caching=False),
                aborts=False,
            ),
            replace(NORMATIVE, victim_by_id=False),
        ),
    ),
    Precondition(
        "budget",
        "a step may compute at least one token",
        _CONFIGURED,
        lambda setting: setting.scope.config.max_num_scheduled_tokens >= 1,
        Setting(_alone("no-budget", config(2, 2, 0), Template("a", (A,), 1)), NORMATIVE),
    ),
    Precondition(
        "places",
        "at least one request may run",
        _CONFIGURED,
        lambda setting: setting.scope.config.max_num_seqs >= 1,
        Setting(_alone("no-places", config(2, 2, 4, 0), Template("a", (A,), 1)), NORMATIVE),
    ),
    _assumption(
        Assumption.STEPS,
        "whoever drives the engine",
        _alone("no-steps", config(2, 2, 4), Template("a", (A,), 1), pauses=(0, 1)),
    ),
    _assumption(Assumption.UNPAUSED, "whoever pauses it", HALTED),
    _assumption(Assumption.RESETS, "whoever resets its cache", DISTURBED),
    _assumption(Assumption.ARRIVALS, "its clients: PRIORITY promises no more", RANKED),
    _assumption(
        Assumption.ADAPTERS,
        "its clients: no place is kept for an adapter that waits for one",
        _alone(
            "no-place-for-ever",
            config(4, 2, 4, max_loras=1),
            Template("a", (A,), 1, adapter=2),
            Template("b", (B,), 2, adapter=1),
            Template("c", (C,), 2, adapter=1),
        ),
    ),
    _assumption(
        Assumption.GRAMMARS,
        "whoever compiles them",
        _alone(
            "never-compiled",
            config(2, 2, 4, grammars=True),
            Template("a", (A,), 1, grammar=True),
        ),
    ),
    _assumption(
        Assumption.CHUNKS,
        "its client: vLLM has no limit to how long a session may wait",
        _alone(
            "never-told",
            config(2, 2, 4, sessions=True),
            Template("a", (A,), 1, chunks=((B,),)),
        ),
    ),
    _assumption(
        Assumption.WAYS,
        "nobody: the blocks of a session that waits are never taken from it",
        SESSIONS_AHEAD,
    ),
    _assumption(
        Assumption.ANSWERS,
        "the connector",
        _with_connector("never-known", Template("a", (A, A), 1, remote=1, unsure=True)),
    ),
    _assumption(
        Assumption.LOADS,
        "the connector and its workers",
        _with_connector("never-loaded", Template("a", (A, A), 1, remote=2, loads_over_steps=True)),
    ),
    _assumption(
        Assumption.SENDS,
        "the connector and its workers",
        _with_connector(
            "never-sent",
            Template("a", (A, A, A), 1, delays_free=True),
            Template("b", (B, B, B), 1),
        ),
    ),
)
"""Those of the configuration and the request first, then those of what happens for ever."""

NOT_NEEDED: tuple[tuple[str, str], ...] = (
    ("scheduler_reserve_full_isl", "who started over makes way for whoever came before"),
    ("enable_prefix_caching", "what is lost is computed again"),
    ("long_prefill_token_threshold", "a chunk of one token is progress"),
    ("async_scheduling", "what is in flight comes back"),
    ("loads that do not fail", "each is tried once, and what is missing is computed"),
    (
        "no arrivals, no aborts",
        "under FCFS nobody who comes later is served before, but for grammars and adapters",
    ),
)
"""What one might think is needed: each scope of `nullblock.spec.liveness.scopes` does without."""


def violated(setting: Setting) -> list[str]:
    """The names of the conditions that a setting does not meet."""
    return [p.name for p in PRECONDITIONS if not p.holds(setting)]
