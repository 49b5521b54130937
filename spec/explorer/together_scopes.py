"""The scopes in which loads meet drafts, layers that see a part of the past and steps in flight.

Two groups stand beside a store that loses nothing, and beside a lossy one, as one group does that
is a window.
"""

from dataclasses import replace

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Group

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
FULL, WINDOW = Group(), Group(sliding_window=3)


def _config(blocks: int, drafts: int, *groups: Group, **more: object) -> Config:
    """`blocks` usable blocks of two tokens, and so many drafts: the null block comes on top. Steps
    are scheduled ahead.
    """
    settings = {"max_num_scheduled_tokens": 5, "max_num_seqs": 2, "max_model_len": 8}
    together = {"connector": True, "async_scheduling": True, "num_spec_tokens": drafts}
    plain = {"scheduler_reserve_full_isl": False, "groups": groups}
    return Config(blocks + 1, 2, **{**settings, **together, **plain, **more})  # type: ignore[arg-type]


_LOADED = Template("a", (A, A, A, A, A), 1, remote=4, loads_over_steps=True, misses=2)
_LONG = Template("b", (A, A), 6, remote=2, misses=2)
REMOTE_AHEAD = Scope(
    "remote-ahead",
    "two groups, loads over steps and within one, drafts, scheduling ahead, aborts",
    _config(8, 1, FULL, WINDOW),
    (_LOADED, _LONG),
    frozenset(
        "load-beside-drafts freed-beside-load rejected-behind-window loads-apart null-for-load "
        "load-begins load-within-a-step load-ended abort-loading kept left-behind runs-ahead "
        "drafts-taken drafts-rejected preempted-in-flight abort-in-flight "
        "id-reused-in-flight".split()
    ),
    halves=True,
    depth=2,
)
RULES_REMOTE_AHEAD = Scope(
    "rules-remote-ahead",
    "the same with drafts that are all wrong, and blocks that are sent: the invariants after "
    "every rule",
    _config(9, 2, FULL, WINDOW),
    (_LOADED, replace(_LONG, delays_free=True, misses=1)),
    frozenset(
        "load-beside-drafts freed-beside-load rejected-behind-window loads-apart load-ended "
        "kept drafts-lost earlier-run-rejected".split()
    ),
    halves=True,
    depth=2,
    aborts=False,
    every_rule=True,
)
_TWO = (
    Template("a", (A, A, A, A, A), 2, remote=4, loads_over_steps=True, misses=2),
    Template("b", (A, A, B), 3, remote=2, misses=2),
)
LOSSY_WINDOW = Scope(
    "lossy-window",
    "a lossy store beside a window, drafts, scheduling ahead: the invariants after every rule",
    _config(5, 2, WINDOW),
    _TWO,
    frozenset(
        "loses-beside-drafts starts-over-with-drafts freed-beside-load rejected-behind-window "
        "loses-all loses-window token-dropped drafts-dropped runs-ahead "
        "preempted-in-flight".split()
    ),
    halves=True,
    depth=2,
    aborts=False,
    lossy=True,
    every_rule=True,
)
LOSSY_WINDOW_ENDS = replace(
    LOSSY_WINDOW,
    name="lossy-window-ends",
    purpose="the same where who lacks blocks ends",
    config=_config(5, 2, WINDOW, fail_failed_loads=True),
    witnesses=frozenset(
        "loses-beside-drafts lacks-with-drafts ends-lacking freed-beside-load "
        "rejected-behind-window abort-in-flight id-reused-in-flight runs-ahead".split()
    ),
    every_rule=False,
)
LOSSY_GROUPS = replace(
    LOSSY_WINDOW,
    name="lossy-groups",
    purpose="two groups, a lossy store, drafts, scheduling ahead: who lacks blocks of one starts "
    "over",
    config=_config(8, 1, FULL, WINDOW),
    witnesses=frozenset(
        "loses-beside-drafts lacks-one-group starts-over-with-drafts loses-all freed-beside-load "
        "loads-apart null-for-load load-within-a-step load-ended left-behind "
        "rejected-behind-window token-dropped drafts-dropped runs-ahead "
        "preempted-in-flight".split()
    ),
    every_rule=False,
)
LOSSY_GROUPS_ENDS = replace(
    LOSSY_GROUPS,
    name="lossy-groups-ends",
    purpose="the same where who lacks blocks ends",
    config=_config(8, 1, FULL, WINDOW, fail_failed_loads=True),
    witnesses=frozenset(
        "loses-beside-drafts lacks-one-group lacks-with-drafts ends-lacking freed-beside-load "
        "loads-apart null-for-load left-behind rejected-behind-window abort-in-flight "
        "id-reused-in-flight runs-ahead preempted-in-flight".split()
    ),
)
RULES_LOSSY_GROUPS = replace(
    LOSSY_GROUPS,
    name="rules-lossy-groups",
    purpose="shorter requests, one step in flight: the invariants after every rule",
    templates=(
        Template("a", (A, A, A), 1, remote=2, loads_over_steps=True),
        Template("b", (A, A, B), 2, remote=2, misses=1),
    ),
    witnesses=frozenset(
        "loses-beside-drafts lacks-one-group starts-over loses-all loads-apart load-within-a-step "
        "load-ended token-dropped".split()
    ),
    depth=1,
    every_rule=True,
)
TOGETHER_SCOPES = (
    *(REMOTE_AHEAD, RULES_REMOTE_AHEAD),
    *(LOSSY_WINDOW, LOSSY_WINDOW_ENDS),
    *(LOSSY_GROUPS, LOSSY_GROUPS_ENDS, RULES_LOSSY_GROUPS),
)
