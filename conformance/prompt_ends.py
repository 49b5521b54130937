"""The ends of prompts within blocks that several hashes cover, where a line caches them too.

No lookup reads those keys (GROUP-41), so the rules have no field for them: they are told as blocks
are, and here it is kept which there are.
"""

from typing import Any, Generic, TypeVar

from nullblock.spec.cache_events import removed, stored
from nullblock.spec.grouped import Table
from nullblock.spec.keys import prompt_end
from nullblock.spec.sessions import prompt

Told = TypeVar("Told")
Key = tuple[int, int]
"""The number of a chain, and of a group."""


class ByLastHash:
    """Of an environment of several groups: what a block is known by that several hashes cover."""

    def covered(self) -> int:
        """Tokens that one hash covers."""
        raise NotImplementedError

    def has_ends(self: Any) -> bool:
        """Whether blocks are known by the ends of prompts, too: where several hashes cover one."""
        return bool(self.sem.prompt_ends_cached and self.span_unit > self.covered())

    def chain_of(self: Any, t: Table, i: int) -> int:
        """The number of the chain of the first i + 1 blocks of a table."""
        if not self.several:
            return self.chain(t, i)  # type: ignore[no-any-return]
        r, g = t  # asked for every block of a prompt, so without detours
        return self.chain(r, (i + 1) * self.sizes[g] // self.covered() - 1)  # type: ignore[no-any-return]

    def end_of(self: Any, t: Table, prompt: int) -> int:
        """See `Environment.end_of`."""
        size, covered = self.size_of(t), self.covered()
        if size == covered or self.groups[self.group(t)].is_windowed:
            return 0
        return prompt_end(prompt + self.drops_of(t), covered, size)

    def end_hash(self: Any, t: Table, end: int) -> Key | None:
        """See `Environment.end_hash`."""
        if end == 0:
            return None
        return self.chain(self.owner(t), end // self.covered() - 1), self.group(t)


class PromptEnds(Generic[Told]):
    """Further keys of blocks, in the order in which they came, and what is told of them.

    Args:
        k: the environment whose blocks they are.
    """

    def __init__(self, k: Any) -> None:
        self.k = k
        self.of_block: dict[int, Key] = {}
        self.own: dict[int, Key] = {}
        """Those that are the only keys of blocks, which are not full (GROUP-67)."""
        self.blocks: dict[Key, dict[int, None]] = {}
        """The blocks that have each."""

    def told(self, r: Any, t: Table, index: int) -> Told:
        """The event for the tokens of one hash of a request: the one at that place."""
        raise NotImplementedError

    def gone(self, key: Key) -> Told:
        """The event for a key that a block has no more."""
        raise NotImplementedError

    def unknown(self, what: str) -> Exception:
        """What is raised where no rule says what becomes of something."""
        raise NotImplementedError

    def follows(self, s: Any, reading: Any, event: Any, args: tuple[Any, ...]) -> Told | None:
        """What is told behind an event of the prefix cache, by which reading it was told of."""
        if reading is stored:
            return self.cached(s, args[0]) if self.k.caching else None
        if event is None:
            return None
        if reading is removed:
            return self.removed(args[0])
        self.clear()
        return None

    def cached(self, s: Any, t: Table) -> Told | None:
        """Some blocks of table t were cached; the event for the end of the prompt that is cached
        with them. Raises `unknown` where it is not known what becomes of it.
        """
        k, r = self.k, self.k.owner(t)
        end = k.end_of(t, prompt(s, r))
        i = end // k.size_of(t)
        if end == 0 or i >= s.tlen[t]:
            return None
        b, index, key = s.tab[t, i], end // k.covered() - 1, k.end_hash(t, end)
        if i >= s.ncached[t]:
            if s.hsh[b] != key or self.own.get(b) == key:
                return None
            self.keep_own(b, key)
            return self.told(r, t, index)
        if self.of_block.get(b, key) != key or s.hsh[b] == k.NOHASH:
            what = f"the end of a prompt in block {b}, which "
            what += "was evicted" if s.hsh[b] == k.NOHASH else "is the end of another"
            raise self.unknown(what)
        if b in self.of_block:
            return None
        self.keep(b, key)
        return self.told(r, t, index)

    def clear(self) -> None:
        """No block is known by anything."""
        self.of_block.clear()
        self.own.clear()
        self.blocks.clear()

    def keep(self, b: int, key: Key) -> None:
        """Block b has that key besides its own."""
        self.of_block[b] = key
        self.blocks.setdefault(key, {})[b] = None

    def keep_own(self, b: int, key: Key) -> None:
        """Block b, which is not full, has that key and no other."""
        self.own[b] = key
        self.blocks.setdefault(key, {})[b] = None

    def removed(self, b: int) -> Told | None:
        """Block b has lost its hash; the event for its further key."""
        own, key = self.own.pop(b, None), self.of_block.pop(b, None)
        if own is not None:
            self.forget(own, b)
        if key is None:
            return None
        self.forget(key, b)
        return self.gone(key)

    def forget(self, key: Key, b: int) -> None:
        """Block b has that key no more."""
        blocks = self.blocks[key]
        del blocks[b]
        if not blocks:
            del self.blocks[key]
