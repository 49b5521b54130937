"""Scenes with a KV connector, and damage to them, for the tests of invariants."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from nullblock.spec.facts import Group
from nullblock.spec.machine import events
from nullblock.spec.machine.remote import remote_holds
from nullblock.spec.machine.schedule import decide

sys.path.insert(0, str(Path(__file__).parent))
from world import CONFIG, arrive, new_state, put, step  # noqa: E402  (a module beside this one)


def loading() -> Any:
    """A request waits for a load of several steps into two of its blocks; another runs."""
    s = new_state(replace(CONFIG, num_blocks=10, connector=True))
    arrive(s, "a0", 6, 4, loads_over_steps=True, delays_free=True)
    remote_holds(s, "a0", 4)
    arrive(s, "b1", 4, 4)
    step(s)
    return s


def loadable() -> Any:
    """A request runs on two groups beside a KV connector; two blocks of each are cached."""
    settings = {"connector": True, "groups": (Group(), Group(sliding_window=9))}
    s = new_state(replace(CONFIG, num_blocks=12, **settings))  # type: ignore[arg-type]
    arrive(s, "a0", 5, 4)
    step(s)
    assert s.ncached[("a0", 0)] == s.ncached[("a0", 1)] == 2
    return s


def zeroing() -> Any:
    """A request begins to wait for a load of several steps, beside Mamba layers, while the step
    that another one runs in is decided.
    """
    groups = (Group(), Group(mamba=True))
    s = new_state(replace(CONFIG, num_blocks=12, connector=True, groups=groups))
    arrive(s, "a0", 6, 4, loads_over_steps=True)
    remote_holds(s, "a0", 4)
    arrive(s, "b1", 4, 4)
    decide(s)
    assert s.nzero > 0
    return s


def kept() -> Any:
    """The same load of several steps after an abort: blocks are kept for it, and to be sent."""
    s = loading()
    events.abort(s, "a0")
    return s


def loaded_step() -> Any:
    """The same as `loading`, with the next step decided."""
    s = loading()
    decide(s)
    return s


def shared_load(s: Any) -> None:
    """Another one holds a block that is loaded into."""
    b = s.tab["a0", 1]
    put(own={b: s.own[b] | {"b1"}})(s)


def lose(s: Any, **fields: Any) -> None:
    """A block on which a running request counts was not loaded."""
    put(invalid={s.tab["b1", 0]: 1}, **fields)(s)
