"""Encoder inputs for the specification: their numbers, and what lines show of them."""

from dataclasses import dataclass, field, replace
from typing import Any

from nullblock.conformance.encoder_format import MOST_ITEMS, Item
from nullblock.conformance.engine import Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.unruled import (
    follows_many_items,
    follows_odd_items,
    odd_inputs_before,
)
from nullblock.spec import facts
from nullblock.spec.encoder import is_in_cache
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.profiles import Semantics


def refused(what: str, place: str = "") -> OutOfScope:
    """The refusal of what no model of the rules has."""
    return OutOfScope(f"{what} is out of scope", "the reference has it", place)


def check_encoder_decoder(config: Config, semantics: Semantics) -> None:
    """Raise OutOfScope for what an encoder-decoder model has no rules beside."""
    place = "config.encoder.is_encoder_decoder"
    crosses = any(group.type == "cross_attention" for group in config.groups)
    loads = bool(config.encoder) and config.encoder.external is not None  # type: ignore[union-attr]
    if crosses and loads and semantics.reject_unservable:
        # Blocks are taken for what is computed, and not for what is loaded.
        raise refused("cross-attention beside an encoder connector", "config.encoder.external")
    if config.connector is not None:
        what = "an encoder-decoder model with a KV connector is out of scope"
        raise OutOfScope(what, "vLLM refuses it", place)


@dataclass(slots=True)
class Items:
    """Numbers for what items are known by."""

    has_encoder: bool
    is_encoder_decoder: bool
    caches: bool
    semantics: Semantics
    numbers: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    external: frozenset[str] | None = None
    """What an encoder connector has."""

    def taken(self, request: NewRequest) -> tuple[facts.Item, ...]:
        """The items of a request. Raises OutOfScope for those that no front end makes, where it is
        not vLLM that says what becomes of them.
        """
        self._check_many(len(request.mm_features), "a request")
        if self.is_encoder_decoder:
            later, told = self.semantics.items_held_by_place, request.mm_features
            odd = odd_inputs_before(told, self.caches) if later else None
            if odd is not None:
                raise refused(odd)
            return tuple(map(self._before_prompt, request.mm_features))
        end, found = 0, []
        for item in request.mm_features:
            if item.offset < end:
                self._check_made("a request whose encoder inputs overlap, or are not in order,")
            end = item.offset + item.length
            found.append(self._item(item))
        return tuple(found)

    def _before_prompt(self, item: Item) -> facts.Item:
        """An item of an encoder-decoder model, of whose tokens the prompt has none."""
        if item.offset:
            self._check_made("an encoder-decoder model's input that is not at the beginning")
        if not item.length or item.is_embed is not None:
            self._check_made("an encoder-decoder model's input without tokens, or with a mask,")
        return self._item(item)

    def extended(
        self, before: tuple[facts.Item, ...], chunk: NewRequest, kept: int
    ) -> tuple[facts.Item, ...]:
        """The items of a session once a chunk stands behind the tokens that it keeps. Raises
        OutOfScope for more than a request may have, and for those that it has beyond these tokens:
        vLLM 0.22.1 lets them stand where they stood when it drops a session's tokens.
        """
        later = tuple(replace(item, start=item.start + kept) for item in self.taken(chunk))
        self._check_many(len(before) + len(later), "a session")
        if later and before and before[-1].end > kept:
            self._check_made("a session whose encoder inputs overlap, or are not in order,")
        return before + later

    def _item(self, item: Item) -> facts.Item:
        number = self.numbers.setdefault(item.hash, len(self.numbers) + 1)
        self.names[number] = item.hash
        mask = None if item.is_embed is None else tuple(item.is_embed)
        taken = facts.Item(number, item.offset, item.length, mask)
        size = taken.embedded(taken.end)
        if self.sizes.setdefault(number, size) != size:
            self._check_made(f"an encoder input of two sizes, {item.hash!r},")
        return taken

    def _check_many(self, count: int, whose: str) -> None:
        """Raise OutOfScope for so many that a set of their places need not be in order, where that
        is not the order in which vLLM 0.22.1 lets go of them.
        """
        sem = self.semantics
        if count > MOST_ITEMS and not follows_many_items(sem):
            raise refused(f"{whose} with more than {MOST_ITEMS} encoder inputs")

    def _check_made(self, what: str) -> None:
        """Raise OutOfScope for what no front end makes, where no rule says what ought to be, or
        where it was not established what a line does.
        """
        if not follows_odd_items(self.semantics):
            raise refused(what)

    def named(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """The items of a block, by what they are known by."""
        return tuple((self.names[number], distance) for number, distance in keys)

    def decision(self, out: SchedulerOutput) -> Fields:
        """What a `schedule` line shows of encoder inputs."""
        if not self.has_encoder:
            return {}
        inputs: dict[str, list[int]] = {}
        for r, place in out.encoder_inputs:
            inputs.setdefault(r, []).append(place)
        told: Fields = {
            "scheduled_encoder_inputs": inputs,
            "free_encoder_mm_hashes": [self.names[n] for n in out.evicted_items],
        }
        if self.external is not None:
            told["encoder_connector"] = [list(asked) for asked in out.connector_items]
        return told

    def state(self, s: Any) -> Fields:
        """What the `state` of a line shows of the encoder cache."""
        if not self.has_encoder:
            return {}
        names = self.names
        if self.is_encoder_decoder:
            told = [names[s.gone[i]] for i in range(s.ngone)]
            return {"encoder_cache": {"num_free_slots": s.eroom, "allocated": [], "to_free": told}}
        cache = {
            "num_free_slots": s.eroom,
            "num_freeable_slots": s.efree,
            "cached": {names[n]: sorted(s.users[n]) for n in s.kept if is_in_cache(s, n)},
            "freeable": [[names[n], s.kept[n]] for n in s.unused],
            "freed": [names[s.gone[i]] for i in range(s.ngone)],
        }
        return {"encoder_cache": cache}
