"""The specification as the driver sees it: the machine's operations over an indexed state."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nullblock.conformance.adapters.spec_constants import (
    FEATURES,
    check_groups,
    check_vector,
    constants,
    raising,
)
from nullblock.conformance.adapters.spec_drafts import Drafts
from nullblock.conformance.adapters.spec_encoder import refused
from nullblock.conformance.adapters.spec_heard import Heard
from nullblock.conformance.adapters.spec_remote import RemoteKV, check_connector, is_known
from nullblock.conformance.adapters.spec_sessions import (
    check_decided,
    check_place,
    check_session,
    check_turns,
    queues,
)
from nullblock.conformance.adapters.spec_tokens import Refusal, Tokens
from nullblock.conformance.adapters.spec_waits import Grammars, check_id
from nullblock.conformance.drafting import Drafted
from nullblock.conformance.engine import Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.groups import block_sizes, by_group
from nullblock.conformance.lines.extent import check_followed, extent
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.unruled import holders
from nullblock.spec import facts
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import CHUNK
from nullblock.spec.flight import begins, in_flight
from nullblock.spec.later import discarded
from nullblock.spec.machine import events, sessions
from nullblock.spec.machine.output import SchedulerOutput, by_client
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.machine.waiting import order_queues
from nullblock.spec.names import BLOCKED, PAUSE, STATUS
from nullblock.spec.profiles import Semantics
from nullblock.spec.rejection import why_unservable
from nullblock.spec.sessions import awaits_input, num_output
from nullblock.spec.state import live
from nullblock.spec.turns import can_take


def create(config: Config, semantics: Semantics) -> Engine:
    """The specification under a scenario's configuration. Raises OutOfScope."""
    known = constants(config, semantics)
    check_groups(config, semantics)
    check_followed(config, semantics)
    check_connector(config, semantics)
    return _Spec(replace(known, grammars=True, pooling=True, sessions=True), config)


