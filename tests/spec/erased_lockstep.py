"""The erased form and the text itself over the same random events: exit code 1 where they part,
2 where the eraser refuses the text.

python tests/spec/erased_lockstep.py SEEDS
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from world import random_items

from nullblock.spec.concrete import State
from nullblock.spec.erased.program import erased
from nullblock.spec.erased.records import RecordEnv, View
from nullblock.spec.erased.rows import Rows
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.windows import Window
from nullblock.spec.facts import Config, Encoder, Group, Request
from nullblock.spec.fields import EOS, FIELDS, GHOSTS, IDLE, PLAIN, STOP_ID
from nullblock.spec.heaps import PlacedHeap
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.indexes import Stamps
from nullblock.spec.kernel import Broken, Disabled, Engines
from nullblock.spec.machine import events
from nullblock.spec.machine.drafts import offer
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics
from nullblock.spec.state import live

CAUGHT = (Disabled, Broken, LookupError, TypeError, ValueError, AttributeError)


class _Facts(IndexedEnv):
    """Requests of three kinds share prefixes; now and then a token ends one."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.noted: list[tuple[Any, Any]] = []

    def want(self, r: Any, i: int) -> tuple[str, ...]:
        return tuple("shared" if j == 0 else r[0] for j in range(i + 1))

    def last_token(self, s: State, r: Any) -> int:
        tokens: int = s.ntok[r]  # type: ignore[attr-defined]
        return (PLAIN, PLAIN, PLAIN, STOP_ID, PLAIN, PLAIN, EOS)[(tokens + len(r)) % 7]

    def accepted(self, s: State, r: Any) -> int:
        drafts: int = s.ndraft[s.cur]  # type: ignore[attr-defined]
        return (len(r) + int(s.ntok[r])) % (drafts + 1)  # type: ignore[attr-defined]

    def proposed(self, s: State, r: Any) -> int:
        return 0 if self.asynchronous else self.num_spec

    def note(self, s: State, r: Any, why: Any) -> None:
        self.noted.append((r, why))


class Maps(_Facts):
    """A map for each field."""


class Objects(_Facts, RecordEnv):
    """An object for each request."""


class Form:
    """One state and one form of the text that moves it."""

    def __init__(self, config: Config, env: type[_Facts], *, plain: bool) -> None:
        self.fired: Counter[str] = Counter()
        k = env(config)
        self.s: Any = k.start()
        self.schedule: Callable[[Any], Any] = schedule
        self.update: Callable[[Any], Any] = update_from_output
        self.offer: Callable[[Any, Any, int], Any] = offer
        if not plain:
            step, update, propose = (erased(f, k) for f in (schedule, update_from_output, offer))
            self.offer = lambda s, r, n: propose(s, self.fired, r, n)
            self.schedule = lambda s: step(s, self.fired)
            self.update = lambda s: update(s, self.fired)

    def does(self, what: Any) -> Callable[[Any], Any]:
        """An event as a function of the state: a half step by name, drafts for a request, or a
        function already. Nobody offers any to who is gone.
        """
        if isinstance(what, tuple):
            return lambda s: live(s, what[0]) and self.offer(s, *what)
        return getattr(self, what) if isinstance(what, str) else what  # type: ignore[no-any-return]

    def did(self, what: Callable[[Any], Any]) -> Any:
        """What an operation returns or raises, in a form that can be compared."""
        Engines.after_rule = lambda s, rule: self.fired.update([rule])
        try:
            return _plain(what(self.s))
        except CAUGHT as error:
            return type(error).__name__, str(error)
        finally:
            Engines.after_rule = None

    def state(self) -> dict[str, Any]:
        """Everything that decides something, and what was noted and counted."""
        found = {f: _plain(getattr(self.s, f)) for f in FIELDS if f not in GHOSTS}
        return found | {"noted": self.s.k.noted, "fired": dict(self.fired)}


def in_flight(s: Any) -> int:
    """Steps in flight."""
    many: int = s.steps - s.oldest
    return many


def _plain(value: Any) -> Any:
    if isinstance(value, View | Window):
        return sorted(value.items(), key=str)
    if isinstance(value, dict):
        ordered = isinstance(value, Stamps)
        members = value.items() if ordered else sorted(value.items(), key=str)
        return [(k, v) for k, v in members if v not in (0, None)]
    if isinstance(value, PlacedHeap):
        return [value[i] for i in range(len(value))]
    if hasattr(value, "num_scheduled_tokens"):
        return {
            f.name: tuple(part) if isinstance(part, Rows) else part
            for f in fields(value)
            for part in [getattr(value, f.name)]
        }
    return value


