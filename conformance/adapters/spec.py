"""The specification as the driver sees it: the machine's operations over an indexed state."""

from typing import Any

from nullblock.conformance.adapters.shape import REMOVED_FROM, STORED_FROM
from nullblock.conformance.adapters.spec_drafts import Drafts
from nullblock.conformance.drafting import Drafted
from nullblock.conformance.engine import CORE_FEATURES, Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario_format import Config
from nullblock.spec import facts
from nullblock.spec.cache_events import AllBlocksCleared, BlockRemoved, BlockStored, CacheEvent
from nullblock.spec.concrete import State
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import (
    CHUNK,
    CONTINUE,
    EOS,
    LENGTH,
    PLAIN,
    STOP_ID,
    STOPPED,
    STOPPED_BY_ID,
)
from nullblock.spec.flight import begins, in_flight
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.keys import Keys, extra_keys, told_keys
from nullblock.spec.later import discarded
from nullblock.spec.machine import events
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.names import PAUSE, STATUS
from nullblock.spec.profiles import Semantics
from nullblock.spec.rejection import why_unservable
from nullblock.spec.state import live

FEATURES = CORE_FEATURES | {Feature.drafts}
NO_CHAIN = 0
"""The chain of a block that is not full yet: no block carries it."""
FINISH = {CONTINUE: None, STOPPED: "stop", STOPPED_BY_ID: "stop", LENGTH: "length"}


def create(config: Config, semantics: Semantics) -> Engine:
    """The specification under a scenario's configuration."""
    return _Spec(constants(config, semantics), config)


def constants(config: Config, semantics: Semantics) -> facts.Config:
    """What the rules need of a scenario's configuration."""
    return facts.Config(
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        max_num_scheduled_tokens=facts.token_budget(
            config.max_num_batched_tokens, config.max_num_scheduled_tokens, semantics
        ),
        watermark_blocks=facts.blocks_of_watermark(config.watermark, config.num_blocks, semantics),
        max_num_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        enable_chunked_prefill=config.enable_chunked_prefill,
        enable_prefix_caching=config.enable_prefix_caching,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        policy=config.policy,
        async_scheduling=config.async_scheduling,
        num_spec_tokens=config.num_spec_tokens,
        spec_method=config.spec_method,
        eagle_group=config.groups[0].eagle,
        drafts_from_outside=True,
        semantics=semantics,
    )


class _Tokens(IndexedEnv):
    """An environment that knows every request's tokens and gives each distinct chain of blocks
    a number: an ideal hash.
    """

    def __init__(self, config: facts.Config, listening: bool, drafts: Drafts) -> None:
        super().__init__(config)
        self.told_drafts = drafts
        self.taken: dict[str, int] = {}
        self.added: dict[str, NewRequest] = {}
        self.content: dict[str, list[int]] = {}
        self.chains: dict[str, list[int]] = {}
        self.numbers: dict[tuple[int, tuple[int, ...], Keys], int] = {}
        self.incoming: dict[str, list[int]] = {}
        self.outputs: list[Fields] = []
        self.listening = listening
        self.events: list[Fields] = []

    def introduce(self, r: NewRequest) -> None:
        """Learn the facts about a request; an earlier one with its id is forgotten."""
        self.added[r.id] = r
        self.content[r.id] = list(r.prompt)
        self.chains[r.id] = []
        self.requests[r.id] = facts.Request(
            id=r.id,
            prompt_len=len(r.prompt),
            max_tokens=r.max_tokens,
            min_tokens=r.min_tokens,
            priority=r.priority,
            arrival=r.arrival,
            skip_reading_prefix_cache=bool(r.skip_cache_read),
        )

    def want(self, r: Any, i: int) -> int:
        chain, size = self.chains[r], self.block_size
        if (i + 1) * size > len(self.content[r]):
            return NO_CHAIN
        while len(chain) <= i:
            n = len(chain)
            tokens = tuple(self.content[r][n * size : (n + 1) * size])
            added = self.added[r]
            extra = extra_keys(self.sem, added.lora, added.salt, n == 0)
            key = (chain[-1] if chain else 0, tokens, extra)
            chain.append(self.numbers.setdefault(key, len(self.numbers) + 1))
        return chain[i]

    def on_token(self, s: State, r: Any) -> None:
        taken = self.taken.get(r, 0)
        self.content[r].append(self.incoming[r][taken])
        self.taken[r] = taken + 1

    def accepted(self, s: State, r: Any) -> int:
        count = len(self.incoming[r]) - 1
        self.told_drafts.verified(r, s.ndraft[s.cur], count)  # type: ignore[attr-defined]
        return count

    def last_token(self, s: State, r: Any) -> int:
        token, added = self.content[r][-1], self.added[r]
        if added.eos is not None and token == added.eos:
            return EOS
        return STOP_ID if token in (added.stop or ()) else PLAIN

    def tell(self, reading: Any, s: State, *args: Any) -> None:
        if self.listening:
            event = reading(s, *args)
            if event is not None:
                self.events.append(self.event(s, event))

    def event(self, s: State, event: CacheEvent) -> Fields:
        """An event in the words of the driver; as in vLLM's stream a hash is a number.

        Raises IndexError for a block that the table has not: of a prompt longer than max_model_len
        vLLM tells more than it holds.
        """
        match event:
            case BlockStored(request=r, first=first, last=last):
                return self.stored(s, r, first, last)
            case BlockRemoved(hash=h):
                named = {"block_hashes": [h], "medium": "GPU", "group_idx": 0}
                origin = REMOVED_FROM if self.sem.events_tell_origin else {}
                return {"t": "BlockRemoved", **named, **origin}
            case AllBlocksCleared():
                return {"t": "AllBlocksCleared"}

    def stored(self, s: Any, r: str, first: int, last: int) -> Fields:
        """The fields of a BlockStored."""
        if last > s.tlen[r]:
            raise IndexError(f"request {r} has no block {last - 1}")
        added, size = self.added[r], self.block_size
        keys = [extra_keys(self.sem, added.lora, added.salt, i == 0) for i in range(first, last)]
        return {
            "t": "BlockStored",
            "block_hashes": [self.want(r, i) for i in range(first, last)],
            "parent_block_hash": self.want(r, first - 1) if first else None,
            "token_ids": self.content[r][first * size : last * size],
            "block_size": size,
            "lora_id": added.lora_id if added.lora else None,
            "medium": "GPU",
            "lora_name": added.lora,
            "extra_keys": [told_keys(k) for k in keys],
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
            "kv_cache_spec_sliding_window": None,
            **(STORED_FROM if self.sem.events_tell_origin else {}),
        }

    def take_events(self) -> list[Fields]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def note(self, s: State, r: Any, why: Any) -> None:
        tokens = self.content[r][-self.taken[r] :]
        self.outputs.append(
            {
                "id": r,
                "tokens": tokens,
                "finish": FINISH[why],
                "stop_reason": tokens[-1] if why == STOPPED_BY_ID else None,
            }
        )