class _Spec:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, config: facts.Config, scenario: Config) -> None:
        self.config = config
        self.drafts = Drafts.of(scenario, config.semantics)
        self.grammar = Grammars()
        matched = scenario.connector.matched if scenario.connector else {}
        self.remote = RemoteKV(scenario, dict(matched))
        told = self.drafts, self.grammar, self.remote
        self.k = Tokens(config, scenario.kv_events, *told, block_sizes(scenario)[1])
        if scenario.encoder:
            self.k.know_connector(scenario.encoder.external)
        self.s: Any = self.k.start()
        self.rejected: list[Refusal] = []
        self.ended: dict[int, frozenset[str]] | None = None
        """By client, whose end the last update told."""
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
        if request.id in self.k.requests and is_known(self.s, request.id):
            self.add_chunk(request)
            return
        check_id(self.s, request.id)
        check_session(request)
        if request.pooling:
            check_vector(request)
        self.k.introduce(request)
        if not events.add(self.s, request.id):
            k, r = self.k, request.id
            items = k.requests[r].items
            reason = why_unservable(self.config, k.prompt_len(r), k.max_tokens(r), items)
            assert reason is not None, "a rejection has a reason"
            self.rejected.append((request.client_index, r, reason))
            return
        self.remote.arrives(self.s, request.id)
        if request.grammar is not None and request.grammar.is_ready:
            self.compile_grammars([request.id])

    def add_chunk(self, chunk: NewRequest) -> None:
        """What arrives with the id of a session is its next chunk, or its end; of one that has
        ended, and whose blocks are kept, nobody takes it.
        """
        s, id = self.s, chunk.id
        check_session(chunk)
        assert self.k.resumable(id), f"duplicate request id: {id!r}"
        if not live(s, id):
            return
        if not chunk.resumable:
            if awaits_input(s, id):
                self.remote.end(id, "FINISHED_ABORTED")
            sessions.end(s, id)
        elif not s.ended[id]:
            self.k.send(chunk)
            if awaits_input(s, id):
                if can_take(s, id):
                    check_place(s, id, chunk.arrival)
                else:
                    self.remote.end(id, "FINISHED_ABORTED")
                    self.rejected.append((self.k.client(id), id, self.k.why_refused(s, id)))
            sessions.send(s, id)
            check_turns(s)

    def pool(self, ids: list[str]) -> None:
        """The next update brings vectors for those whose prompt is computed: the rules know."""

    def schedule(self) -> Fields:
        """Decide one step."""
        s, held = self.s, holders(self.s)
        self.remote.before_step(s)
        with raising(s):
            out = schedule(s)
        check_decided(s, out, held)
        self.remote.after_step(s)
        entries = range(begins(s, s.steps - 1), s.nframe)
        self.grammar.scheduled(s, entries)
        self.chunks = {s.frame[i] for i in entries if s.due[i] == CHUNK}
        ahead = (
            [r for r, _ in out.num_scheduled_tokens if r not in self.chunks]
            if self.config.async_scheduling
            else []
        )
        drafts = {"spec": self.drafts.scheduled(out, ahead)}
        return {**self.fields(out), **drafts, **self.k.items.decision(out)}

    def fields(self, out: SchedulerOutput) -> Fields:
        """A decision in the words of the driver's `schedule` line. Computed and output tokens
        are those before the step.
        """
        return {
            "num_scheduled_tokens": dict(out.num_scheduled_tokens),
            "order": [r for r, _ in out.num_scheduled_tokens],
            "total": sum(n for _, n in out.num_scheduled_tokens),
            "new": [
                {
                    "id": q.id,
                    "blocks": [self.named(blocks) for blocks in by_group(q.blocks)],
                    "computed": q.computed,
                    "prompt_len": self.k.num_prompt_tokens(self.s, q.id),
                    "prefill_len": q.prefill,
                }
                for q in out.new
            ],
            "cached": [
                {
                    "id": q.id,
                    "new_blocks": groups if any(groups) else None,
                    "computed": q.computed,
                    "num_output": q.num_output,
                    "resumed": q.resumed,
                    "all_token_ids": q.all_tokens,
                }
                for q in out.cached
                for groups in [[self.named(blocks) for blocks in by_group(q.new_blocks)]]
            ],
            "new_token_ids": self.tokens_to_compute(out) if self.pipeline else [],
            "preempted": sorted(out.preempted),
            "finished": sorted(out.finished),
            "num_common_prefix_blocks": out.common_prefixes,
            "new_block_ids_to_zero": self.named(out.to_zero) or None,
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
        self.drafts.returns(self.s)
        refused, self.k.refused = self.rejected, []
        self.remote.before(self.s)
        with raising(self.s):
            self.ended = update_from_output(self.s)
        check_turns(self.s)
        self.remote.after(self.s)
        self.told += self.k.take_events()
        self.rejected = self.k.refused
        rejections = [
            (client, {"id": r, "tokens": [], "finish": "rejected", "stop_reason": why})
            for client, r, why in refused
        ]
        failed = [(self.k.client(told["id"]), told) for told in self.remote.failed]
        return by_client([*rejections, *self.k.outputs, *failed])

    def finished_by_client(self) -> dict[int, list[str]]:
        """By client, whose end the last update told, sorted."""
        return {client: sorted(ids) for client, ids in sorted((self.ended or {}).items())}

    def propose(self, drafts: Drafted) -> None:
        """Take drafts for the steps to come."""
        self.drafts.propose(self.s, drafts, self.grammar)

    def compile_grammars(self, ids: list[str]) -> None:
        """The grammars of those requests are compiled from now on."""
        for id in ids:
            if id in self.k.requests:
                events.compiled(self.s, id)

    def grammars(self) -> Fields:
        """What the step scheduled last says of grammars."""
        return self.grammar.told

    def listen(self) -> Heard:
        """Hear what the connector is asked."""
        return Heard(self.s, self.remote)

    def match_remote(self, matched: dict[str, int | None]) -> None:
        """What the remote side holds of requests becomes known. Raises AttributeError where there
        is no connector.
        """
        if self.remote.scenario.connector is None:
            raise AttributeError("there is no connector")
        self.remote.match(self.s, matched)

    def report_transfers(self, recv: list[str], send: list[str], invalid: list[int]) -> None:
        """What workers report with the next update. Raises OutOfScope where there is no
        connector.
        """
        if self.remote.scenario.connector is None:
            raise refused("a report of transfers without a connector")
        # Blocks of sinks are nobody's, like those behind the last one.
        beyond, first = self.k.usable + 1, self.k.apart + 1
        lost = [beyond if 0 < b < first else max(b - first + 1, 0) for b in invalid]
        self.remote.report = recv, send, lost

    def fill_in(self, drafts: Drafted) -> Fields:
        """Write drafts into the newest step in flight."""
        return self.drafts.fill_in(self.s, drafts, self.grammar)

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
        aborted = [r for r in asked if self.remote.ends(self.s, r, status)]
        order_queues(self.s)
        return aborted

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Forget every hash if no block is held. Raises RuntimeError, as vLLM does, where one
        still is after whoever ran was preempted: a session's, or one that is loaded or kept.
        """
        done = bool(events.reset_prefix_cache(self.s, reset_running))
        if reset_running and not done:
            raise RuntimeError("blocks are still held after preempting every running request")
        return done

    def reset_encoder_cache(self) -> None:
        """Forget all embeddings."""
        events.reset_encoder_cache(self.s)

    def pause(self, state: str) -> None:
        """Set the pause state by name."""
        events.pause(self.s, PAUSE[state])

    def evict_blocks(self, ids: list[int]) -> None:
        """Remove the hashes of blocks. Raises AssertionError for a block that the pool does not
        have.
        """
        for b in ids:
            if b > self.k.usable + self.k.apart:
                raise AssertionError(f"no block {b}")
        events.evict_blocks(self.s, [b - self.k.apart for b in ids if b > self.k.apart])

    def kv_events(self) -> list[Fields]:
        """What the updates since the last call told of the prefix cache."""
        told, self.told = self.told, []
        return told

    def has_unfinished(self) -> bool:
        """Whether there is work, as vLLM counts it under the pause state."""
        return bool(events.unfinished(self.s) or self.rejected)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return bool(events.unfinished(self.s) or events.has_news(self.s))

    def counts(self) -> Fields:
        """How many requests there are, and whether there is anything to do or to tell."""
        s = self.s
        return {
            "running": s.nr,
            "waiting": s.nwait,
            "unfinished": events.num_unfinished(s),
            "has_unfinished": bool(events.unfinished(s)),
            "has_finished": bool(events.has_news(s)),
            "has_requests": self.has_requests(),
        }

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a live request."""
        return self.s.ntok[id] if id in self.k.requests and is_known(self.s, id) else None

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return id in self.chunks

    def state(self, dump: Dump) -> Fields | None:
        """The state in the driver's words."""
        if dump == "none":
            return None
        s, k = self.s, self.k
        d: Fields = {
            **queues(s),
            "running": [s.run[i] for i in range(s.nr)],
            "num_free": s.nfree,
            "finished_req_ids": sorted(s.finished),
            "requests": {r: self.request(r) for r in k.requests if is_known(s, r)},
        }
        d |= k.items.state(s)
        return d | self.blocks() if dump == "full" else d

    def request(self, r: str) -> Fields:
        """One request in the driver's words."""
        s, k = self.s, self.k
        # Noted of all tables where one has hits, or something is loaded.
        is_noted = self.remote.has_loaded(s, r) or any(s.ncached[t] for t in k.tables(r))
        none_yet = 0 if is_noted else None
        return {
            "status": self.remote.status(s, r) or BLOCKED.get(s.awaits[r]) or STATUS[s.stage[r]],
            "computed": s.comp[r],
            "tokens": s.ntok[r],
            "output": num_output(s, r),
            "placeholders": placeholders(s, r),
            "discard": discarded(s, r),
            "spec": s.spec[r],
            "preemptions": s.npre[r],
            "blocks": [self.named([s.tab[t, i] for i in range(s.tlen[t])]) for t in k.tables(r)],
            "num_cached_block": [s.ncached[t] or none_yet for t in k.tables(r)],
        } | self.remote.owed(s, r)

    def blocks(self) -> Fields:
        """The block pool in the driver's words; a hash is the number of its chain."""
        s = self.s
        names = {h: self.k.name(h) for h in s.hsh.holders}
        refs = {s.k.NULL: s.k.num_null_refs(s), **s.ref}
        return {
            "free_queue": self.named(s.stamp),
            "ref_cnt": {str(self.name(b)): n for b, n in sorted(refs.items()) if n},
            "block_hash": {str(self.name(b)): names[h] for b, h in sorted(s.hsh.items())},
            "cached_map": {names[h]: self.named(blocks) for h, blocks in s.hsh.holders.items()}
            | (self.k.prompt_ends.holders() if self.k.prompt_ends else {}),
        }

    def name(self, b: int) -> int:
        """The number of a block: those of sinks come before all that requests get."""
        return b + self.k.apart if b else 0

    def named(self, blocks: Iterable[int]) -> list[int]:
        """The numbers of blocks."""
        return [self.name(b) for b in blocks]
