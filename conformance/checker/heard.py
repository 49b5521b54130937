"""What the prefix cache would tell, in the words of a trace: the events that an update has."""

from typing import Any

from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.groups import told_kind
from nullblock.conformance.prompt_ends import ByLastHash, Key, PromptEnds
from nullblock.spec.cache_events import AllBlocksCleared, BlockRemoved, BlockStored, CacheEvent
from nullblock.spec.concrete import State
from nullblock.spec.erased.records import RecordEnv
from nullblock.spec.groups import is_null
from nullblock.spec.sizes import is_left_out

Heard = tuple[Any, ...]
"""A KV event: its kind, and what it tells, in chain numbers."""


class HeardEnds(PromptEnds[Heard]):
    """Further keys of blocks, told as a trace tells them."""

    def told(self, r: Any, t: Any, index: int) -> Heard:
        k = self.k
        chain, before = (k.chain(r, index),), k.chain(r, index - 1) if index else None
        kind, window = told_kind(k.mamba_of(t), False, k.window_of(t), k.chunk_of(t))
        return ("stored", chain, before, k.covered(), k.group(t), kind, window)

    def gone(self, key: Key) -> Heard:
        return ("removed", (key[0],), key[1])

    def unknown(self, what: str) -> NotRecorded:
        return NotRecorded(f"what becomes of {what}")


class Hearing(ByLastHash, RecordEnv):
    """Listens to the rules, for as long as what is told is to be compared."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.listening = False
        """Whether what the prefix cache tells is to be compared."""
        self.heard: list[Heard] = []
        self.prompt_ends = HeardEnds(self) if self.has_ends() else None

    def covered(self) -> int:
        return self.block_size

    def tell(self, reading: Any, s: State, *args: Any) -> None:
        # Asked by constants, for which an erased form is made: `prompt_ends` is none of them.
        if self.has_ends():
            self.tell_with_ends(reading, s, *args)
        elif self.listening:
            event = reading(s, *args)
            if event is not None:
                self.heard.append(self.numbered(s, event))

    def tell_with_ends(self, reading: Any, s: State, *args: Any) -> None:
        """The same where blocks are known by the ends of prompts besides, listening or not."""
        event = reading(s, *args)
        further = self.prompt_ends.follows(s, reading, event, args)  # type: ignore[union-attr]
        if self.listening and event is not None:
            self.heard.append(self.numbered(s, event))
        if self.listening and further is not None:
            self.heard.append(further)

    def further_keys(self) -> list[tuple[int, Key]]:
        """The blocks that are known by a key besides their own, and that key."""
        return list(self.prompt_ends.of_block.items()) if self.prompt_ends else []

    def numbered(self, s: State, event: CacheEvent) -> Heard:
        """An event in chain numbers. Of a range the null blocks, and those that are left out, have
        none, but tokens.

        Raises IndexError for a block that the table has not, as vLLM does where it tells events of
        a request that is longer than max_model_len.
        """
        match event:
            case BlockStored(table=t, first=first, last=last):
                r, held = self.owner(t), s.tlen[t]  # type: ignore[attr-defined]
                if last > held:
                    raise IndexError(f"request {r} has {held} blocks")
                places = range(first, last)
                told = (i for i in places if not (is_null(s, t, i) or is_left_out(s, t, i)))
                chain = tuple(self.chain_of(t, i) for i in told)
                before = self.chain_of(t, first - 1) if first else None
                is_sink = self.groups[self.group(t)].sink_len > 0
                sees = self.window_of(t), self.chunk_of(t)
                kind, window = told_kind(self.mamba_of(t), is_sink, *sees)
                tokens = (last - first) * self.size_of(t)
                return ("stored", chain, before, tokens, self.group(t), kind, window)
            case BlockRemoved(hash=h):
                number, group = self.content(h)
                return ("removed", (number,), group)
            case AllBlocksCleared():
                return ("cleared",)

    def take_events(self) -> list[Heard]:
        """The events since the last call."""
        heard, self.heard = self.heard, []
        return heard

    def may_be_of_state(self, h: Any) -> bool:
        return h is not None and self.groups[self.content(h)[1]].aligned

    def content(self, h: Any) -> tuple[int, int]:
        """The chain number of a hash, and the group that it is for."""
        return h if self.several else (h, 0)