class _Spec:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, config: facts.Config, scenario: Config) -> None:
        self.config = config
        self.drafts = Drafts.of(scenario)
        self.k = _Tokens(config, scenario.kv_events, self.drafts)
        self.s: Any = self.k.start()
        self.rejected: list[tuple[str, str]] = []
        self.told: list[Fields] = []
        self.pipeline = scenario.pipeline_parallel_size > 1 and not scenario.async_scheduling
        """Whether stages that do not sample are sent the tokens to compute."""
        self.chunks: set[str] = set()
        """Who computes, in the step scheduled last, less than it takes to sample a token."""

    @property
    def features(self) -> frozenset[Feature]:
        """What it does beyond the least."""
        return extent(FEATURES, self.k.sem)

    def add(self, request: NewRequest) -> None:
        """Queue a request, or note its rejection. Raises ValueError for impossible sampling
        parameters.
        """
        if request.max_tokens < 1 or not 0 <= request.min_tokens <= request.max_tokens:
            raise ValueError("max_tokens is at least 1 and min_tokens between 0 and max_tokens")
        self.k.introduce(request)
        if not events.add(self.s, request.id):
            reason = why_unservable(self.config, len(request.prompt), request.max_tokens)
            assert reason is not None, "a rejection has a reason"
            self.rejected.append((request.id, reason))

    def schedule(self) -> Fields:
        """Decide one step."""
        s = self.s
        out = schedule(s)
        entries = range(begins(s, s.steps - 1), s.nframe)
        self.chunks = {s.frame[i] for i in entries if s.due[i] == CHUNK}
        ahead = (
            [r for r, _ in out.num_scheduled_tokens if r not in self.chunks]
            if self.config.async_scheduling
            else []
        )
        return {**self.fields(out), "spec": self.drafts.scheduled(out, ahead)}

    def fields(self, out: SchedulerOutput) -> Fields:
        """A decision in the words of the driver's `schedule` line. Computed and output tokens
        are those before the step.
        """
        k = self.k
        return {
            "num_scheduled_tokens": dict(out.num_scheduled_tokens),
            "order": [r for r, _ in out.num_scheduled_tokens],
            "total": sum(n for _, n in out.num_scheduled_tokens),
            "new": [
                {
                    "id": q.id,
                    "blocks": [list(q.blocks)],
                    "computed": q.computed,
                    "prompt_len": k.prompt_len(q.id),
                    "prefill_len": None,
                }
                for q in out.new
            ],
            "cached": [
                {
                    "id": q.id,
                    "new_blocks": [list(q.new_blocks)] if q.new_blocks else None,
                    "computed": q.computed,
                    "num_output": q.num_output,
                    "resumed": q.resumed,
                    "all_token_ids": q.all_tokens,
                }
                for q in out.cached
            ],
            "new_token_ids": self.tokens_to_compute(out) if self.pipeline else [],
            "preempted": sorted(out.preempted),
            "finished": sorted(out.finished),
            "num_common_prefix_blocks": out.common_prefixes,
            "new_block_ids_to_zero": None,
        }

    def tokens_to_compute(self, out: SchedulerOutput) -> list[list[int]]:
        """Of each request that the workers know, the tokens of this step."""
        granted, content = dict(out.num_scheduled_tokens), self.k.content
        return [content[q.id][q.computed : q.computed + granted[q.id]] for q in out.cached]

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Apply the output of the oldest step in flight. Raises IndexError if there is none."""
        if not in_flight(self.s):
            raise IndexError("no step is in flight")
        self.k.incoming, self.k.outputs, self.k.taken = sampled, [], {}
        self.drafts.returns()
        update_from_output(self.s)
        self.told += self.k.take_events()
        refused, self.rejected = self.rejected, []
        return [
            {"id": r, "tokens": [], "finish": "rejected", "stop_reason": why} for r, why in refused
        ] + self.k.outputs

    def propose(self, drafts: Drafted) -> None:
        """Take drafts for the steps to come."""
        self.drafts.propose(self.s, drafts)

    def fill_in(self, drafts: Drafted) -> Fields:
        """Write drafts into the newest step in flight."""
        return self.drafts.fill_in(self.s, drafts)

    def spec_stats(self) -> Fields | None:
        """What the last update counted of drafts."""
        return self.drafts.stats

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """Abort the live requests among `ids`, all in order of arrival for None."""
        if not status.startswith("FINISHED_"):
            raise AssertionError(f"{status} is not a finished status")
        known = sorted(
            (r for r in self.k.requests if live(self.s, r)), key=lambda r: self.s.arr[r]
        )
        asked = known if ids is None else dict.fromkeys(ids)
        return [r for r in asked if events.abort(self.s, r)]

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Forget every hash if no block is held."""
        return bool(events.reset_prefix_cache(self.s, reset_running))

    def pause(self, state: str) -> None:
        """Set the pause state by name."""
        events.pause(self.s, PAUSE[state])

    def evict_blocks(self, ids: list[int]) -> None:
        """Remove the hashes of blocks. Raises AssertionError for a block that the pool does not
        have.
        """
        for b in ids:
            if b > self.k.usable:
                raise AssertionError(f"no block {b}")
        events.evict_blocks(self.s, [b for b in ids if b])

    def kv_events(self) -> list[Fields]:
        """What the updates since the last call told of the prefix cache."""
        told, self.told = self.told, []
        return told

    def has_unfinished(self) -> bool:
        """Whether there is work, as vLLM counts it under the pause state."""
        return bool(events.unfinished(self.s) or self.rejected)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self.has_unfinished() or bool(self.s.finished)

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a live request."""
        return self.s.ntok[id] if id in self.k.requests and live(self.s, id) else None

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return id in self.chunks

    def state(self, dump: Dump) -> Fields | None:
        """The state in the driver's words."""
        if dump == "none":
            return None
        s, k = self.s, self.k
        waiting = sorted(s.rank, key=k.order) if k.priority else list(s.rank)
        d: Fields = {
            "waiting": waiting,
            "skipped_waiting": [],
            "running": [s.run[i] for i in range(s.nr)],
            "num_free": s.nfree,
            "finished_req_ids": sorted(s.finished),
            "requests": {r: self.request(r) for r in k.requests if live(s, r)},
        }
        return d | self.pool() if dump == "full" else d

    def request(self, r: str) -> Fields:
        """One request in the driver's words."""
        s, k = self.s, self.k
        return {
            "status": STATUS[s.stage[r]],
            "computed": s.comp[r],
            "tokens": s.ntok[r],
            "output": s.ntok[r] - k.prompt_len(r),
            "placeholders": placeholders(s, r),
            "discard": discarded(s, r),
            "spec": s.spec[r],
            "preemptions": s.npre[r],
            "blocks": [[s.tab[r, i] for i in range(s.tlen[r])]],
            "num_cached_block": [s.ncached[r] or None],
        }

    def pool(self) -> Fields:
        """The block pool in the driver's words; a hash is the number of its chain."""
        s = self.s
        names = {h: f"{h:012x}:0" for h in s.hsh.holders}
        return {
            "free_queue": list(s.stamp),
            "ref_cnt": {str(b): n for b, n in sorted(s.ref.items()) if n},
            "block_hash": {str(b): names[h] for b, h in sorted(s.hsh.items())},
            "cached_map": {names[h]: list(blocks) for h, blocks in s.hsh.holders.items()},
        }
