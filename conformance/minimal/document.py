"""Builds the scenario of a selection from a history."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never, get_args

from msgspec import UNSET

from nullblock.conformance.groups import CROSS
from nullblock.conformance.minimal import drafts, remote
from nullblock.conformance.minimal.content import EOS, Content
from nullblock.conformance.minimal.history import Arrival, Event, Half, History, Life
from nullblock.conformance.scenario_format import Status
from nullblock.conformance.trace.records import (
    Abort,
    CacheGroup,
    Draft,
    Error,
    Evict,
    Pause,
    Record,
    Reset,
    Schedule,
    TraceConfig,
    Update,
)

Document = dict[str, Any]
ENDS = frozenset(s for s in get_args(Status) if s.startswith("FINISHED_"))


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a history a scenario keeps."""

    events: tuple[Event, ...]
    """Before the decision."""
    cut: Mapping[Life, int] = field(default_factory=dict)
    """Prompt tokens, where they are fewer than were recorded."""
    num_blocks: int | None = None
    """The pool, if it is smaller than was recorded."""
    alike: bool = False
    """The model samples one and the same token always."""

    @property
    def lives(self) -> list[Life]:
        """Whose arrival is kept."""
        return [e.life for e in self.events if isinstance(e, Arrival)]

    def length(self, life: Life) -> int:
        """Tokens of a request's prompt."""
        return self.cut.get(life, life.add.prompt)

    @property
    def steps(self) -> int:
        """Steps scheduled before the decision."""
        return sum(isinstance(e, Half) and not e.update for e in self.events)


