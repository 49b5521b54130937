"""What a verdict does not see: what a trace could tell of a decision, and this one does not.

An optional part that a record leaves out is not compared, and neither is what a header says was
not recorded. Both are named, so that nobody takes them for checked. What a trace could have shown
and had no occasion to is no part of this: that is which rules never decided.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.records import (
    Abort,
    Header,
    PostState,
    Reset,
    Schedule,
    State,
    Stored,
    Update,
)
from nullblock.conformance.trace.sessions import RESUMABLE

KINDS = {
    "add": "requests that arrive",
    "output": "what was sampled",
    "abort": "aborts",
    "pause": "pauses",
    "reset": "resets of the prefix cache",
    "evict": "evictions of blocks by id",
    "schedule": "steps",
    "update": "what became of the output",
    "state": "whole states: block tables, the free queue, who holds a block, what is cached",
}
"""Kinds of records, and what they tell."""
BLOCK_IDS = {
    "opaque": "which of the engine's blocks one is: names are told apart, and no more",
    "absent": "which blocks anybody gets, shares, or gives up: only how many of them",
}
POST = {
    "num_free": "how many blocks are free",
    "num_running": "how many run",
    "num_waiting": "how many wait",
    "running": "who runs, in which order",
    "waiting": "who waits, in which order",
}
"""The state that comes with a decision."""
CACHED = {
    "computed": "how many tokens running requests had computed",
    "num_output": "how many output tokens they had",
    "blocks": "which blocks they got",
    "all_tokens": "whose tokens are sent again",
}
STATES = {
    "free_queue": "the order of the free queue",
    "ref_cnt": "how many hold a block",
    "chains": "which block is cached with what",
    "finished": "who has ended and is not reported yet",
    "previous": "who was scheduled in the step before",
    "pause_state": "whether scheduling is paused",
    "in_flight": "the steps in flight",
}
"""Parts of a whole state."""
REQUESTS = {
    "blocks": "the block tables of requests",
    "prompt": "what else is known of requests: tokens in flight, preemptions, cached blocks",
    "chain": "what is in the blocks of requests, told once more",
    "states_before": "the states before the last growth of a table",
}
"""Parts of what a whole state says of requests."""

Missing = Callable[[Any], bool]
Checks = dict[str, tuple[str, Missing]]
"""By field: what it tells, and whether a record lacks it."""


class Unseen:
    """What has not been told so far. Memory: a line for each of some fields."""

    def __init__(self, header: Header) -> None:
        self.found = dict(_of_header(header))
        """Field to what it would tell."""
        self._open = _checks(header)

    def take(self, record: object) -> None:
        """The next record that is judged."""
        open_ = self._open.get(type(record))
        if open_:
            lacks = [field for field, (_, lacking) in open_.items() if lacking(record)]
            for field in lacks:
                self.found[field], _ = open_.pop(field)

    def lines(self) -> list[str]:
        """In words, the fields first; a line for all fields that tell the same."""
        told: dict[str, list[str]] = {}
        for field, what in self.found.items():
            told.setdefault(what, []).append(f"`{field}`")
        return [f"{', '.join(fields)}: {what}" for what, fields in told.items()]


def _of_header(header: Header) -> Iterator[tuple[str, str]]:
    """What the header says was not recorded."""
    for kind, what in KINDS.items():
        if (told := getattr(header.observed, kind)) == "absent" or (
            told != "complete" and kind != "state"
        ):
            yield kind, f"{what} ({told})"
    if header.observed.events != "complete":
        yield "update.events", f"KV events ({header.observed.events})"
    if header.block_ids != "exact":
        yield "block_ids", BLOCK_IDS[header.block_ids]


def _checks(header: Header) -> dict[type[object], Checks]:
    """What is looked for in the records of a trace with this header, each until it is missing."""
    step: Checks = {
        "schedule.common_prefix": ("the common prefix blocks", _lacks("common_prefix"))
    }
    for name, what in CACHED.items():
        step[f"schedule.cached.{name}"] = what, _cached_lacks(name)
    if header.block_ids == "absent":
        del step["schedule.cached.blocks"]
    else:
        step["schedule.new.blocks"] = "which blocks new requests get", _new_lacks("blocks")
    if header.config.use_v2_model_runner:
        told = "how many tokens are sent of new requests"
        step["schedule.new.prefill"] = told, _new_lacks("prefill")
    return {
        Schedule: step | _post("schedule"),
        Update: _ends(header) | _post("update"),
        Abort: {"abort.aborted": ("who was aborted", _lacks("aborted"))} | _post("abort"),
        Reset: {"reset.ok": ("whether a cache was emptied", _lacks("ok"))} | _post("reset"),
        State: _state(header),
    }


def _state(header: Header) -> Checks:
    """What is looked for in whole states."""
    c = header.config
    found = {f"state.{name}": (what, _lacks(name)) for name, what in STATES.items()}
    for name, what in REQUESTS.items():
        found[f"state.requests.{name}"] = what, _requests_lack(name)
    found["state.requests.session"] = "what sessions have been sent", _lacks_sessions
    if c.encoder is not UNSET:
        found["state.encoder"] = "the encoder cache", _lacks("encoder")
    if c.connector is not UNSET:
        found["state.remote"] = "which loads and sends are under way", _lacks("remote")
        found["state.remote.kept.blocks"] = "which blocks they are of", _lacks_kept
    if not any(group.mamba == "align" for group in c.groups):
        del found["state.requests.states_before"]
    if not c.enable_prefix_caching:
        del found["state.chains"], found["state.requests.chain"]
    if header.block_ids == "absent":
        found = {field: check for field, check in found.items() if field not in OF_BLOCKS}
    return found


OF_BLOCKS = (
    *("state.free_queue", "state.ref_cnt", "state.chains", "state.requests.blocks"),
    "state.remote.kept.blocks",
)
"""Parts of a state that are made of block ids."""


def _post(kind: str) -> Checks:
    """The state that comes with a record of this kind: as a whole, and part by part."""
    every = ", ".join(POST.values())
    found: Checks = {f"{kind}.state": (f"after it: {every}", _lacks("state"))}
    for name, what in POST.items():
        found[f"{kind}.state.{name}"] = f"{what} after it", _post_lacks(name)
    return found


def _ends(header: Header) -> Checks:
    """What is looked for in updates. Where no KV events are recorded, the header says so."""
    found: Checks = {"update.finish.why": ("why requests are rejected", _lacks_reasons)}
    if header.observed.events == "complete":
        found["update.events"] = "KV events", _lacks("events")
        for name, what in (("kind", "of which kind"), ("window", "how wide")):
            told = f"{what} the layers are that KV events are about"
            found[f"update.events.{name}"] = told, _events_lack(name)
    return found


def _lacks(name: str) -> Missing:
    return lambda record: getattr(record, name) is UNSET


def _post_lacks(name: str) -> Missing:
    def lacking(record: Any) -> bool:
        state: PostState | UnsetType = record.state
        return state is not UNSET and getattr(state, name) is UNSET

    return lacking


def _cached_lacks(name: str) -> Missing:
    def lacking(record: Schedule) -> bool:
        return record.cached is not UNSET and getattr(record.cached, name) is UNSET

    return lacking


def _new_lacks(name: str) -> Missing:
    return lambda record: any(getattr(q, name) is UNSET for q in record.new)


def _requests_lack(name: str) -> Missing:
    """Where ``prompt`` is absent, nothing else is known of a request but its table."""

    def lacking(record: State) -> bool:
        told = record.requests
        if name not in ("blocks", "prompt"):
            told = [q for q in told if q.prompt is not UNSET]
        return any(getattr(q, name) is UNSET for q in told)

    return lacking


def _lacks_sessions(record: State) -> bool:
    return any(RESUMABLE in q.features and q.session is UNSET for q in record.requests)


def _lacks_kept(record: State) -> bool:
    return record.remote is not UNSET and any(one.blocks is UNSET for one in record.remote.kept)


def _lacks_reasons(record: Update) -> bool:
    return any(f.reason == "rejected" and f.why is UNSET for f in record.finish)


def _events_lack(name: str) -> Missing:
    def lacking(record: Update) -> bool:
        events = () if record.events is UNSET else record.events
        return any(getattr(e, name) is UNSET for e in events if isinstance(e, Stored))

    return lacking
