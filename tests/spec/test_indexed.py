"""The indexed environment answers as the definitions do."""

import random
from typing import Any

import pytest

from nullblock.spec.concrete import Env, State, initial
from nullblock.spec.facts import Config, Request
from nullblock.spec.fields import PLAIN
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics, with_switches

DECIDING = (
    "stamp rank hsh tab tlen ncached ref stage run nr nwait nfree comp ntok due told npre".split()
)


class _Facts:
    """Requests of three kinds share prefixes; a request's kind is the first letter of its id."""

    def want(self, r: str, i: int) -> tuple[str, ...]:
        return tuple("shared" if j == 0 else r[0] for j in range(i + 1))

    def last_token(self, s: State, r: str) -> int:
        return PLAIN


class Plain(_Facts, Env):
    """By definition."""


class Indexed(_Facts, IndexedEnv):
    """By index."""


def _pair(config: Config) -> tuple[Any, Any]:
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
    assert sorted(b for b in plain.stamp if plain.stamp[b]) == sorted(indexed.stamp)
    assert sorted(indexed.stamp, key=plain.stamp.__getitem__) == list(indexed.stamp)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "semantics",
    [NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, with_switches(NORMATIVE, ["freed_unhashed_first=true"])],
    ids=["normative", "vllm", "later", "unhashed-first"],
)
def test_indexed_equals_definition(semantics: Semantics, seed: int) -> None:
    """Random runs give the same outputs and the same deciding fields in both environments."""
    r = random.Random(seed)
    config = Config(
        num_blocks=r.choice((5, 8)),
        block_size=r.choice((1, 2, 3)),
        max_num_scheduled_tokens=r.choice((3, 6, 16)),
        max_num_seqs=3,
        max_model_len=14,
        policy=r.choice(("fcfs", "priority")),
        scheduler_reserve_full_isl=r.random() < 0.5,
        semantics=semantics,
    )
    states = _pair(config)
    ids: list[str] = []
    for n in range(60):
        if r.random() < 0.3:
            id = f"{r.choice('abc')}{n}"
            ids.append(id)
            q = Request(
                id, r.randrange(1, 7), r.randrange(1, 6), priority=r.randrange(3), arrival=n
            )
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
