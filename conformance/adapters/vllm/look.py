"""Looks at calls of the engine as they happen, and keeps what is to be told of them.

Between two calls the engine runs so much code that the processor has to fetch all of this side's
anew, which costs more than running it. So a look is few lines; what follows from what was seen is
found out when it is told, many calls in one go.
"""

from array import array
from itertools import chain, compress
from sys import byteorder
from typing import Any

from nullblock.conformance.adapters.vllm import expected, items
from nullblock.conformance.adapters.vllm.configuration import request_features
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.seen import (
    NO_OTHERS,
    NOBODY,
    Arrival,
    Many,
    New,
    Others,
    Proposal,
    Seen,
    Taken,
    lengths,
)
from nullblock.conformance.adapters.vllm.talk import owing

NOTHING = Seen(0, None, [], [], [], None, [], (), NO_OTHERS, [], None, hashes=[])
"""Before the first step."""
AWAITS_GRAMMAR = "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"
MAX_IN_FLIGHT = 1024
"""Steps; an engine that asks for more without an update has lost some."""


class Look:
    """The engine's thread looks, and nobody else."""

    def __init__(self, observer: Observer, *, placed: bool, tallied: bool = False) -> None:
        """What tells who fills a block: ``placed``: positions; ``tallied``: tokens that come."""
        self._observer, self._scheduler = observer, observer.scheduler
        self._lengths = observer.caching and not placed and not tallied
        self._at_once = observer.caching and not tallied
        """Whether a step that is unlike others is told at once: its blocks are looked up."""
        self._twice = False
        """Whether tokens are ahead of positions from the next call on."""
        self.steps = 0
        """Decided so far."""
        self.flying: dict[int, Seen] = {}
        """By the identity of the scheduler's output, oldest first."""
        self.urgent = False
        """Whether what was seen last has to be told before the engine goes on."""
        self._last = NOTHING
        self._counts: int | None = None
        """Of the last step, as :func:`expected.packed` has them, where the next may be alike."""
        self._one = 0
        """1 for each of these counts."""
        self._disturbed = 0
        """The last step before somebody was preempted with steps in flight."""
        self._sampled: tuple[Many, Any] | None = None
        """Where there are drafts: how many tokens were sampled, those behind an end included,
        which the engine cuts; and the tokens, where one of them ends some request."""

    def schedule(self, decided: Any) -> Seen:
        """A step was decided."""
        observer, last, cached = self._observer, self._last, decided.scheduled_cached_reqs
        scheduled, known = decided.num_scheduled_tokens, cached.req_ids
        ids, tokens = list(scheduled), list(scheduled.values())
        if ids == last.ids:
            ids = last.ids
        if tokens == last.tokens:
            tokens = last.tokens
        if known == ids:
            known = ids
        words, strange = array("I"), False
        try:
            words.fromlist(cached.num_computed_tokens)
            words.fromlist(cached.num_output_tokens)
        except OverflowError:
            strange = True
        groups, others = cached.new_block_ids, NO_OTHERS
        gets = list(compress(known, groups))
        given = filter(None, groups)
        blocks = [b[0][0] if len(b) == 1 and len(b[0]) == 1 else b for b in given]
        if decided.finished_req_ids or decided.scheduled_new_reqs or decided.preempted_req_ids:
            others = _others(decided, observer.scheduler.requests)
        elif cached.all_token_ids or cached.resumed_req_ids:
            others = _others(decided, observer.scheduler.requests)
        prefix = decided.num_common_prefix_blocks
        if prefix == last.prefix:
            prefix = last.prefix
        self.steps = number = self.steps + 1
        self._last = seen = Seen(
            *(number, decided, ids, tokens, known, words, gets, blocks),
            *(others, prefix, observer.counts()),
        )
        if ids is last.ids and tokens is last.tokens and known is ids and others is NO_OTHERS:
            self._goes_on(seen, last)
        else:
            self._counts = None
        if self._disturbed:
            seen.loose = self._is_loose()
        if strange or len(known) + len(others.new) != len(ids):
            self._not_understood(seen, cached, strange)
        if self._lengths or observer.drafts:
            self._further(seen, last)
        if observer.awaiting:
            seen.compiled = self.compiled()
        if observer.items is not None:
            seen.encoder = items.step(decided, observer.asked)
            seen.alike &= seen.encoder is None
        if observer.zeroes and decided.new_block_ids_to_zero:
            seen.zeroed, seen.alike = list(decided.new_block_ids_to_zero), False
        if observer.sessions:
            observer.talk.owing[number] = owing(self._scheduler.requests, ids)
        if observer.answers is not None:
            seen.asked = observer.answers.take()
        self.flying[id(decided)] = seen
        if others.preempted:
            self._disturbed = number
            self._twice = self._twice or self._counts_twice(others.preempted)
        if len(self.flying) > MAX_IN_FLIGHT:
            raise RuntimeError(f"{MAX_IN_FLIGHT} steps without an update")
        self.urgent = observer.irregular or observer.items is not None or self._twice
        return seen

    def _goes_on(self, seen: Seen, last: Seen) -> None:
        """The same requests and tokens as before: see whether counts went on, too."""
        before, self._counts = self._counts, None
        words, more = seen.words, self._lengths or self._observer.drafts
        if words is None or last.words is None or more:
            return
        if before is None:
            if last.known is not last.ids or seen.tokens.count(1) != len(seen.tokens):
                return
            before = int.from_bytes(last.words, byteorder)
            self._one = expected.ones(len(words))
        self._counts = int.from_bytes(words, byteorder)
        seen.alike = self._counts == before + self._one
        seen.odd = not seen.alike

    def _not_understood(self, seen: Seen, cached: Any, wordless: bool) -> None:
        """Counts that are none, or somebody of whom nothing is told."""
        seen.loose = True
        if wordless:
            seen.words, seen.lists = None, (cached.num_computed_tokens, cached.num_output_tokens)

    def _further(self, seen: Seen, last: Seen) -> None:
        """What is looked at only where positions do not tell who fills a block."""
        if self._observer.drafts:
            drafts = _drafts(seen.decided, seen.ids)
            seen.drafts = last.drafts if drafts == last.drafts else drafts
        if self._lengths:
            requests = self._scheduler.requests
            same = seen.ids is last.ids
            seen.hashes = last.hashes if same else [requests[r].block_hashes for r in seen.ids]

    def _counts_twice(self, preempted: list[str]) -> bool:
        """Whether somebody who is preempted has an output in flight that counts besides the one
        after it is resumed, as steps that overlap in step with the outputs have it (pipeline
        parallelism): tokens are ahead of positions from then on.
        """
        if len(self.flying) < 2 or self._scheduler.scheduler_config.async_scheduling:
            return False
        return any(r in step.ids for step in self.flying.values() for r in preempted)

    def compiled(self) -> list[str]:
        """Of those whose grammar was not compiled, whom the step found otherwise. Somebody whom
        it did not come to may be among them in a later one: that decides nothing.
        """
        awaiting = self._observer.awaiting
        found = [id for id, request in awaiting.items() if request.status.name != AWAITS_GRAMMAR]
        for id in found:
            del awaiting[id]
        return found

    def _is_loose(self) -> bool:
        """Whether a step is in flight that was decided before a disturbance."""
        if not self._disturbed:
            return False
        oldest = next(iter(self.flying.values()), None)
        return oldest is not None and oldest.number <= self._disturbed

    def before_update(self, sampled: Any) -> None:
        """An output with drafts is about to be taken in."""
        frames = sampled.sampled_token_ids
        tokens: list[int] = []
        for frame in frames:
            tokens.extend(frame)  # quicker than a chain, which asks each for an iterator
        plain, many = self._observer.end_tokens.isdisjoint(tokens), lengths(frames)
        if self._observer.unusual and sampled.pooler_output:
            many = _with_vectors(sampled)
        self._sampled = many, None if plain else list(map(list, frames))

    def update(self, decided: Any, result: Any, sampled: Any) -> Taken | None:
        """An output was taken in; None: of a step that was not seen."""
        seen = self.flying.pop(id(decided), None)
        if seen is None:
            return None
        seen.decided = None
        self._observer.irregular |= self._twice  # what came before is told
        if owed := self._observer.talk.owing:
            owed.pop(seen.number, None)
        if seen.number <= self._disturbed:
            seen.loose = True
        observer, ids = self._observer, seen.ids
        if self._sampled is not None:
            tokens, frames, ends = self._as_before(seen, sampled)
        else:
            tokens, frames, ends = self._sampled_now(seen, sampled)
        if len(result) == 1:
            (of_client,) = result.values()
            outputs = of_client.outputs
        else:
            outputs = _in_order(result, ids)
        remote, lost = None, False
        if observer.answers is not None:
            remote = observer.answers.with_output(sampled, outputs)
            lost = remote is not None and "failed" in remote
        got, passed_on = [output.request_id for output in outputs], None
        if got != ids or lost or not _as_sampled(outputs, frames):
            many = _passed_on(outputs)
            if got != ids or many != (tokens or b"\1" * len(ids)) or lost:
                passed_on = got, many
        ended = NOBODY
        if self._scheduler.finished_req_ids or observer.unusual:
            ended = [output for output in outputs if output.finish_reason is not None]
        full, self.urgent = None, observer.irregular or observer.items is not None
        if seen.hashes is not None:
            full = list(map(len, seen.hashes))
        elif self._at_once:
            self.urgent |= seen.loose or seen.odd or (tokens is not None and max(tokens) > 1)
        return Taken(seen, tokens, ends, passed_on, ended, full, observer.counts(), remote)

    def _sampled_now(self, seen: Seen, sampled: Any) -> tuple[Many | None, Any, Any]:
        """How many were sampled, None: one each; the tokens; and these once more, where one of
        them ends some request.
        """
        frames: Any = sampled.sampled_token_ids
        if self._observer.unusual and sampled.pooler_output:
            places = [sampled.req_id_to_index[r] for r in seen.ids]
            came, ends = _with_vectors(sampled), [frames[i] if frames else () for i in places]
            return bytes(map(came.__getitem__, places)), None, ends
        if not frames:
            return bytes(len(seen.ids)) or None, None, None
        if sampled.req_ids != seen.ids:
            frames = [frames[sampled.req_id_to_index[r]] for r in seen.ids]
        many: Many | None = None
        try:
            tokens = [token for (token,) in frames]
        except ValueError:
            tokens, many = list(chain.from_iterable(frames)), lengths(frames)
        return many, frames, None if self._observer.end_tokens.isdisjoint(tokens) else frames

    def _as_before(self, seen: Seen, sampled: Any) -> tuple[Many | None, Any, Any]:
        """The same where there are drafts, from before the engine cut the tokens."""
        assert self._sampled is not None
        (many, ends), self._sampled = self._sampled, None
        if not many:
            many, ends = bytes(len(seen.ids)), None
        elif sampled.req_ids != seen.ids:
            places = [sampled.req_id_to_index[r] for r in seen.ids]
            many = type(many)(map(many.__getitem__, places))
            ends = ends and [ends[place] for place in places]
        return None if many.count(1) == len(many) else many, None, ends

    def add(self, request: Any) -> Arrival:
        """A request was taken."""
        features, observer = request_features(request), self._observer
        observer.watch(request.sampling_params)
        if features:
            observer.unusual = True
            if request.status.name == AWAITS_GRAMMAR:
                observer.awaiting[request.request_id] = request
            if "structured_output" in features:
                observer.grammars = True
            if "resumable" in features:
                observer.sessions = observer.irregular = True
        self.urgent = observer.irregular or observer.items is not None
        blocks = len(request.block_hashes) if observer.caching else 0
        return Arrival(request, features, blocks, request.num_tokens)

    def propose(self, drafts: Any) -> Proposal:
        """Drafts were proposed."""
        self.urgent = self._observer.irregular
        ids = drafts.req_ids
        ids = self._last.ids if ids == self._last.ids else list(ids)
        counts = lengths(drafts.draft_token_ids)
        if self._observer.grammars:
            counts = list(map(self._allowed, ids, counts))
        return Proposal(ids, counts)

    def _allowed(self, id: str, proposed: int) -> int:
        """Of so many drafts those that the grammar of a request, if it has one, has left it."""
        request = self._scheduler.requests.get(id)
        if request is None or request.structured_output_request is None:
            return proposed
        return len(request.spec_token_ids)