def random_config(r: random.Random, groups: tuple[Group, ...]) -> Config:
    """A small engine with these groups, any switch either way."""
    switches = {f.name: r.random() < 0.5 for f in fields(Semantics)}
    semantics = r.choice((NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, replace(NORMATIVE, **switches)))
    pools = not semantics.resumes_await_output
    config = Config(
        num_blocks=r.choice((5, 8, 12)),
        block_size=r.choice((1, 2, 3)),
        max_num_scheduled_tokens=r.choice((3, 6, 16)),
        max_num_seqs=r.choice((2, 4)),
        max_model_len=r.choice((8, 14)),
        long_prefill_token_threshold=r.choice((0, 0, 2)),
        enable_chunked_prefill=r.random() < 0.8,
        enable_prefix_caching=r.random() < 0.8,
        policy=r.choice(("fcfs", "priority")),
        scheduler_reserve_full_isl=r.random() < 0.5,
        async_scheduling=r.random() < 0.4,
        num_spec_tokens=r.choice((0, 0, 1, 3)),
        spec_method=r.choice(("ngram", "eagle", "draft_model")),
        max_loras=r.choice((0, 0, 1, 2)),
        grammars=r.random() < 0.3,
        encoder=r.choice((None, _encoder(r))),
        groups=groups,
        semantics=semantics,
    )
    # Beside drafts and grammars, and in that line, no request wants a vector.
    pools = pools and not config.num_spec_tokens and not config.grammars
    # The line that awaits the states of prompts ends steps with blocks.
    awaits = semantics.prompt_states_awaited and any(group.aligned for group in groups)
    return replace(config, pooling=pools, mamba_split=config.block_size if awaits else 0)


def random_groups(r: random.Random) -> tuple[Group, ...]:
    """Layers of one kind, mostly full attention, or of up to four."""
    full, window = Group(), Group(sliding_window=r.choice((1, 2, 5)), eagle=r.random() < 0.3)
    chunk = Group(attention_chunk_size=r.choice((3, 6)))
    states = Group(mamba=True, every_state=True, num_speculative_blocks=r.choice((0, 1)))
    aligned = replace(states, every_state=False, aligned=True)
    several = (
        *((full, window), (full, window, window, window), (window, chunk), (full, chunk)),
        *((full, states), (full, window, states), (full, aligned)),
        *((full, replace(full, eagle=True)), (full, replace(window, block_size=6))),
    )
    return r.choice(((full,), (full,), (full,), (window,), (chunk,), *[r.choice(several)] * 3))


def _encoder(r: random.Random) -> Encoder:
    return Encoder(r.choice((3, 5)), r.choice((3, 6)), disable_chunked_mm_input=r.random() < 0.3)


def first_difference(
    seed: int, reached: Counter[str], events_each: int = 80, offers: float = 0
) -> str | None:
    """Where the two forms part, in words. `reached` counts rules and errors, by run.

    Args:
        offers: how likely drafts come from outside in place of another event.
    """
    r = random.Random(seed)
    config = random_config(r, random_groups(random.Random(f"groups {seed}")))
    env = r.choice((Maps, Objects))
    forms = Form(config, Maps, plain=True), Form(config, env, plain=False)
    ids: list[str] = []
    proposals = random.Random(f"drafts {seed}")
    for n in range(events_each):
        name, what = _event(r, n, ids, in_flight(forms[0].s))
        if config.num_spec_tokens and ids and proposals.random() < offers:
            name, what = "offer", (proposals.choice(ids), proposals.randrange(-1, 5))
        plain, fast = (form.did(form.does(what)) for form in forms)
        if plain != fast:
            return f"seed {seed} event {n} {name}: {plain} and {fast}"
        ours, theirs = (form.state() for form in forms)
        for field, value in ours.items():
            if value != theirs[field]:
                return f"seed {seed} event {n} {name}: {field} is {value} and {theirs[field]}"
        reached.update(forms[0].fired.keys())
        if isinstance(plain, tuple):
            reached.update([plain[1]])
            if forms[0].s.phase != IDLE:
                return None
    return None


def _event(r: random.Random, n: int, ids: list[str], flying: int) -> tuple[str, Any]:
    if r.random() < 0.3:
        id = f"{r.choice('abc')}{n}"
        ids.append(id)
        length = r.randrange(0 if r.random() < 0.02 else 1, 9)
        q = Request(
            id,
            length,
            r.randrange(1, 6),
            priority=r.randrange(3),
            arrival=n,
            adapter=r.choice((0, 1, 2, 3, -1)),
            grammar=r.random() < 0.4,
            items=random_items(r, length),
        )

        def add(s: Any) -> Any:
            told = q if s.k.skips else replace(q, adapter=0, grammar=False)
            if s.k.wants_vectors and n % 3 == 0:
                told = replace(told, max_tokens=1, pooling=True)
            s.k.requests[id] = told if s.k.encodes else replace(told, items=())
            return events.add(s, id)

        return "add", add
    if r.random() < 0.1 and ids:
        gone = r.choice(ids)
        return "abort", lambda s: events.abort(s, gone)
    if r.random() < 0.2 and ids:
        whose = r.choice(ids)
        return "compiled", lambda s: events.compiled(s, whose)
    if r.random() < 0.05:
        running = r.random() < 0.5
        return "reset", lambda s: events.reset_prefix_cache(s, running)
    if r.random() < 0.03:
        return "reset encoder", lambda s: s.k.encodes and events.reset_encoder_cache(s)
    if r.random() < 0.01:
        turn = r.choice(("schedule", "update"))
    else:
        turn = "schedule" if not flying or (flying < 3 and r.random() < 0.3) else "update"
    return turn, turn


def main() -> int:
    """Compare until the first difference."""
    reached: Counter[str] = Counter()
    for seed in range(int(sys.argv[1])):
        try:
            found = first_difference(seed, reached)
        except Unsupported as why:
            print(f"refused: {why}")
            return 2
        if found:
            print(found)
            return 1
    print(dict(sorted(reached.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
