"""What the model of a scope says of the drafts on a way: a scenario says it answer by answer."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from nullblock.spec.explorer.actions import Action, Received, Sent, Unloaded, Update, perform
from nullblock.spec.explorer.model import ModelEnv, Scope, beginning
from nullblock.spec.fields import KEPT
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import CONFUSED, Broken, Disabled, Engines, State
from nullblock.spec.profiles import Semantics
from nullblock.spec.state import live

UPDATES = (Update, Received, Sent, Unloaded)
"""The actions with which the oldest step in flight returns, and nothing before it."""


def answers(
    scope: Scope, actions: Iterable[Action], semantics: Semantics
) -> tuple[int | None, ...]:
    """How many drafts it agrees with, one number for each request of each step that comes back
    with drafts; None: it says nothing. Ends where the text contradicts itself.
    """
    found: list[int | None] = []
    s = beginning(scope, semantics)

    def half(s: State) -> None:
        found.extend(_of_step(s, s.k))

    outer, Engines.after_rule = Engines.after_rule, None
    try:
        with suppress(Disabled, Broken, *CONFUSED):
            for action in actions:
                if isinstance(action, UPDATES):
                    half(s)
                perform(s, action, half)
    finally:
        Engines.after_rule = outer
    return tuple(found)


def _of_step(s: State, k: ModelEnv) -> Iterator[int | None]:
    """What it says of the oldest step in flight: nothing of who is gone."""
    if in_flight(s) == 0:
        return
    for i in range(s.cur, s.fend[s.oldest]):
        r = s.frame[i]
        if s.ndraft[i] > 0 and (live(s, r) or s.stage[r] == KEPT):
            yield None if k.lacks_output(s, r, i) else k.agreed(s, r, i)
