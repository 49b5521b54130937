"""A cache that keeps the law is never refuted, whatever it is asked to hold."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kv_event_files import FORMS, FRAMINGS, judged, written

BLOCK = 2
Token = int


@dataclass
class Block:
    """A block of the pool."""

    hash: int | None = None
    holders: int = 0


@dataclass
class Pool:
    """A small prefix cache that announces what it does, as a block pool would."""

    num_blocks: int
    blocks: list[Block] = field(init=False)
    free: list[Block] = field(init=False)
    tables: list[list[Block]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = [Block() for _ in range(self.num_blocks - 1)]
        self.free = list(self.blocks)

    def admit(self, tokens: list[Token], *, read: bool) -> None:
        """A request takes what is cached of its prompt, and stores the rest, if there is room."""
        chain = hashes(tokens)
        hits: list[Block] = []
        for hash in chain if read else ():
            found = next((b for b in self.blocks if b.hash == hash), None)
            if found is None:
                break
            hits.append(found)
        if len(chain) - len(hits) > sum(b not in hits for b in self.free):
            return
        for block in hits:
            block.holders += 1
            if block in self.free:
                self.free.remove(block)
        new = [self.take() for _ in chain[len(hits) :]]
        self.tables.append(hits + new)
        if new:
            self.store(chain, tokens, new)

    def take(self) -> Block:
        """The block that was freed first, evicted."""
        block = self.free.pop(0)
        if block.hash is not None:
            self.events.append(removed(block.hash))
        block.hash, block.holders = None, 1
        return block

    def store(self, chain: list[int], tokens: list[Token], new: list[Block]) -> None:
        """The new blocks get their hashes."""
        first = len(chain) - len(new)
        for block, hash in zip(new, chain[first:], strict=True):
            block.hash = hash
        span = tokens[first * BLOCK : len(chain) * BLOCK]
        self.events.append(stored(chain[first:], chain[first - 1] if first else None, span))

    def finish(self, index: int) -> None:
        """A request gives its blocks back, the last first."""
        if not self.tables:
            return
        for block in reversed(self.tables.pop(index % len(self.tables))):
            block.holders -= 1
            if not block.holders:
                self.free.append(block)

    def reset(self) -> None:
        """Everything is forgotten, if nobody holds anything."""
        if not self.tables:
            for block in self.blocks:
                block.hash = None
            self.events.append({"type": "AllBlocksCleared"})

    def cached(self) -> int:
        """Blocks with a hash."""
        return sum(block.hash is not None for block in self.blocks)


def hashes(tokens: list[Token]) -> list[int]:
    """The chain of a prompt's full blocks."""
    chain: list[int] = []
    for at in range(0, len(tokens) - BLOCK + 1, BLOCK):
        text = repr((chain[-1:], tokens[at : at + BLOCK])).encode()
        chain.append(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))
    return chain


def stored(new: list[int], parent: int | None, tokens: list[Token]) -> dict[str, Any]:
    """BlockStored as 0.22.1 has it."""
    return {
        "type": "BlockStored",
        "block_hashes": new,
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": BLOCK,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * len(new),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        "kv_cache_spec_sliding_window": None,
    }


def removed(hash: int) -> dict[str, Any]:
    """BlockRemoved as 0.22.1 has it."""
    return {"type": "BlockRemoved", "block_hashes": [hash], "medium": "GPU", "group_idx": 0}


PROMPTS = st.lists(st.integers(0, 1), min_size=0, max_size=9)
ACTIONS = st.one_of(
    st.tuples(st.just("admit"), PROMPTS, st.booleans()),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("reset")),
    st.tuples(st.just("publish")),
)


