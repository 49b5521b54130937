"""What scopes with encoder-decoder models have to reach."""

from nullblock.spec.fields import PREEMPTED
from nullblock.spec.kernel import State

CROSS_WITNESSES: dict[str, str] = {
    "items-at-once": "two items of a request are computed with its first token",
    "item-for-two": "a step computes one item twice, for two requests",
    "item-computed-anew": "the items of a request are computed again after it was preempted",
    "told-and-computed": "workers are told to forget an item before a step that computes it again",
}


class CrossWatch:
    """Notes them."""

    reached: set[str]

    def taken_before_prompt(self, s: State) -> None:
        """ENC-12: an item of an encoder-decoder model has its room."""
        r, n = s.planner, s.k.item(s.planner, s.plan[s.ntaken - 1])
        if s.ntaken > 1:
            self.reached.add("items-at-once")
        if s.stage[r] == PREEMPTED:
            self.reached.add("item-computed-anew")
        if any(
            s.inputof[i] != r and s.k.item(s.inputof[i], s.inputs[i] - 1) == n
            for i in range(s.ninput)
        ):
            self.reached.add("item-for-two")
        if any(s.gone[i] == n for i in range(s.ngone)):
            self.reached.add("told-and-computed")
