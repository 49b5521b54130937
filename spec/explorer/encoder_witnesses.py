"""What scopes with encoder inputs have to reach."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.encoder import has_no_budget, has_no_room
from nullblock.spec.explorer.cross_witnesses import CROSS_WITNESSES, CrossWatch
from nullblock.spec.fields import BACK, RUN_PHASE, UPDATE
from nullblock.spec.kernel import State

ENCODER_WITNESSES: dict[str, str] = {
    "item-shared": "a request refers to an item that another one refers to as well",
    "item-found": "a request refers to an item that nobody has referred to for a while",
    "item-twice": "a step computes an item once for two places of a prompt",
    "item-unneeded": "an item is passed because none of its embeddings is needed yet",
    "item-entered-midway": "an item is computed for a request whose prefix hit ends inside it",
    "item-evicted": "an item is evicted to make room for another",
    "evicted-and-computed": "an item is evicted and computed again in one step",
    "no-room-for-item": "a step ends before an item because there is no room for it",
    "no-budget-for-item": "a step ends before an item that it may not compute as well",
    "item-uncut": "a step ends before an item that it must not cut",
    "nothing-before-item": "a request gets no token because it stands right before such an item",
    "item-passed": "a request lets go of an item that it has passed",
    "turned-away-lets-go": "a request that does not enter lets go of an item",
    "input-taken-back": "what a victim was to compute is taken out of the step and the cache",
    "input-kept-for-another": "it is computed all the same, for somebody else refers to it",
    "item-computed-again": "an item is computed again for a request that was inside it when the "
    "encoder cache was reset",
    "item-loaded": "an item is loaded by an encoder connector",
    "item-computed-beside": "a step computes an item and has another one loaded",
    "item-beyond-prompt": "an item is at hand whose last token is an output",
    **CROSS_WITNESSES,
}


class EncoderWatch(CrossWatch):
    """Notes them."""

    reached: set[str]
    idle_items: set[Any]
    """The items that nobody referred to when inputs began to be planned."""

    def encoder_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of encoder inputs."""
        return {
            "ENC-5": self.plan_began,
            "ENC-6": self.item_passed_over,
            "ENC-7": self.item_referred,
            "ENC-8": self.ended_before,
            "ENC-9": self.item_evicted,
            "ENC-10": self.item_planned,
            "ENC-12": self.input_taken,
            "ENC-14": self.item_let_go,
            "ENC-19": self.item_loaded,
        }

    def plan_began(self, s: State) -> None:
        """ENC-5: inputs are being planned."""
        self.idle_items = {n for n, place in s.unused.items() if place}

    def item_passed_over(self, s: State) -> None:
        """ENC-6: an item needs nothing."""
        r, i = s.planner, s.pitem - 1
        if s.k.item_end(r, i) > s.pfrom:
            n = s.k.item(r, i)
            if any(s.k.item(r, s.plan[j]) == n for j in range(s.nplan)):
                self.reached.add("item-twice")
            else:
                self.reached.add("item-unneeded")

    def item_referred(self, s: State) -> None:
        """ENC-7: an item in the cache is referred to."""
        n = s.k.item(s.planner, s.pitem - 1)
        if len(s.users[n]) > 1:
            self.reached.add("item-shared")
        if n in self.idle_items:
            self.reached.add("item-found")

    def ended_before(self, s: State) -> None:
        """ENC-8: a step ends before an item."""
        if s.ptokens == 0:
            self.reached.add("nothing-before-item")
        if has_no_budget(s):
            self.reached.add("no-budget-for-item")
        elif has_no_room(s):
            self.reached.add("no-room-for-item")
        else:
            self.reached.add("item-uncut")

    def item_evicted(self, s: State) -> None:
        """ENC-9: an item is evicted."""
        self.reached.add("item-evicted")

    def item_planned(self, s: State) -> None:
        """ENC-10: an item is to be computed."""
        if s.k.item_start(s.planner, s.pitem - 1) < s.pfrom:
            again = s.phase == RUN_PHASE
            self.reached.add("item-computed-again" if again else "item-entered-midway")

    def input_taken(self, s: State) -> None:
        """ENC-12: an item has its room."""
        if s.k.encoder_decoder:
            self.taken_before_prompt(s)
            return
        n = s.k.item(s.planner, s.plan[s.ntaken - 1])
        if any(s.gone[i] == n for i in range(s.ngone)):
            self.reached.add("evicted-and-computed")

    def item_loaded(self, s: State) -> None:
        """ENC-19: an item that is loaded has its room."""
        self.reached.add("item-loaded")
        if s.ninput:
            self.reached.add("item-computed-beside")
        r = s.planner
        if s.k.item_end(r, s.loads[s.nloaded - 1]) > s.k.prompt_len(r):
            self.reached.add("item-beyond-prompt")

    def item_let_go(self, s: State) -> None:
        """ENC-14: a request refers to an item no more."""
        if s.phase == UPDATE and not s.leaving:
            self.reached.add("item-passed")
        if s.looking == 2:
            self.reached.add("turned-away-lets-go")
        if s.phase == RUN_PHASE and s.leaving == BACK:
            for i in range(s.ninput):
                if s.inputs[i] == 0:
                    self.reached.add("input-taken-back")
                elif s.inputof[i] == s.leaver:
                    n = s.k.item(s.leaver, s.inputs[i] - 1)
                    if s.leaver not in s.users[n]:
                        self.reached.add("input-kept-for-another")
