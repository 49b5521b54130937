"""The prefix cache: which block holds which content, and a name for every content.

The content of a full block, together with all that comes before it, has a *name*: a small integer,
one and the same for equal content as long as anybody needs it. Names are found by the tokens
themselves, so that no hash can collide. `holders[name]` counts who needs it: a request holds the
name of its last full block, a block the one that it is cached under, a name the one before it. A
name without holders is given up and used again: memory grows with the blocks of the pool and of
the requests alive, not with the number of requests served.
"""

import sys
from typing import Any

import numpy as np

from nullblock.impl.arrays import Blocks, Ints, Tokens

Extra = tuple[Any, ...]
"""What tells a block from others besides tokens: adapter, salt (HASH-1)."""
Content = bytes | tuple[bytes, Extra]
"""The name before and the tokens, as 64-bit integers; and the extra, if there is any."""

ROOT = 0
"""The name before a first block, and of a block that is not cached."""
NOBODY = 0
"""The null block: it is never cached."""
_FOR_EVER = 1 << 62
_WORD = 8


class PrefixCache:
    """Names of contents, and the cached blocks by name."""

    def __init__(self, num_blocks: int) -> None:
        self.carried = np.full(num_blocks, ROOT, np.int64)
        """By block, the name that it is cached under."""
        self.block = np.full(64, NOBODY, np.int32)
        """By name, the block that was cached under it first (HASH-10)."""
        self.copies: dict[int, list[int]] = {}
        """By name, the other blocks cached under it, first one first. Seldom any."""
        self.parent: Ints = np.zeros(64, np.int64)
        """By name, the one before it."""
        self.holders: Ints = np.zeros(64, np.int64)
        self.holders[ROOT] = _FOR_EVER
        self.contents: list[Content | None] = [None] * 64
        """By name; None: nobody holds it, or it is ROOT."""
        self._names: dict[Content, int] = {}
        self._unused = list(range(63, ROOT, -1))

    def __len__(self) -> int:
        """Names in use."""
        return len(self._names)

    # Names ---------------------------------------------------------------------------------------

    def name_prompt(
        self, parent: int, tokens: Tokens, block_size: int, extras: tuple[Extra, Extra]
    ) -> list[int]:
        """The names of consecutive full blocks behind `parent`.

        Whoever held `parent` now holds the last of them instead. `extras`: of a first block, and
        of any other.
        """
        width, text = block_size * _WORD, tokens.tobytes()
        names, parents, fresh = list[int](), list[int](), list[int]()
        before = parent
        for start in range(0, len(text) - width + 1, width):
            words = before.to_bytes(_WORD, sys.byteorder) + text[start : start + width]
            extra = extras[before != ROOT]
            parents.append(before)
            before = self._name((words, extra) if extra else words, names, fresh)
        self._hold(names, np.array(parents, np.int64), fresh)
        return names

    def name_blocks(
        self, parents: Ints, tokens: Tokens, extras: dict[int, tuple[Extra, Extra]]
    ) -> Ints:
        """The names of one full block behind each parent; `tokens` has a row for each.

        Whoever held a parent now holds the name instead. `extras`, as above, of those rows that
        have any.
        """
        rows = np.empty((len(parents), 1 + tokens.shape[1]), np.int64)
        rows[:, 0] = parents
        rows[:, 1:] = tokens
        contents: list[bytes] = rows.view(f"V{rows.shape[1] * _WORD}").ravel().tolist()
        names, fresh = list[int](), list[int]()
        for i, words in enumerate(contents):
            extra = extras[i][int(parents[i]) != ROOT] if i in extras else ()
            self._name((words, extra) if extra else words, names, fresh)
        return self._hold(names, parents, fresh)

    def _name(self, content: Content, names: list[int], fresh: list[int]) -> int:
        """Note the name of a content, and if it is a new one its place among the names."""
        name = self._names.get(content)
        if name is None:
            fresh.append(len(names))
            if not self._unused:
                self._grow()
            name = self._names[content] = self._unused.pop()
            self.contents[name] = content
        names.append(name)
        return name

    def _hold(self, names: list[int], parents: Ints, fresh: list[int]) -> Ints:
        """Pass each hold on from parent to name. A new name holds its parent from now on, so that
        the parent has as many holders as before.
        """
        found = np.array(names, np.int64)
        if len(fresh) == len(names):
            self.parent[found] = parents
            self.holders[found] = 1
            return found
        self.parent[found[fresh]] = parents[fresh]
        self.holders[found[fresh]] = 1
        known = np.ones(len(names), np.bool_)
        known[fresh] = False
        np.add.at(self.holders, found[known], 1)
        np.subtract.at(self.holders, parents[known], 1)
        return found

    def let_go(self, name: int) -> None:
        """One holder less. Nothing happens to ROOT."""
        if name != ROOT:
            self._let_go(np.array([name], np.int64))

    def _let_go(self, names: Ints) -> None:
        """One holder less for each, and so on to the parents of those that have none left."""
        while len(names):
            np.subtract.at(self.holders, names, 1)
            names = names[self.holders[names] == 0]
            if len(names) > 1:
                names = np.unique(names)
            given_up = names.tolist()
            for name in given_up:
                content = self.contents[name]
                assert content is not None
                del self._names[content]
                self.contents[name] = None
            self._unused.extend(given_up)
            names = self.parent[names]

    def _grow(self) -> None:
        """Twice as many names."""
        n = len(self.contents)
        self.block = np.concatenate([self.block, np.full(n, NOBODY, np.int32)])
        self.parent = np.concatenate([self.parent, np.zeros(n, np.int64)])
        self.holders = np.concatenate([self.holders, np.zeros(n, np.int64)])
        self.contents += [None] * n
        self._unused.extend(range(2 * n - 1, n - 1, -1))

    # Blocks --------------------------------------------------------------------------------------

    def insert(self, blocks: Blocks, names: Ints) -> None:
        """Cache blocks that are not, in this order, under names that are held (HASH-12)."""
        self.carried[blocks] = names
        np.add.at(self.holders, names, 1)
        if not self.block[names].any():
            self.block[names] = blocks
            if (self.block[names] == blocks).all():
                return
            self.block[names] = NOBODY  # two blocks of one name: the first is to be found
        for block, name in zip(blocks.tolist(), names.tolist(), strict=True):
            if self.block[name] == NOBODY:
                self.block[name] = block
            else:
                self.copies.setdefault(name, []).append(block)

    def evict(self, blocks: Blocks) -> None:
        """Cache these no more; nothing happens to those that are not cached (POOL-10, HASH-13)."""
        names = self.carried[blocks]
        hashed = names != ROOT
        if not hashed.any():
            return
        blocks, names = blocks[hashed], names[hashed]
        self.carried[blocks] = ROOT
        if self.copies:
            for block, name in zip(blocks.tolist(), names.tolist(), strict=True):
                self._forget(block, name)
        else:
            self.block[names] = NOBODY
        self._let_go(names)

    def _forget(self, block: int, name: int) -> None:
        """A block is not to be found any more; the next copy is."""
        copies = self.copies.get(name, [])
        if self.block[name] == block:
            self.block[name] = copies.pop(0) if copies else NOBODY
        else:
            copies.remove(block)
        if not copies:
            self.copies.pop(name, None)

    def hits(self, names: Ints) -> Blocks:
        """The blocks of the longest cached prefix of these names (HASH-10, HASH-11)."""
        found = self.block[names]
        missing = found == NOBODY
        return found[: int(missing.argmax())] if missing.any() else found

    def blocks_of(self, name: int) -> list[int]:
        """All blocks cached under a name, first one first."""
        first = int(self.block[name])
        return [] if first == NOBODY else [first, *self.copies.get(name, ())]

    def clear(self) -> None:
        """Nothing is cached."""
        self.evict(self.carried.nonzero()[0].astype(np.int32))