def _others(decided: Any, requests: dict[str, Any]) -> Others:
    cached = decided.scheduled_cached_reqs
    again, resumed = cached.all_token_ids, cached.resumed_req_ids
    return Others(
        [
            # Of one that was resumed, or has an id that was used before, an output may be in
            # flight, or have come first: what it is owed does not follow from its prompt.
            New(
                *(r.req_id, r.num_computed_tokens, r.block_ids),
                not requests[r.req_id].is_prefill_chunk,
                None if (sent := r.prefill_token_ids) is None else len(sent),
            )
            for r in decided.scheduled_new_reqs
        ],
        [r for r in cached.req_ids if r in resumed] if resumed else NOBODY,
        {r: len(again[r]) for r in cached.req_ids if r in again} if again else {},
        list(decided.preempted_req_ids or ()) or NOBODY,
        list(decided.finished_req_ids),
    )


def _as_sampled(outputs: list[Any], frames: Any) -> bool:
    """Whether outputs pass on these tokens; no where it takes counts to know."""
    return frames is not None and [output.new_token_ids for output in outputs] == frames


def _passed_on(outputs: list[Any]) -> Many:
    """How many tokens each output passes on."""
    many = [len(output.new_token_ids) for output in outputs]
    try:
        return bytes(many)
    except ValueError:
        return many


