"""Loops over the rule that takes loaded blocks back."""

from nullblock.spec.kernel import State
from nullblock.spec.machine.blocks import free
from nullblock.spec.reclaim import last_loaded
from nullblock.spec.rules.reclaim import reclaim
from nullblock.spec.rules.remote import wait_anew


def take_loaded_back(s: State) -> None:
    """The last of those who wait with loaded blocks gives them back, and waits anew."""
    r = last_loaded(s)
    reclaim(s, r)
    free(s, r)
    wait_anew(s, r)
