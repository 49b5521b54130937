"""What an engineer on call can do about a decision that no rule explains."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.explanation import Like, Tried
from nullblock.conformance.trace.records import Header
from nullblock.spec.departures import DEPARTURES, Defect
from nullblock.spec.profiles import Semantics
from nullblock.spec.switches import meaning

FEW = 2
"""Known departures that are told at length."""
HOW = (
    "a vLLM: tests/oracle/README.md of this project; a scheduler of one's own: pytest "
    "--nullblock-scheduler; nullblock run tells what the rules decide"
)
"""How an engine is given a scenario."""
NAMES = (
    "requests have numbers here, in order of arrival: to find them in the server's log, record "
    "with NULLBLOCK_TRACE_NAMES=1"
)
"""What a story says that cannot name its requests."""
_ID = re.compile(r"\b[A-Z]+-[1-9][0-9]*\b")

BUDGET = ("max_num_scheduled_tokens", "long_prefill_token_threshold", "enable_chunked_prefill")
LAYERS = ("groups", "mamba_split", "num_spec_tokens", "spec_method")
"""What steps are cut for, beside the budget."""
SEATS = ("max_num_seqs", "scheduler_reserve_full_isl", "num_blocks", "policy")
POOL = ("num_blocks", "block_size", "policy")
SETTINGS: dict[str, tuple[str, ...]] = {
    "RUN": (*BUDGET, "max_model_len", "runner_type", *LAYERS),
    "WAIT": (*BUDGET, *SEATS, *LAYERS),
    "ALLOC": POOL,
    "PREEMPT": POOL,
    "QUEUE": POOL,
    "POOL": POOL,
    "TABLE": POOL,
    "HASH": ("enable_prefix_caching", "block_size"),
    "GROUP": (*POOL, "groups"),
    "ENC": ("encoder", *BUDGET),
    "SESS": (*POOL, "max_model_len"),
    "REMOTE": POOL,
    "UPD": ("max_model_len",),
    "DRAFT": ("num_spec_tokens", "spec_method", *BUDGET),
    "LIFE": ("max_model_len", "num_blocks", "block_size", *BUDGET),
    "OUT": (),
}
"""The settings of a header that a family of rules depends on."""
INPUTS = {
    "HASH": "hashes depend on adapters, salts and multi-modal content, and on resets and "
    "evictions: does anything else in the server touch the prefix cache?",
    "UPD": "ends depend on each request's stop ids, eos and min_tokens: are they the ones that "
    "the recorder saw?",
    "DRAFT": "drafts are counted as they are proposed and as they come back: does anything else "
    "propose some, or cut them?",
    "LIFE": "arrivals, aborts and pauses may come from other threads: is there a way into the "
    "engine that the recorder does not see?",
    "OUT": "does a plugin, a connector or a subclass change what the scheduler has put out?",
}
"""What else a family of rules depends on, as a question."""

BLOCKS = (
    "a block may be two requests' at once, or nobody's for good: answers given since may be "
    "wrong, whoever they were for. Take the server out of rotation, and restart it, which empties "
    "the pool"
)
TURNS = (
    "who is served when is another than by the rules: no answer is wrong by that, but some may "
    "come late, or never. Go on serving, and watch whether requests stand still"
)
OF = {
    "DRAFT": ("drafts", "tokens may be there that the model did not choose"),
    "ENC": ("encoder inputs", "embeddings may be missing, or another input's"),
    "SESS": ("streaming sessions", "a turn may go on from other tokens than were sent"),
    "REMOTE": ("the KV connector", "blocks may be read before they are loaded"),
}
"""By family the feature that it is about, and what it may mean for those served with that."""
EFFECTS = {
    **dict.fromkeys(("POOL", "QUEUE", "TABLE", "ALLOC", "GROUP"), BLOCKS),
    **dict.fromkeys(("RUN", "WAIT", "PREEMPT", "LIFE"), TURNS),
    "HASH": "a request may go on from what another prompt has computed, or compute again what is "
    "cached: answers may be wrong. Reset the prefix cache, or restart without it, until it is "
    "explained",
    "UPD": "requests may have a token too many or too few, or end at another place: answers given "
    "since may be wrong",
    "OUT": "workers may compute with other blocks or tokens than were decided: answers given "
    "since may be wrong. Take the server out of rotation",
    **{
        family: f"with {feature} {effect}: hold such answers back, or restart without "
        f"{feature}, until it is explained"
        for family, (feature, effect) in OF.items()
    },
}
"""What it may mean for whoever is served, if the engine really did that; what to do at once."""

LOOKS: dict[str, tuple[str, ...]] = {
    "RUN-4": ("skipped-request",),
    "PREEMPT-2": ("skipped-request", "outgrown-pool", "start-over", "taking-turns"),
    "RUN-2": ("long-prompt", "full-prompt"),
    "RUN-1": ("long-prompt",),
    "WAIT-2": ("long-prompt",),
    "HASH-10": ("uncomputed-hit", "one-spelling"),
    "HASH-11": ("uncomputed-hit", "one-spelling"),
    "HASH-12": ("uncomputed-hit", "one-spelling"),
    "UPD-3": ("next-owner",),
    "WAIT-9": ("unfit-prompt", "uncut-prompt", "outgrown-pool"),
}
"""Departures that show as a mismatch of a rule which is not the one that they break."""


def settings(header: Header, rule: str | None) -> dict[str, Any]:
    """The settings in the header that a rule depends on."""
    config = msgspec.to_builtins(header.config)
    names = dict.fromkeys(SETTINGS.get(family(rule), ()))
    return {name: config[name] for name in names if name in config}


def family(rule: str | None) -> str:
    """The family of a rule; of none, nothing."""
    return rule.partition("-")[0] if rule is not None else ""


def like(rule: str | None, semantics: Semantics) -> tuple[Like, ...]:
    """The known departures that would look like this, among those that the semantics is not told
    to follow.
    """
    return tuple(
        Like(d.name, d.upstream, d.story, f"{d.switch}={str(d.value).lower()}")
        for d in DEPARTURES
        if rule is not None and getattr(semantics, d.switch) != d.value and looks(d, rule)
    )


def looks(d: Defect, rule: str) -> bool:
    """Whether a departure shows as a mismatch of a rule."""
    cited = set(_ID.findall(meaning(d.switch))) | {d.breaks}
    return rule in cited or d.name in LOOKS.get(rule, ())


def after_raise(error: str, step: int, found: Tried) -> Iterator[str]:
    """What to do where the engine raised: a server's log has what a trace does not tell.

    `found`: profiles and switches with which the rules raise there, too.
    """
    if found.names:
        yield (
            f"with any of these the rules raise there, too: {'; '.join(found.names)}. It may be a "
            "known defect of that release (nullblock defects)"
        )
    yield from _left(found)
    yield (
        f"look for the traceback of {error} in the server's log: the engine raised it in step "
        f"{step} of the recording, and it names the line at fault"
    )
    yield (
        "run the scenario of the whole run (nullblock check --scenario FILE) on the engine "
        f"({HOW}): if it does not raise there, what raised hangs on something that the trace does "
        "not tell"
    )


def _left(found: Tried) -> Iterator[str]:
    """That some switches were not tried, and how to try one."""
    if found.untried:
        yield (
            f"{found.untried} switches were not tried, for it would have taken long: nullblock "
            "check --profile NAME --set SWITCH=VALUE tries one (nullblock profiles lists them)"
        )


def steps(
    m: Mismatch,
    header: Header,
    found: Tried,
    alike: tuple[Like, ...],
) -> Iterator[str]:
    """What to do, first things first."""
    kind = family(m.rule)
    engine = f"{header.engine.name} {header.engine.version}"
    if found.names:
        yield (
            "a wrong profile rather than a wrong engine? With any of these the rules decide as "
            f"recorded: {'; '.join(found.names)}. Compare the version and the patches of "
            f"{engine}, and judge the whole trace by the one that fits"
        )
    elif found.tried:
        blame = "" if found.untried else ": a setting for which a trace has no word might"
        yield f"no other profile, and no {found.tried}, explains it{blame}"
    else:
        yield f"judge it by another profile if {engine} is not what the profile stands for"
    yield from _left(found)
    if not found.names and kind in EFFECTS:
        yield f"meanwhile: {EFFECTS[kind]}"
    for d in alike[:FEW]:
        yield f"it looks like the known departure {d.name} (upstream {d.upstream}): {d.story}"
    if more := [d.name for d in alike[FEW:]]:
        yield f"or like {', '.join(more)} (nullblock explore --departures NAME tells each)"
    if told := settings(header, m.rule):
        values = ", ".join(f"{name}={value}" for name, value in told.items())
        yield f"compare with the settings that the server really ran with: {values}"
    if kind in INPUTS:
        yield INPUTS[kind]
    yield (
        "run the minimal scenario, if there is one (nullblock check --scenario FILE), on the "
        f"engine ({HOW}): if it decides there as the rules do, the fault hangs on something that "
        "the trace does not tell"
    )
    yield (
        "if it decides there as it was recorded, it is a defect of the engine: report it with "
        "that scenario"
    )