def _drafts(decided: Any, ids: list[str]) -> Many | None:
    """How many drafts a step has of each; None: of nobody."""
    drafts = decided.scheduled_spec_decode_tokens
    if not drafts:
        return None
    others = len(ids) - len(drafts)
    if list(drafts) == (ids[: len(drafts)] if others else ids):  # others are new, mostly
        many = lengths(drafts.values())
        return many + bytes(others) if isinstance(many, bytes) else [*many, *bytes(others)]
    return lengths([drafts.get(r, ()) for r in ids])


def _with_vectors(sampled: Any) -> Many:
    """How much came of each in a step that brings vectors: one counts as a token, and is passed on
    as none.
    """
    frames = sampled.sampled_token_ids or [()] * len(sampled.pooler_output)
    pairs = zip(frames, sampled.pooler_output, strict=True)
    return bytes(len(frame) + (vector is not None) for frame, vector in pairs)


def _in_order(result: Any, ids: list[str]) -> list[Any]:
    """The outputs for all clients, in schedule order."""
    outputs = list(chain.from_iterable(result[client].outputs for client in sorted(result)))
    place = {r: i for i, r in enumerate(ids)}
    # Whose load failed comes last, and need not be in the step.
    outputs.sort(key=lambda o: (_brings_nothing(o), place.get(o.request_id, len(ids))))
    return outputs


def _brings_nothing(output: Any) -> bool:
    return not output.new_token_ids and getattr(output, "pooling_output", None) is None
