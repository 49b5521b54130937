"""A small concrete world for tests of the specification: requests of a few kinds that share
prefixes.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from nullblock.spec.concrete import Env, State, initial
from nullblock.spec.explorer.actions import actions, perform
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.facts import Config, Item, Request
from nullblock.spec.fields import EOS, PLAIN
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import Engines
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, Semantics

CONFIG = Config(
    num_blocks=7, block_size=2, max_num_scheduled_tokens=7, max_num_seqs=3, max_model_len=12
)


class World(Env):
    """Requests whose ids start alike share their first block; those of kind `e` stop at once."""

    def __init__(self, config: Config, checks: bool = False) -> None:
        super().__init__(config, checks)
        self.pasts: list[tuple[int, int]] = []
        """Of what sessions have had: what it follows, and how many blocks keep their hashes."""

    def want(self, t: Any, i: int) -> Any:
        r = self.owner(t)
        if r is None:
            return None
        kinds = ("shared" if j == 0 else r[0] for j in range(i + 1))
        return tuple((kind, self.group(t)) if self.several else kind for kind in kinds)

    def extended(self, r: Any, past: int, kept: int, known: int) -> int:
        self.pasts.append((past, self.full(known)))
        return len(self.pasts)

    def chained(self, t: Any, i: int, past: int) -> Any:
        """Blocks that a session had full keep their hashes, and those behind get new ones."""
        if not past:
            return self.want(t, i)
        before, full = self.pasts[past - 1]
        if i < full:
            return self.chained(t, i, before)
        whole = self.chained(t, full - 1, before) if full else ()
        return (*whole, *((self.owner(t), past) for _ in range(i + 1 - full)))

    def par(self, h: Any) -> Any:
        return h and h[:-1]

    def depth(self, h: Any) -> int:
        return len(h or ())

    def accepted(self, s: State, r: str) -> int:
        drafts: int = s.ndraft[s.cur]  # type: ignore[attr-defined]
        return (len(r) + int(s.ntok[r])) % (drafts + 1)  # type: ignore[attr-defined]

    def proposed(self, s: State, r: str) -> int:
        return 0 if self.asynchronous else self.num_spec

    def last_token(self, s: State, r: str) -> int:
        return EOS if r[0] == "e" else PLAIN


def new_state(config: Config = CONFIG) -> Any:
    """The empty state of a world."""
    return initial(World(config, checks=True))


def random_items(r: random.Random, prompt: int) -> tuple[Item, ...]:
    """Encoder inputs for a prompt of so many tokens: one number has one size."""
    found: list[Item] = []
    end = 0
    while r.random() < 0.6:
        number, start = r.randrange(1, 4), end + r.randrange(2)
        item = Item(number, start, number, (True, False, True) if number == 3 else None)
        end = item.end
        if end > prompt:
            break
        found.append(item)
    return tuple(found)


def arrive(s: Any, id: str, prompt: int, output: int, **facts: Any) -> None:
    """A request arrives."""
    s.k.requests[id] = Request(id, prompt, output, **facts)
    events.add(s, id)


def step(s: Any) -> Any:
    """One whole step; what it decided."""
    out = schedule(s)
    update_from_output(s)
    return out


def observed(after_rule: Callable[[Any, str], None], run: Callable[[], None]) -> None:
    """Call `after_rule` after every rule that `run` fires."""
    Engines.after_rule = after_rule
    try:
        run()
    finally:
        Engines.after_rule = None


def drawn(r: random.Random) -> Config:
    """A random configuration."""
    return Config(
        num_blocks=r.choice((5, 6, 8, 14)),
        block_size=r.choice((1, 2)),
        max_num_scheduled_tokens=r.choice((3, 5, 9)),
        max_num_seqs=r.choice((2, 3)),
        max_model_len=12,
        long_prefill_token_threshold=r.choice((0, 0, 2)),
        enable_chunked_prefill=r.random() < 0.7,
        enable_prefix_caching=r.random() < 0.9,
        scheduler_reserve_full_isl=r.random() < 0.5,
        policy=r.choice(("fcfs", "priority")),
        async_scheduling=r.random() < 0.5,
        num_spec_tokens=r.choice((0, 1, 3)),
        spec_method=r.choice(("ngram", "eagle", "draft_model")),
        max_loras=r.choice((0, 0, 1, 2)),
        grammars=r.random() < 0.3,
    )


def random_run(seed: int, steps: int = 40, **settings: Any) -> Any:
    """Arrivals, steps and disturbances, a pure function of the seed and of settings that are not
    drawn; the last state.
    """
    r = random.Random(seed)
    s = new_state(replace(drawn(r), **settings))
    depth = r.choice((1, 1, 2, 3))
    for n in range(steps):
        disturb(s, r, n)
        if r.random() < 0.8:
            schedule(s)
            if r.random() < 0.2:
                disturb(s, r, 1000 + n)
            if in_flight(s) >= depth:
                update_from_output(s)
    while in_flight(s):
        update_from_output(s)
    return s


def random_states(
    scope: Scope, seed: int, steps: int, semantics: Semantics = NORMATIVE
) -> Iterator[Any]:
    """States along a random way through a scope of the explorer."""
    chance, s = random.Random(seed), beginning(scope, semantics)
    for _ in range(steps):
        perform(s, chance.choice(list(actions(s, scope))))
        yield s.copy()


def disturb(s: Any, r: random.Random, n: int) -> None:
    """Something that may happen between steps, or nothing."""
    kind = r.random()
    live = [q for q in s.k.requests if s.stage[q]]
    if kind < 0.35:
        id, prompt, output = f"{r.choice('abe')}{n}", r.randrange(1, 13), r.randrange(1, 5)
        pooling = s.k.wants_vectors and r.random() < 0.5
        arrive(
            s,
            id,
            prompt,
            1 if pooling else output,
            priority=r.randrange(3),
            arrival=n,
            adapter=r.randrange(4) if s.k.max_loras else 0,
            grammar=s.k.config.grammars and r.random() < 0.5,
            pooling=pooling,
            **({"items": random_items(r, prompt)} if s.k.encodes else {}),
        )
    elif kind < 0.42 and live:
        events.abort(s, r.choice(live))
    elif kind < 0.47:
        events.reset_prefix_cache(s, r.random() < 0.7)
    elif kind < 0.5:
        events.evict_blocks(s, [r.randrange(1, s.k.usable + 1)])
    elif kind < 0.55:
        events.pause(s, r.choice((0, 0, 1, 2)))
    elif kind < 0.75 and live:
        events.compiled(s, r.choice(live))
    elif 0.75 <= kind < 0.78 and s.k.encodes:
        events.reset_encoder_cache(s)


def put(**fields: Any) -> Callable[[Any], None]:
    """Set fields: a plain value, or a dict of entries for a map."""

    def change(s: Any) -> None:
        for name, value in fields.items():
            if isinstance(value, dict):
                getattr(s, name).update(value)
            else:
                setattr(s, name, value)

    return change