def run(num_blocks: int, actions: list[tuple[Any, ...]]) -> tuple[Pool, list[dict[str, Any]]]:
    """A pool that did all that, and the batches that it published."""
    pool, batches = Pool(num_blocks), list[dict[str, Any]]()

    def publish() -> None:
        if pool.events:
            number = len(batches)
            batches.append({"seq": number, "ts": 1.0, "rank": 0, "events": pool.events})
            pool.events = []

    for name, *arguments in actions:
        match name:
            case "admit":
                pool.admit(arguments[0], read=arguments[1])
            case "finish":
                pool.finish(*arguments)
            case "reset":
                pool.reset()
            case _:
                publish()
    publish()
    return pool, batches


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    num_blocks=st.integers(1, 9),
    actions=st.lists(ACTIONS, max_size=40),
    form=st.sampled_from(list(FORMS)),
    framing=st.sampled_from(FRAMINGS),
    begin=st.integers(0, 30),
)
def test_a_cache_that_keeps_the_law_is_not_refuted(
    num_blocks: int, actions: list[Any], form: str, framing: str, begin: int
) -> None:
    """Whatever is asked of it, in whatever form it is told, from its start or later; and what is
    concluded of what it holds is so."""
    pool, batches = run(num_blocks, actions)
    facts = {"num_blocks": num_blocks, "full_attention": True, "no_connector": True}
    if batches:
        found = judged(written(batches, form, framing), **facts, from_start=True)
        assert found.verdict == "INCONCLUSIVE", found.first
        assert found.evidence.cached == pool.cached()
        assert found.evidence.orphans == found.evidence.absent_parents == 0
    if batches[begin:]:
        later = judged(written(batches[begin:], form, framing), **facts, from_start=False)
        assert later.verdict == "INCONCLUSIVE", later.first


MUTANTS = ("front first", "no removal", "removal twice", "clear and keep", "wrong parent")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_cache_that_breaks_the_law_is_refuted(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model with a defect is refuted soon: the property above can fail."""
    if mutant == "front first":
        monkeypatch.setattr(Pool, "finish", _finish_forwards)
    elif mutant == "clear and keep":
        monkeypatch.setattr(Pool, "reset", lambda self: self.events.append(
            {"type": "AllBlocksCleared"}))  # fmt: skip
    rules = Counter[str]()
    for seed in range(60):
        _, batches = run(6, _busy(seed))
        if not batches:
            continue
        for batch in batches:
            batch["events"] = [e for event in batch["events"] for e in _spoiled(mutant, event)]
        found = judged(batches, num_blocks=6, no_connector=True)
        if found.first is not None:
            rules[str(found.first.rule)] += 1
    expected = {
        "front first": {"EVENT-6"},
        "no removal": {"EVENT-3"},
        "removal twice": {"EVENT-2"},
        "clear and keep": {"EVENT-2", "EVENT-4"},
        "wrong parent": {"EVENT-4", "EVENT-12"},
    }[mutant]
    assert set(rules) & expected and set(rules) <= expected | {"EVENT-2", "EVENT-12"}


def _finish_forwards(self: Pool, index: int) -> None:
    if self.tables:
        for block in self.tables.pop(index % len(self.tables)):
            block.holders -= 1
            if not block.holders:
                self.free.append(block)


def _busy(seed: int) -> list[tuple[Any, ...]]:
    import random

    draw = random.Random(seed)
    actions: list[tuple[Any, ...]] = []
    for _ in range(40):
        prompt = [draw.randint(0, 1) for _ in range(draw.randint(2, 8))]
        actions += [("admit", prompt, True), ("publish",), ("finish", draw.randint(0, 3))]
        actions += [("reset",)] if draw.random() < 0.1 else []
    return actions


def _spoiled(mutant: str, event: dict[str, Any]) -> list[dict[str, Any]]:
    match mutant, event["type"]:
        case "no removal", "BlockRemoved":
            return []
        case "removal twice", "BlockRemoved":
            return [event, event]
        case "wrong parent", "BlockStored" if event["parent_block_hash"] is not None:
            return [event | {"parent_block_hash": 4711}]
    return [event]