class Builder:
    """Makes scenarios of one history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.config = history.header.config
        self.names = _names(history)

    def build(self, selection: Selection) -> Document:
        """The scenario of a selection; its last event makes the decision, or precedes it."""
        lives = selection.lives
        content = Content(
            lives, self.names, self.config.block_size, selection.cut, alike=selection.alike
        )
        there = {life.number for life in lives}
        events = [e for event in selection.events for e in self._event(event, content, there)]
        history = self.history
        events += remote.events(history.said, history.news, self.names, there)
        events += self._decision(history.fault, there)
        outputs = [e.right for e in selection.events if isinstance(e, Half)]
        drafted = drafts.config(self.config, [*outputs, history.right], there)
        drafted |= history.remote.config(self.config, self.names, there)
        config = constants(self.config) | drafted | {"seed": content.seed, "vocab": content.vocab}
        if selection.num_blocks is not None:
            config["num_blocks"] = selection.num_blocks
        return {"config": config, "events": stepped(events)}

    def _event(self, event: Event, content: Content, there: set[int]) -> Iterator[Document]:
        match event:
            case Arrival():
                yield self._add(event.life, content)
            case Half():
                yield from remote.events(event.said, event.news, self.names, there)
                yield {"op": "update" if event.update else "schedule"}
            case Draft():
                yield drafts.event(event, self.names, there)
            case Abort():
                asked = event.asked or () if event.aborted is UNSET else event.aborted
                for r in asked:
                    # One by one: nothing else says in which order several go.
                    if r in there:
                        yield self._abort([r], event.status)
            case Pause():
                yield {"op": "pause", "state": event.pause_state}
            case Reset():
                yield _reset(event)
            case Evict():
                yield {"op": "evict_blocks", "ids": event.blocks}
            case _:
                assert_never(event)

    def _decision(self, fault: Record, there: set[int]) -> Iterator[Document]:
        match fault:
            case Schedule() | Error(during="schedule"):
                yield {"op": "schedule"}
            case Update() | Error(during="update"):
                yield {"op": "update"}
            case Abort():
                asked = None if fault.asked is None else [r for r in fault.asked if r in there]
                yield self._abort(asked, fault.status)
            case Reset() | Error(during="reset"):
                yield _reset(fault)
            case Evict():
                yield {"op": "evict_blocks", "ids": fault.blocks}
            case _:  # an observation: whatever was before it leads there
                pass

    def _abort(self, numbers: list[int] | None, status: str) -> Document:
        ids = None if numbers is None else [self.names[r] for r in numbers]
        event: Document = {"op": "abort", "ids": ids}
        if status in ENDS and status != "FINISHED_ABORTED":
            event["status"] = status
        return event

    def _add(self, life: Life, content: Content) -> Document:
        add = life.add
        event: Document = {
            "op": "add",
            "id": self.names[add.id],
            "prompt": content.prompt(life),
            "max_tokens": add.max_tokens,
        }
        if add.min_tokens:
            event["min_tokens"] = add.min_tokens
        if self.config.policy == "priority":
            event |= {"priority": add.priority}
            event |= {} if add.arrival is UNSET else {"arrival": add.arrival}
        if add.adapter:
            event |= {"lora": f"adapter{add.adapter}", "lora_id": add.adapter}
        if add.skip_reading_prefix_cache:
            event["skip_cache_read"] = True
        if life.eos is not None:
            event |= {"eos": EOS, "eos_at": life.eos}
        if life.stop is not None:
            event["stop"] = [content.sampled(life, life.stop)]
        return event


def written(document: Document) -> str:
    """A scenario as a file: an event a line."""
    config = json.dumps(document["config"])
    events = ",\n  ".join(json.dumps(event) for event in document["events"])
    return f'{{"config": {config},\n "events": [\n  {events}\n ]}}\n'


def constants(c: TraceConfig) -> Document:
    """The configuration; what stands there as it would by default is left out."""
    config: Document = {
        "block_size": _cache_block_size(c),
        "num_blocks": c.num_blocks,
        "max_num_batched_tokens": c.max_num_scheduled_tokens,
        "max_num_seqs": c.max_num_seqs,
        "max_model_len": c.max_model_len,
    }
    if c.watermark_blocks:
        # A share: half a block more, so that rounding down gives the blocks again.
        config["watermark"] = (c.watermark_blocks + 0.5) / c.num_blocks
    if c.long_prefill_token_threshold > 0:
        config["long_prefill_token_threshold"] = c.long_prefill_token_threshold
    for name in ("enable_chunked_prefill", "enable_prefix_caching", "scheduler_reserve_full_isl"):
        if not getattr(c, name):
            config[name] = False
    if c.policy != "fcfs":
        config["policy"] = c.policy
    if getattr(c, "async_scheduling", False):
        config["async_scheduling"] = True
    if getattr(c, "use_v2_model_runner", False):
        config["use_v2_model_runner"] = True
    if c.groups:
        config["groups"] = [_group(group, c) for group in c.groups]
    if len(c.groups) > 1 and c.enable_prefix_caching and c.hit_unit != c.block_size:
        config["hash_block_size"] = c.block_size
    for group, told in zip(config.get("groups", ()), c.groups, strict=True):
        if told.eagle or c.eagle_group:
            group["eagle"] = True
    if c.max_num_batched_tokens:
        config["max_num_scheduled_tokens"] = c.max_num_scheduled_tokens
        config["max_num_batched_tokens"] = c.max_num_batched_tokens
    if c.max_concurrent_batches > 1:
        config["queue_depth"] = c.max_concurrent_batches
    if c.max_loras:
        config["max_loras"] = c.max_loras
    return config


def _cache_block_size(c: TraceConfig) -> int:
    """What the cache is configured with: where states are cached, the size of their blocks."""
    of_states = [g.block_size for g in c.groups if g.mamba is not UNSET and g.block_size]
    return c.mamba_split or next(iter(of_states), c.block_size)


def _group(group: CacheGroup, c: TraceConfig) -> Document:
    size = group.block_size or c.block_size
    own: Document = {} if size == _cache_block_size(c) else {"block_size": size}
    if group.sliding_window:
        return own | {"type": "sliding_window", "sliding_window": group.sliding_window}
    if group.attention_chunk_size:
        return own | {"type": "chunked_local", "chunk": group.attention_chunk_size}
    if group.mamba is not UNSET:
        own |= {"type": "mamba", "mamba_cache_mode": group.mamba}
        states = group.num_speculative_blocks
        own |= {"num_speculative_blocks": states} if states else {}
        aligned = group.prefill_checkpoint_alignment
        return own | ({"prefill_checkpoint_alignment": aligned} if aligned else {})
    if group.sink_len:
        return own | {"type": "sink", "sink_len": group.sink_len}
    return own | {"type": CROSS if group.cross_attention else "full"}


def _reset(event: Reset | Error) -> Document:
    document: Document = {"op": "reset_prefix_cache"}
    return document | ({"reset_running": True} if event.reset_running is True else {})


def stepped(events: list[Document]) -> list[Document]:
    """The events with halves of a step that stand side by side put together and counted."""
    found: list[Document] = []
    for event in events:
        last = found[-1] if found else {}
        if event["op"] == "update" and last.get("op") == "schedule":
            found.pop()
            if found and found[-1]["op"] == "step":
                found[-1] = {"op": "step", "n": found[-1].get("n", 1) + 1}
            else:
                found.append({"op": "step"})
        else:
            found.append(event)
    return found


def _names(history: History) -> dict[int, str]:
    """An id for each request, which sort as ties are broken under the PRIORITY policy."""
    adds = {life.number: life.add for life in history.lives}
    if history.header.config.policy != "priority":
        return {r: f"r{r}" for r in adds}
    ties = {r: 0.0 if add.tie is UNSET else add.tie for r, add in adds.items()}
    order = sorted(adds, key=lambda r: (ties[r], r))
    width = len(str(max(adds, default=0)))
    if order == sorted(adds):
        return {r: f"r{r:0{width}}" for r in adds}
    return {r: f"{place:0{width}}-r{r}" for place, r in enumerate(order)}
