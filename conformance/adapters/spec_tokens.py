"""What the specification asks about requests, answered from the tokens of a scenario."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from nullblock.conformance.adapters.spec_drafts import Drafts
from nullblock.conformance.adapters.spec_encoder import Items, refused
from nullblock.conformance.adapters.spec_ends import ToldEnds
from nullblock.conformance.adapters.spec_events import told
from nullblock.conformance.adapters.spec_remote import RemoteKV
from nullblock.conformance.adapters.spec_sessions import check_stop_of_session
from nullblock.conformance.adapters.spec_waits import Grammars, adapter_number
from nullblock.conformance.encoder_format import MOST_ITEMS
from nullblock.conformance.engine import Fields, NewRequest
from nullblock.conformance.groups import num_sink_blocks
from nullblock.conformance.item_keys import Found, ItemKeys
from nullblock.conformance.played.encoder import Embeds
from nullblock.conformance.prompt_ends import ByLastHash
from nullblock.conformance.repetition import DETECTED, repeats
from nullblock.spec import facts
from nullblock.spec.concrete import State
from nullblock.spec.deferred import awaits_steps
from nullblock.spec.encoder import encodable, is_in_cache
from nullblock.spec.fields import (
    EOS,
    ERROR,
    PLAIN,
    REJECTED,
    REPEATS,
    REPETITION,
    STOP_ID,
    STOPPED_BY_ID,
)
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.keys import Keys, embeds_in, extra_keys, num_hashes
from nullblock.spec.names import FINISH
from nullblock.spec.rejection import why_refused
from nullblock.spec.sessions import kept, num_output, prompt
from nullblock.spec.turns import is_refused

Refusal = tuple[int, str, str]
"""Whose request was refused: a client; its id; and why."""
NO_CHAIN = 0
"""The chain of a block that is not full yet: no block carries it."""


def _lacks_tokens(r: NewRequest) -> bool:
    """Whether a prompt is embeddings and nothing else."""
    return r.prompt_embeds is not None and not r.prompt_embeds.with_tokens


class Tokens(ByLastHash, IndexedEnv):
    """An environment that knows every request's tokens and gives each distinct chain of blocks
    a number: an ideal hash.
    """

    silences = True

    def __init__(
        self,
        config: facts.Config,
        listening: bool,
        drafts: Drafts,
        grammars: Grammars,
        remote: RemoteKV,
        covered: int,
    ) -> None:
        """`covered`: tokens that one hash covers, where there are several groups."""
        super().__init__(config)
        self.hash_size = covered if self.several else self.block_size
        self.told_drafts, self.played, self.remote_kv = drafts, grammars, remote
        self.apart = num_sink_blocks(remote.scenario)
        """Blocks that no request ever gets: their numbers come before all others."""
        self.items = Items(self.encodes, self.encoder_decoder, self.caching, self.sem)
        self.item_keys = ItemKeys(self.sem)
        self.taken: dict[str, int] = {}
        self.added: dict[str, NewRequest] = {}
        self.content: dict[str, list[int]] = {}
        self.embeds: dict[str, list[bytes] | None] = {}
        """The embeddings that a prompt is; none for one of tokens alone."""
        self.without_tokens: set[str] = set()
        """Whose prompts are embeddings and nothing else."""
        self.chains: dict[str, list[int]] = {}
        self.chunks: dict[str, list[NewRequest]] = {}
        """By session, all that it was sent."""
        self.refused: list[Refusal] = []
        """Whose next chunk was refused, and why."""
        self.stop_reasons: dict[str, int | str] = {}
        """By session, what an earlier turn was told to end with: a token, or DETECTED."""
        self.numbers: dict[tuple[int, tuple[int, ...], Keys], int] = {}
        self.parents = [NO_CHAIN]
        """The chain before each, by its number."""
        self.incoming: dict[str, list[int]] = {}
        self.outputs: list[tuple[int, Fields]] = []
        """What the update tells, each with whose it is."""
        self.listening = listening
        self.events: list[Fields] = []
        self.prompt_ends = ToldEnds(self) if self.has_ends() else None
        """What is known of blocks besides their hashes."""
        self.null_refs = 0
        """What vLLM makes of the null block's reference count: it only ever changes it."""
        self.null_later: list[int] = []
        """For each of these references that goes later, with what is put off with it: one after
        the number of the step that it waits for.
        """

    def introduce(self, r: NewRequest) -> None:
        """Learn the facts about a request; an earlier one with its id is forgotten."""
        self._about = None  # what was looked up for that one
        self.added[r.id] = r
        # A prompt may be longer than max_model_len.
        places = (len(r.prompt) // min(self.sizes) + 1) * len(self.groups) + 2
        self.indices = range(max(len(self.indices), places))
        self.prompted(r)
        self.chains[r.id] = []
        self.requests[r.id] = facts.Request(
            id=r.id,
            prompt_len=len(r.prompt),
            max_tokens=1 if r.pooling else r.max_tokens,
            min_tokens=r.min_tokens,
            priority=r.priority,
            arrival=r.arrival,
            skip_reading_prefix_cache=bool(r.skip_cache_read),
            adapter=adapter_number(r, self.config.max_loras),
            grammar=r.grammar is not None,
            items=self.items.taken(r),
            resumable=r.resumable,
            client=r.client_index,
            pooling=r.pooling,
            loads_over_steps=self.remote_kv.loads_over_steps(r.id),
            delays_free=self.remote_kv.delays_free(r.id),
        )
        self.item_keys.introduce(r.id, len(r.prompt) // self.hash_size)
        self.chunks[r.id] = [r]
        self.stop_reasons.pop(r.id, None)
        self.played.introduce(r)

    def prompted(self, r: NewRequest) -> None:
        """Learn the prompt of a request: where it is embeddings and nothing else, all its tokens
        are 0.
        """
        self.without_tokens.discard(r.id)
        self.content[r.id], self.embeds[r.id] = list(r.prompt), None
        if r.prompt_embeds is not None:
            self.embeds[r.id] = Embeds.of(r.prompt_embeds.seed, len(r.prompt)).rows
        if _lacks_tokens(r):
            self.without_tokens.add(r.id)
            self.content[r.id] = [0] * len(r.prompt)

    def know_connector(self, external: list[str] | None) -> None:
        """Learn what an encoder connector has; None: there is none."""
        self.loads_items = external is not None
        self.items.external = None if external is None else frozenset(external)

    def has_item(self, n: int) -> bool:
        return self.items.names[n] in (self.items.external or ())

    def num_prompt_tokens(self, s: State, r: str) -> int:
        """The tokens of its prompt that workers are sent."""
        return 0 if r in self.without_tokens else int(prompt(s, r))

    def send(self, r: NewRequest) -> None:
        """Keep a chunk of a session until it takes it. Embeddings without tokens bring none: of a
        chunk vLLM keeps the tokens alone (StreamingUpdate.from_request).
        """
        self.chunks[r.id].append(replace(r, prompt=[]) if _lacks_tokens(r) else r)

    def why_refused(self, s: Any, r: Any) -> str:
        """Why r cannot take its next chunk."""
        n = s.turns[r] + 1
        limit = self.chunk_limit(r, n if self.sem.chunks_bring_limits else 0)
        sizes = kept(s, r), self.chunk_len(r, n), limit, self.encoder_tokens(r)
        reason = why_refused(self.config, *sizes)
        assert reason is not None, "a refusal has a reason"
        return reason

    def chunk_len(self, r: Any, n: int) -> int:
        return len(self.chunks[r][n].prompt)

    def arrival(self, r: Any, n: int) -> float:
        return float(self.requests[r].arrival)

    def chunk_limit(self, r: Any, n: int) -> int:
        return self.chunks[r][n].max_tokens if n else self.max_tokens(r)

    def extended(self, r: Any, past: int, kept: int, known: int) -> int:
        """The next chunk of r stands behind what it keeps; blocks that were full and known keep
        their numbers, and where none is hashed again those that had one before. Raises OutOfScope
        for a prompt that no rule has.
        """
        chunk, full = self.chunks[r][past + 1], known // self.hash_size
        if full:
            self.chain(r, full - 1)
        if self.sem.chunks_rehash:
            del self.chains[r][full:]
        del self.content[r][kept:]
        self.content[r] += chunk.prompt
        self.item_keys.extend(r, len(self.chains[r]), len(self.content[r]) // self.hash_size)
        self.added[r] = replace(
            self.added[r], stop=chunk.stop, eos=chunk.eos, repetition=chunk.repetition
        )
        self.requests[r] = replace(
            self.requests[r],
            min_tokens=chunk.min_tokens,
            # Under PRIORITY it stands where its last chunk's arrival puts it.
            arrival=chunk.arrival,
            items=self.items.extended(self.requests[r].items, chunk, kept),
        )
        if self.sem.reject_unservable and not encodable(self.state, r):
            raise refused("an item of a later chunk that can never be computed")
        return past + 1

    def want(self, t: Any, i: int) -> Any:
        n = self.chain_of(t, i)
        return (n, self.group(t)) if self.several else n

    def covered(self) -> int:
        return self.hash_size

    def spelled(self, h: Any) -> tuple[int, int]:
        """The number of a hash's chain, and of its group."""
        return h if self.several else (h, 0)

    def name(self, h: Any) -> str:
        """How lines spell a hash. They show its beginning: of a block that several hashes cover
        the first of these.
        """
        n, group = self.spelled(h)
        for _ in range(num_hashes(self.sem, self.sizes[group] // self.hash_size) - 1):
            n = self.parents[n]
        return f"{n:012x}:{group}"

    def chain(self, r: Any, i: int) -> int:
        """The number of the chain of the first i + 1 blocks of a request, of as many tokens as a
        hash covers.
        """
        chain, size = self.chains[r], self.hash_size
        if (i + 1) * size > len(self.content[r]):
            return NO_CHAIN
        while len(chain) <= i:
            n = len(chain)
            tokens = tuple(self.content[r][n * size : (n + 1) * size])
            found = self.item_keys.of_hash(r, self.requests[r].items, n, size)
            key = (chain[-1] if chain else 0, tokens, self.extra(r, n, size, found))
            if key not in self.numbers:
                self.parents.append(key[0])
                self.numbers[key] = len(self.numbers) + 1
            chain.append(self.numbers[key])
        return chain[i]

    def extra_told(self, r: Any, blocks: list[int], size: int) -> list[Keys]:
        """What identifies those blocks of r, of that size, as is told of them."""
        found = self.item_keys.of_event(self.requests[r].items, blocks, size)
        return [self.extra(r, i, size, items) for i, items in zip(blocks, found, strict=True)]

    def extra(self, r: Any, i: int, size: int, found: Found) -> Keys:
        """What identifies r's block i, of that size, besides its tokens; `found`: the items."""
        added, items = self.added[r], self.items.named(found)
        embeds = embeds_in(self.embeds[r], i * size, (i + 1) * size)
        return extra_keys(self.sem, added.lora, added.salt, i == 0, items, embeds)

    def on_token(self, s: State, r: Any) -> None:
        taken = self.taken.get(r, 0)
        token = self.incoming[r][taken]
        self.content[r].append(token)
        self.taken[r] = taken + 1
        self.played.took(s, r, token)

    def on_null(self, s: Any, change: int) -> None:
        self.null_refs += change
        if change < 0 and s.leaving and awaits_steps(s, s.leaver):
            self.null_later += [s.lastfull] * -change

    def num_null_refs(self, s: Any) -> int:
        """The null block's reference count."""
        self.null_later = [until for until in self.null_later if until > s.oldest]
        return self.null_refs + len(self.null_later)

    def accepted(self, s: State, r: Any) -> int:
        count = len(self.incoming[r]) - 1
        self.told_drafts.verified(r, s.ndraft[s.cur], count)  # type: ignore[attr-defined]
        return count

    def says_nothing(self, s: State, r: Any) -> bool:
        return not self.incoming[r]

    def last_token(self, s: State, r: Any) -> int:
        token, added = self.content[r][-1], self.added[r]
        if self.played.rejects(s, r):
            return REJECTED
        if added.eos is not None and token == added.eos:
            return EOS
        if token in (added.stop or ()):
            return STOP_ID
        outputs = self.content[r][-int(num_output(s, r)) :] if added.repetition else []
        return REPEATS if repeats(outputs, added.repetition) else PLAIN

    def tell(self, reading: Any, s: State, *args: Any) -> None:
        event = reading(s, *args)
        if self.listening and event is not None:
            self.events.append(told(self, s, event))
        if self.prompt_ends is not None:
            further = self.prompt_ends.follows(s, reading, event, args)
            if self.listening and further is not None:
                self.events.append(further)

    def take_events(self) -> list[Fields]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def failing(self, s: State, r: Any) -> int:
        return self.remote_kv.order.index(r)

    def note_kept(self, s: State, r: Any) -> None:
        self.remote_kv.note_kept(s, r)

    def note_reclaimed(self, s: State, r: Any) -> None:
        self.remote_kv.loaded.discard(r)

    def letting_go(self, s: State, r: Any, i: int) -> int:
        if self.num_items(r) <= MOST_ITEMS:
            return i
        # As the set of places is iterated in which vLLM collects them.
        return list(
            {j for j in range(self.num_items(r)) if is_in_cache(s, self.item(r, j))}
        ).index(i)

    def evicting(self, s: State, b: Any) -> int:
        # As the set of numbers is iterated in which vLLM collects them.
        numbers: Iterable[int] = s.evict  # type: ignore[attr-defined]
        return list({self.apart + b for b in numbers}).index(self.apart + b)

    def note_failed(self, s: State, r: Any) -> None:
        self.remote_kv.ended[r] = "FINISHED_ERROR"

    def note(self, s: State, r: Any, why: Any) -> None:
        check_stop_of_session(s, r, why)
        if is_refused(s, r, why):
            self.refused.append((self.client(r), r, self.why_refused(s, r)))
        self.remote_kv.stops(s, r, why)
        # Who takes a vector takes no token.
        tokens = self.content[r][-self.taken[r] :] if r in self.taken else []
        stop = self.played.verdict(s, r) if why == ERROR else why
        if stop == STOPPED_BY_ID:
            self.stop_reasons[r] = tokens[-1]
        elif stop == REPETITION:
            self.stop_reasons[r] = DETECTED
        output: Fields = {
            "id": r,
            "tokens": tokens,
            "finish": FINISH[why],
            "stop_reason": self.stop_reasons.get(r),
        }
        self.outputs.append((self.client(r), output))
