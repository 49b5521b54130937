"""Encoder-decoder models: whose room it is, and what workers forget.

Rules of the core and of encoder inputs call the parts that are no rules.
"""

from nullblock.spec.cross import is_told_to_forget
from nullblock.spec.fields import ADVANCE
from nullblock.spec.flight import has_answer, room_grows
from nullblock.spec.kernel import State, Value, either, neg, require, rule
from nullblock.spec.planning import gives_up_all
from nullblock.spec.rules.encoder import forget_asked


@rule("ENC-52")
def leave_to_forget(s: State) -> None:
    """With each step the workers of an encoder-decoder model are told to forget the items that the
    step before it computed, or had loaded, in that order, be they computed again or not.

    Source: EncoderDecoderCacheManager.get_freed_mm_hashes.
    """
    require(s.phase == ADVANCE, "the step is decided")
    require(neg(is_told_to_forget(s)), "an item of it is not noted yet")
    i = s.ngone
    if s.k.loads_items:
        s.gone[i] = s.k.item(s.asksof[i], s.asks[i] - 1)
    else:
        s.gone[i] = s.k.item(s.inputof[i], s.inputs[i] - 1)
    s.ngone = i + 1


def close_encoder(s: State) -> None:
    """Of an encoder-decoder model: the inputs of the step are told (ENC-53)."""
    if s.k.encoder_decoder:
        s.inputs = s.k.blank("inputs")
        s.inputof = s.k.blank("inputof")
        s.ninput = 0
        forget_asked(s)
        if s.k.sem.item_room_returns_once:
            s.eroom = s.k.encoder_slots
            s.efree = s.k.encoder_slots


@rule("ENC-54", "R")
def give_room_again(s: State, r: Value) -> None:
    """In vllm-0.22.1 the room of all items of a request comes back with each output of it, and
    again when it leaves, or does not enter, whether or not it has any: there is soon more room
    than there is.

    Source: EncoderDecoderCacheManager.free_encoder_input, Scheduler._free_encoder_inputs
    (upstream 51228, 55733). Normative gives each step the whole room (ENC-53).
    """
    require(room_grows(s, r), "it has items, and room grows")
    require(either(gives_up_all(s, r), has_answer(s, r)), "it gives room back")
    s.eroom += s.k.encoder_tokens(r)
    s.efree += s.k.encoder_tokens(r)
