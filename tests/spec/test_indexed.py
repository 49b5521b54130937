"""The indexed environment answers as the definitions do."""

import random
from dataclasses import replace
from typing import Any

import pytest
from world import random_items

from nullblock.spec.concrete import Env, State, initial
from nullblock.spec.explorer.actions import actions, perform
from nullblock.spec.explorer.model import ModelEnv, Scope, beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.facts import Config, Encoder, Group, Request
from nullblock.spec.fields import PLAIN
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.kernel import CONFUSED, Broken
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics
from nullblock.spec.switches import with_switches

DECIDING = (
    "stamp rank hsh tab tlen ncached ref stage run nr nwait nfree comp ntok due told npre "
    "kept users unused eroom efree ebudget".split()
)


class _Facts:
    """Requests of three kinds share prefixes; a request's kind is the first letter of its id."""

    def want(self, t: Any, i: int) -> Any:
        r, group = t if isinstance(t, tuple) else (t, 0)
        chain = tuple("shared" if j == 0 else r[0] for j in range(i + 1))
        return (chain, group) if group else chain

    def last_token(self, s: State, r: str) -> int:
        return PLAIN


class Plain(_Facts, Env):
    """By definition."""


class Indexed(_Facts, IndexedEnv):
    """By index."""


class _Unchecked(IndexedEnv):
    def __init__(self, config: Config, checks: bool) -> None:
        super().__init__(config)


class Modelled(ModelEnv, _Unchecked):
    """A scope of the explorer by index; hashes have the numbers that another environment gives."""

    def __init__(self, scope: Scope, semantics: Semantics, by_definition: ModelEnv) -> None:
        super().__init__(scope, semantics)
        for name in SHARED:
            setattr(self, name, getattr(by_definition, name))


SHARED = (
    *("numbers", "parents", "depths", "chains", "truths", "places"),
    *("histories", "later", "contents"),
)
"""What an environment of the explorer remembers of hashes."""


def pair(config: Config) -> tuple[Any, Any]:
    """The initial state by definition, and by index."""
    indexed = Indexed(config)
    return initial(Plain(config, checks=True)), indexed.start()


def _live(value: Any) -> Any:
    value = dict(enumerate(value)) if isinstance(value, list) else value
    return (
        {k: v for k, v in value.items() if v not in (0, None)}
        if isinstance(value, dict)
        else value
    )


def _same(plain: Any, indexed: Any) -> None:
    for field in DECIDING:
        assert _live(getattr(plain, field)) == _live(getattr(indexed, field)), field
    for queue in ("stamp", "unused"):
        by_definition, by_index = getattr(plain, queue), getattr(indexed, queue)
        assert sorted(b for b, place in by_definition.items() if place) == sorted(by_index)
        assert sorted(by_index, key=by_definition.__getitem__) == list(by_index)


WAYS = 3
"""Ways through each scope of the explorer."""
KINDS = (("window",), ("chunks",), ("full", "window"), ("window", "full", "chunks"))
"""Kinds of layers, by group."""


def random_groups(r: random.Random, kinds: tuple[str, ...], size: int) -> tuple[Group, ...]:
    """Groups of these kinds."""
    chunk = size * r.randrange(1, 4)
    made = {"full": Group(), "window": Group(r.randrange(1, 9)), "chunks": Group(0, chunk)}
    return tuple(made[kind] for kind in kinds)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "semantics",
    [NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, with_switches(NORMATIVE, ["freed_unhashed_first=true"])],
    ids=["normative", "vllm", "later", "unhashed-first"],
)
def test_indexed_equals_definition(semantics: Semantics, seed: int) -> None:
    """Random runs give the same outputs and the same deciding fields in both environments."""
    r = random.Random(seed)
    _run(r, replace(_config(r, semantics), encoder=r.choice((None, Encoder(3, 4)))))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
