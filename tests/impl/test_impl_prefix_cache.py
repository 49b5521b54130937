"""The prefix cache beside a dictionary of prefixes."""

import numpy as np
from audit import audit_names
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nullblock.impl.prefix_cache import ROOT, Extra, PrefixCache

NUM_BLOCKS, SIZE = 12, 2
EXTRAS: tuple[tuple[Extra, Extra], ...] = (
    ((), ()),
    ((("lora", "x"),), (("lora", "x"),)),
    ((("salt", "x"),), ()),
)
BLOCK = st.sampled_from([(0, 0), (0, 1), (1, 0)])
Content = tuple[object, ...]
"""All tokens and extras from the first block on: what a name stands for."""


class AgainstADictionary(RuleBasedStateMachine):
    """Equal contents, and no others, are found, in the order in which they were cached."""

    @initialize()
    def begin(self) -> None:
        """Nothing is named, nothing is cached."""
        self.cache = PrefixCache(NUM_BLOCKS)
        self.requests: list[tuple[list[int], list[Content], tuple[Extra, Extra]]] = []
        self.cached: dict[Content, list[int]] = {}

    @rule(prompt=st.lists(BLOCK, max_size=4), extras=st.sampled_from(EXTRAS))
    def arrive(self, prompt: list[tuple[int, int]], extras: tuple[Extra, Extra]) -> None:
        """A request names its blocks, one after another."""
        tokens = np.array(prompt, np.int64).reshape(-1)
        names = self.cache.name_prompt(ROOT, tokens, SIZE, extras)
        self.requests.append((names, self.contents(prompt, extras, ()), extras))

    @staticmethod
    def contents(
        blocks: list[tuple[int, int]], extras: tuple[Extra, Extra], before: Content
    ) -> list[Content]:
        """What each of these blocks stands for, behind another content."""
        found = []
        for block in blocks:
            before = (*before, block, extras[bool(before)])
            found.append(before)
        return found

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """Several requests, which may be alike, fill one more block at once."""
        who = data.draw(st.lists(st.integers(0, len(self.requests) - 1), unique=True, min_size=1))
        filled = [data.draw(BLOCK) for _ in who]
        growing = [self.requests[i] for i in who]
        parents = [names[-1] if names else ROOT for names, _, _ in growing]
        extras = {i: extra for i, (_, _, extra) in enumerate(growing) if extra != EXTRAS[0]}
        made = self.cache.name_blocks(
            np.array(parents, np.int64), np.array(filled, np.int64), extras
        )
        rows = zip(growing, made.tolist(), filled, strict=True)
        for (names, contents, extra), name, block in rows:
            before = contents[-1] if contents else ()
            names.append(name)
            contents += self.contents([block], extra, before)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A request lets go."""
        names, _, _ = self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))
        self.cache.let_go(names[-1] if names else ROOT)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        """Free blocks are cached under names of requests, several alike perhaps."""
        named = [pair for names, ids, _ in self.requests for pair in zip(names, ids, strict=True)]
        held = {block for blocks in self.cached.values() for block in blocks}
        free = [block for block in range(1, NUM_BLOCKS) if block not in held]
        if not named or not free:
            return
        pairs = data.draw(st.lists(st.sampled_from(named), max_size=len(free), min_size=1))
        blocks = data.draw(st.permutations(free))[: len(pairs)]
        names = np.array([name for name, _ in pairs], np.int64)
        self.cache.insert(np.array(blocks, np.int32), names)
        for block, (_, content) in zip(blocks, pairs, strict=True):
            self.cached.setdefault(content, []).append(block)

    @rule(blocks=st.lists(st.integers(0, NUM_BLOCKS - 1), unique=True))
    def evict(self, blocks: list[int]) -> None:
        """Any blocks, cached or not, are cached no more."""
        self.cache.evict(np.array(blocks, np.int32))
        left = {
            content: [block for block in held if block not in blocks]
            for content, held in self.cached.items()
        }
        self.cached = {content: held for content, held in left.items() if held}

    @rule()
    def clear(self) -> None:
        """Nothing is cached any more."""
        self.cache.clear()
        self.cached = {}

    @invariant()
    def finds_the_same(self) -> None:
        """Hits are the longest cached prefix; equal contents have one name; counts are right."""
        by_content: dict[Content, int] = {}
        for names, contents, _ in self.requests:
            for name, content in zip(names, contents, strict=True):
                assert by_content.setdefault(content, name) == name
                assert self.cache.blocks_of(name) == self.cached.get(content, [])
            expected = []
            for content in contents:
                if content not in self.cached:
                    break
                expected.append(self.cached[content][0])
            assert self.cache.hits(np.array(names, np.int64)).tolist() == expected
        assert len(set(by_content.values())) == len(by_content)
        assert sorted(b for held in self.cached.values() for b in held) == (
            self.cache.carried.nonzero()[0].tolist()
        )
        audit_names(self.cache, [names[-1] if names else ROOT for names, _, _ in self.requests])


AgainstADictionary.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, derandomize=True, database=None, deadline=None
)
test_any_calls_find_what_a_dictionary_finds = AgainstADictionary.TestCase


def test_a_name_lives_as_long_as_somebody_needs_it() -> None:
    """A block keeps its name and those before it alive after the request has gone; then all of
    them are given up together, and used again."""
    cache = PrefixCache(8)
    tokens = np.arange(6, dtype=np.int64)
    names = cache.name_prompt(ROOT, tokens, SIZE, ((), ()))
    cache.insert(np.array([5], np.int32), np.array(names[2:], np.int64))
    cache.let_go(names[-1])
    assert len(cache) == 3
    assert cache.name_prompt(ROOT, tokens, SIZE, ((), ())) == names
    cache.let_go(names[-1])
    cache.evict(np.array([5], np.int32))
    assert len(cache) == 0
    assert set(cache.name_prompt(ROOT, tokens + 9, SIZE, ((), ()))) == set(names)
