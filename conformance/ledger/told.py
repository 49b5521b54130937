"""A counterexample as a record: every action, what it changed, and the state it left."""

import msgspec

from nullblock.spec.explorer.frame import Frame
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.story import Story


class Beat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One action."""

    action: str
    changes: tuple[str, ...]
    frame: Frame


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A counterexample."""

    breaks: str
    sentence: str
    block_size: int
    beats: tuple[Beat, ...]
    values: tuple[str, ...] = ()
    """What the statement reads where it is false."""
    rule: str | None = None
    """The rule after which it is false, where that is known."""
    repeats: int = 0
    """How many of the last actions go on for ever."""


def told(story: Story, scope: Scope) -> Told:
    """The record of a story."""
    return Told(
        story.breaks,
        story.sentence,
        scope.config.block_size,
        tuple(Beat(str(b.action), b.changes, b.frame) for b in story.beats),
        story.values,
        story.rule,
        story.repeats,
    )
