"""Where vllm-0.22.1 goes wrong with drafts: what breaks, and the scope in which it shows.

`nullblock.spec.departures` makes departures of these.
"""

from dataclasses import dataclass, field
from typing import Any

from nullblock.spec.explorer.model import Template
from nullblock.spec.facts import Config, Group

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


@dataclass(frozen=True, slots=True)
class DraftDefect:
    """One departure, before it is one."""

    name: str
    switch: str
    upstream: str
    breaks: str
    story: str
    config: Config
    templates: tuple[Template, ...]
    witnesses: str
    more: dict[str, Any] = field(default_factory=dict)
    """Of the scope: how many steps are in flight, what may be reset."""
    companions: tuple[str, ...] = ()
    """Other switches that must differ from normative too."""


def _config(blocks: int, drafts: int = 2, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_scheduled_tokens": 6, "max_num_seqs": 3, "max_model_len": 8}
    settings |= {"scheduler_reserve_full_isl": False, "num_spec_tokens": drafts}
    return Config(blocks + 1, 2, **{**settings, **more})  # type: ignore[arg-type]


def _wrong(max_tokens: int) -> tuple[Template, ...]:
    """One request, of which the model agrees with no draft."""
    return (Template("a", (A,), max_tokens, misses=1),)


DRAFT_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "drafts-taken-back",
        "never_scheduled_back",
        "none known",
        "RUN-23",
        "in step, a request whose drafts are in flight is scheduled a negative number of tokens",
        _config(4),
        _wrong(3),
        "waits-for-drafts drafts-rejected",
        {"depth": 2},
    ),
    DraftDefect(
        "rejected-in-the-next-run",
        "rejections_keep_to_their_run",
        "46066, 49860",
        "UPD-14",
        "a rejection from before a preemption takes back what the resumed request has computed",
        _config(3, drafts=1, policy="priority", max_model_len=6, async_scheduling=True),
        (Template("a", (A,), 4, misses=1), Template("b", (B,), 4, misses=1, priority=1)),
        "three-in-flight preempted-in-flight resumed-in-flight earlier-run-rejected",
        {"depth": 3},
    ),
    DraftDefect(
        "drafts-dropped-as-outputs",
        "discards_count_outputs",
        "46066, 49860",
        "UPD-19",
        "a reset with drafts in flight drops as many outputs as there are tokens in them",
        _config(4, async_scheduling=True),
        _wrong(4),
        "drafts-dropped",
        {"depth": 2, "resets": (True,)},
    ),
    DraftDefect(
        "drafts-for-the-preempted",
        "drafts_for_running_only",
        "none known",
        "DRAFT-12",
        "a request that waits keeps drafts, which are scheduled for positions already sampled",
        _config(4),
        _wrong(3),
        "token-to-preempted",
        {"depth": 1, "resets": (True,)},
    ),
    DraftDefect(
        "nothing-sampled",
        "silence_starts_over",
        "42722",
        "UPD-19",
        "a step returns without a request's token, which counts as in flight, and its drafts as "
        "computed, for ever",
        _config(4, async_scheduling=True),
        (Template("a", (A, A), 3, silent_at=1),),
        "resume-with-hit",
        {"depth": 1},
    ),
    DraftDefect(
        "window-passes-with-drafts",
        "windows_await_verdicts",
        "47728, 47282",
        "GROUP-8",
        "a window passes blocks by drafts in flight; these are rejected, and it sees them again",
        _config(6, groups=(Group(sliding_window=2),), async_scheduling=True),
        _wrong(5),
        "outlived-freed drafts-rejected",
        {"depth": 2},
    ),
)
"""In the order of a draft's way through the engine."""
