"""Loops over the rules of encoder-decoder models."""

from nullblock.spec.cross import is_told_to_forget
from nullblock.spec.fields import ENCODER
from nullblock.spec.flight import has_answer, room_grows
from nullblock.spec.kernel import State, Value, loop
from nullblock.spec.rules.cross import give_room_again, leave_to_forget


def note_inputs(s: State) -> None:
    """Note what the step computes for the workers to forget with the step after it (ENC-52)."""
    if s.k.encoder_decoder:
        for _ in loop(
            s,
            until=lambda: is_told_to_forget(s),
            decreases=lambda: s.ninput + s.nask - s.ngone,
            changes=frozenset(ENCODER),
        ):
            leave_to_forget(s)


def give_room_back(s: State, r: Value) -> None:
    """In vllm-0.22.1 r, who leaves or does not enter, gives back the room of its items, be it
    taken or not (ENC-54).
    """
    if room_grows(s, r):
        give_room_again(s, r)


def give_room_with_output(s: State, r: Value) -> None:
    """In vllm-0.22.1 r gives it back with each of its outputs as well (ENC-54)."""
    if room_grows(s, r):
        if has_answer(s, r):
            give_room_again(s, r)