@pytest.mark.parametrize("semantics", [NORMATIVE, VLLM_0_22_1], ids=["normative", "vllm"])
def test_it_does_so_for_layers_that_see_a_part_of_the_past(
    semantics: Semantics, kinds: tuple[str, ...], seed: int
) -> None:
    """And for several groups of layers, of one kind or another."""
    r = random.Random(seed)
    config = _config(r, semantics)
    _run(r, replace(config, groups=random_groups(r, kinds, config.block_size)))


@pytest.mark.parametrize("kinds", KINDS, ids="+".join)
def test_blocks_stand_again_where_null_blocks_stood(kinds: tuple[str, ...]) -> None:
    """A preempted request that comes again has less of its table, and no null blocks."""
    groups = random_groups(random.Random(1), kinds, 1)
    config = Config(20, 1, 3, 2, 20, enable_prefix_caching=False, groups=groups)
    states = pair(config)
    for s in states:
        s.k.requests["a"] = Request("a", 12, 6)
        events.add(s, "a")
    for n in range(10):
        if n == 4:
            assert all(events.reset_prefix_cache(s, True) for s in states)
        plain, indexed = (schedule(s) for s in states)
        assert plain == indexed
        for s in states:
            update_from_output(s)
        _same(*states)


SEMANTICS = {"normative": NORMATIVE, "vllm": VLLM_0_22_1, "later": VLLM_0_32_0}


@pytest.mark.parametrize("line", SEMANTICS)
@pytest.mark.parametrize("name", STANDARD)
def test_it_does_so_for_whatever_the_explorer_visits(name: str, line: str) -> None:
    """And on random ways through its scopes, which have every feature."""
    scope, semantics = STANDARD[name], SEMANTICS[line]
    for seed in range(WAYS):
        r = random.Random(seed)
        try:
            plain: Any = beginning(scope, semantics)
        except ValueError:
            pytest.skip("this line takes no such reports")
        indexed = Modelled(scope, semantics, plain.k).start()
        for _ in range(60):
            action = r.choice(list(actions(plain, scope)))
            try:
                perform(plain, action)
            except (Broken, *CONFUSED):
                break  # where this line breaks a promise, or leaves the scope
            perform(indexed, action)
            _same(plain, indexed)


def test_a_question_that_names_no_index_is_asked_of_every_place() -> None:
    """Beside windows and encoder inputs, too, which have places of their own."""
    config = Config(20, 1, 3, 2, 20, groups=(Group(3),), encoder=Encoder(3, 4))
    for s in pair(config):
        s.k.requests["a"] = Request("a", 12, 6)
        s.actor = "a"
        assert s.k.exists("I", lambda i: i == 7)
        assert s.k.first("I", lambda i: i > 4, lambda i: i) == 5


def _config(r: random.Random, semantics: Semantics) -> Config:
    return Config(
        num_blocks=r.choice((5, 8)),
        block_size=r.choice((1, 2, 3)),
        max_num_scheduled_tokens=r.choice((3, 6, 16)),
        max_num_seqs=3,
        max_model_len=14,
        policy=r.choice(("fcfs", "priority")),
        scheduler_reserve_full_isl=r.random() < 0.5,
        semantics=semantics,
    )


def _run(r: random.Random, config: Config) -> None:
    """Random events, and steps, in both environments."""
    states = pair(config)
    ids: list[str] = []
    for n in range(60):
        if r.random() < 0.3:
            id = f"{r.choice('abc')}{n}"
            ids.append(id)
            length, more, priority = r.randrange(1, 7), r.randrange(1, 6), r.randrange(3)
            items = random_items(r, length) if config.encoder else ()
            q = Request(id, length, more, priority=priority, arrival=n, items=items)
            for s in states:
                s.k.requests[id] = q
                events.add(s, id)
        elif r.random() < 0.1 and ids:
            gone = r.choice(ids)
            assert len({events.abort(s, gone) for s in states}) == 1
        elif r.random() < 0.05:
            running = r.random() < 0.5
            assert len({events.reset_prefix_cache(s, running) for s in states}) == 1
        else:
            plain, indexed = (schedule(s) for s in states)
            assert plain == indexed
            for s in states:
                update_from_output(s)
        _same(*states)
