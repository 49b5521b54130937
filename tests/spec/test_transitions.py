"""Every statement about a step, an event or true content can fail: for each, a state that is
damaged where it looks.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.actions import Action, Add, Reset, Schedule, Update, perform
from nullblock.spec.explorer.model import beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, TOKEN, UNBORN, WAITING
from nullblock.spec.flight import begins
from nullblock.spec.profiles import NORMATIVE

sys.path.insert(0, str(Path(__file__).parent))
from world import put  # noqa: E402  (a module beside this one)

Scene = tuple[Any, Any, Action]
Damage = Callable[[Any], None]


def after(steps: int, last: Action) -> Scene:
    """What was before the last half of a step, what is after it, and that half: all three
    requests of the core scope are live, and what fits runs.
    """
    s = beginning(STANDARD["core"], NORMATIVE)
    for t in STANDARD["core"].templates:
        perform(s, Add(t.id))
    for _ in range(steps):
        perform(s, Schedule())
        perform(s, Update())
    if isinstance(last, Update):
        perform(s, Schedule())
    was = s.copy()
    perform(s, last)
    return was, s, last


def scheduled() -> Scene:
    """A step has been scheduled in which two running requests were served."""
    return after(1, Schedule())


def updated() -> Scene:
    """The output of such a step has come."""
    return after(1, Update())


def first(s: Any, place: int = 0) -> int:
    """An entry of the step scheduled last."""
    return int(begins(s, s.steps - 1)) + place


def empty(s: Any) -> None:
    """As if that step had scheduled nobody."""
    s.nframe = s.fend[s.steps - 1] = first(s)


def freed() -> Scene:
    """The blocks of requests that have stopped are free and cached."""
    return after(9, Schedule())


def to_be_sent() -> Scene:
    """A step has been scheduled while the blocks of a request that has ended are to be sent."""
    s = beginning(STANDARD["sends"], NORMATIVE)
    for action in (Add("b"), Schedule(), Update()):
        perform(s, action)
    was = s.copy()
    perform(s, Schedule())
    return was, s, Schedule()


def emptied() -> Scene:
    """The prefix cache of layers with a sink was reset while nobody held a block."""
    (scope,) = (d.scope for d in DEPARTURES if d.name == "sinks-are-held")
    s = beginning(scope, NORMATIVE)
    for action in (Add("a"), Schedule(), Update()):
        perform(s, action)
    was = s.copy()
    perform(s, Reset(False))
    return was, s, Reset(False)


def crowded() -> Scene:
    """A step has been scheduled that has budget left, and no room for an item of one who runs."""
    s = beginning(STANDARD["items-crowded"], NORMATIVE)
    for action in (Add("a"), Add("b"), Schedule(), Update()):
        perform(s, action)
    was = s.copy()
    perform(s, Schedule())
    return was, s, Schedule()


def orphan(s: Any) -> None:
    """A cached block loses the only one with its parent's hash."""
    parents = {s.k.par(h) for h in s.hsh.values() if h is not None}
    lost = next(b for b, h in s.hsh.items() if h in parents)
    for b, h in list(s.hsh.items()):
        if h == s.hsh[lost] and b != lost:
            s.hsh[b] = None
    s.hsh[lost] = None


BREAKS: dict[str, tuple[Callable[[], Scene], Damage]] = {
    "PREEMPT-7": (scheduled, lambda s: put(preempted=frozenset({s.frame[first(s)]}))(s)),
    "RUN-20": (scheduled, empty),
    "WAIT-50": (
        lambda: after(0, Schedule()),
        lambda s: put(stage={s.run[0]: WAITING}, rank={s.run[0]: 1})(s),
    ),
    "RUN-28": (
        scheduled,
        lambda s: put(nframe=first(s, 1), budget=1, comp={s.frame[first(s, 1)]: 0})(s),
    ),
    "RUN-22": (scheduled, lambda s: put(run={0: s.run[1], 1: s.run[0]})(s)),
    "RUN-23": (scheduled, lambda s: put(grant={first(s): s.k.budget + 1})(s)),
    "RUN-24": (
        scheduled,
        lambda s: put(frame={first(s): s.frame[first(s, 1)], first(s, 1): s.frame[first(s)]})(s),
    ),
    "TABLE-10": (scheduled, lambda s: put(tab={(s.run[0], 0): 99})(s)),
    "UPD-14": (scheduled, lambda s: put(comp={s.run[0]: s.comp[s.run[0]] + 1})(s)),
    "UPD-15": (updated, lambda s: put(ntok={s.run[0]: s.ntok[s.run[0]] + 1})(s)),
    "UPD-23": (updated, lambda s: put(ntok={s.run[0]: s.ntok[s.run[0]] + 1})(s)),
    "REMOTE-38": (to_be_sent, put(stage={"b": UNBORN})),
    "GROUP-35": (emptied, lambda s: s.hsh.update({1: 1})),
    "HASH-18": (scheduled, lambda s: put(tab={("b", 1): s.tab["a", 0]})(s)),
    "HASH-19": (freed, orphan),
}


def holds(id: str, scene: Scene) -> bool:
    """Whether a statement holds of a scene."""
    was, s, done = scene
    return TRANSITIONS[id](was, s, done) if id in TRANSITIONS else CLAIMS[id](s)


@pytest.mark.parametrize("id", [*TRANSITIONS, *CLAIMS])
def test_every_statement_can_fail(id: str) -> None:
    """It holds of what really happens, and falls when the state is damaged where it looks."""
    make, damage = BREAKS[id]
    scene = make()
    assert holds(id, scene)
    damage(scene[1])
    assert not holds(id, scene)


def test_a_pause_excuses_only_what_it_stops() -> None:
    """RUN-20: nobody need be served while everything is paused; with admissions paused those who
    run still must be.
    """
    scene = scheduled()
    empty(scene[1])
    put(pause=PAUSED_ALL)(scene[1])
    assert holds("RUN-20", scene)
    put(pause=PAUSED_NEW)(scene[1])
    assert not holds("RUN-20", scene)
    put(nr=0)(scene[1])
    assert holds("RUN-20", scene)


def test_one_output_is_one_token() -> None:
    """UPD-15: a request that owes a token takes it, and one that owes none takes none."""
    was, s, done = updated()
    r = s.run[0]
    assert was.frame[was.cur] == r and was.due[was.cur] == TOKEN
    put(ntok={r: s.ntok[r] - 1})(s)
    assert not holds("UPD-15", (was, s, done))


ITEM_ROOM: dict[str, Damage] = {
    "there is room": put(efree=3),
    "there is room, and somebody was preempted": put(efree=3, preempted=frozenset({"c"})),
    "the step may compute it no more": put(efree=3, ebudget=1),
    "it is there": put(unused={2: 1}),
    "it begins later": put(efree=3, comp={"b": 0}),
    "it is passed": put(comp={"b": 3}, ntok={"b": 5}),
}


@pytest.mark.parametrize("what", ITEM_ROOM)
def test_whose_item_has_no_room_may_be_passed_over(what: str) -> None:
    """RUN-28: that excuses a step, or that it may not compute the item; and nothing else does."""
    scene = crowded()
    s = scene[1]
    assert s.budget and [s.frame[i] for i in range(first(s), s.nframe)] == ["a"]
    assert holds("RUN-28", scene)
    ITEM_ROOM[what](s)
    assert holds("RUN-28", scene) is ("preempted" in what or "may compute" in what)
