"""What scenarios with encoder inputs reach, seen from inside the reference while it runs."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fuzz.lockstep import Scenario, lines_of

from nullblock.reference.encoder_cache_manager import EncoderCacheManager
from nullblock.reference.multimodal.inputs import PlaceholderRange
from nullblock.reference.request import Request
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.encoder_plan import EncoderPlan
from nullblock.reference.sched.finishing import Finishing
from nullblock.reference.sched.state import Step

MUST_REACH = (
    "computed",
    "loaded from a connector",
    "at hand: cached",
    "at hand: planned for the same request",
    "taken up again by its next holder",
    "evicted",
    "evicted for nobody",
    "cut before an item",
    "cut to nothing",
    "cut: items are not cut",
    "cut a token early, for EAGLE",
    "no embedding in the range",
    "begins within an item",
    "let go when no slots were found",
    "kept although a withdrawn victim never computed it",
    "what a withdrawn victim gave back is lost",
    "more room than there is: given back twice",
    "empty embeddings beyond the prompt",
    "reset while held",
    "end of a pooling request",
    "several clients told of ends at once",
    "resumed and told as new",
)
IN_LINES = {
    "several clients told of ends at once": r'"finished_by_client":\{"\d":[^}]*,"\d":',
    "resumed and told as new": r'"prefill_len":[0-9]+,"prompt_len":0',
}
Seen = set[str]


def reached(document: Scenario) -> Seen:
    """Everything of :data:`MUST_REACH` that a scenario reaches."""
    with _watched() as seen:
        text = "\n".join(lines_of("reference", document))
    return seen | {what for what, sign in IN_LINES.items() if re.search(sign, text)}


@contextmanager
def _watched() -> Iterator[Seen]:
    """What happens until the end of the block."""
    seen: Seen = set()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in WATCHED]
    for owner, name, note in WATCHED:
        setattr(owner, name, _around(seen, getattr(owner, name), note))
    try:
        yield seen
    finally:
        for owner, name, real in before:
            setattr(owner, name, real)


def _around(seen: Seen, real: Any, note: Callable[..., Any]) -> Any:
    def watching(self: Any, *args: Any, **named: Any) -> Any:
        return note(seen, lambda: real(self, *args, **named), self, *args)

    return watching


def _plan(
    seen: Seen, real: Any, self: EncoderInputs, request: Request, done: int, n: int, step: Step
) -> Any:
    left = real()
    seen.update({"computed"} if step.encoder_plan.inputs else ())
    seen.update({"loaded from a connector"} if step.encoder_plan.loaded else ())
    freed = getattr(self.encoder_cache_manager, "freed", ())
    seen.update({"evicted"} if freed else ())
    seen.update({"evicted for nobody"} if freed and n and not left else ())
    return left


def _cut(
    seen: Seen,
    real: Any,
    self: EncoderInputs,
    request: Request,
    index: int,
    done: int,
    n: int,
    plan: EncoderPlan,
) -> Any:
    left, start = real(), request.mm_features[index].mm_position.offset
    if left is None:
        seen.update({"begins within an item"} if start < done else ())
        return left
    seen.add("cut before an item" if left else "cut to nothing")
    if self.scheduler_config.disable_chunked_mm_input and done < start:
        seen.add("cut: items are not cut")
    if self.use_eagle and left and done + left == start - 1:
        seen.add("cut a token early, for EAGLE")
    return left


def _at_hand(
    seen: Seen, real: Any, self: EncoderInputs, request: Request, index: int, plan: EncoderPlan
) -> Any:
    identifier = request.mm_features[index].identifier
    was_free = identifier in self.encoder_cache_manager.freeable
    found = real()
    if found and identifier in plan.identifiers:
        seen.add("at hand: planned for the same request")
    elif found:
        seen.add("at hand: cached")
        seen.update({"taken up again by its next holder"} if was_free else ())
    return found


def _withdraw(seen: Seen, real: Any, self: EncoderInputs, victim: Request, step: Step) -> None:
    before = step.encoder_budget
    real()
    if step.encoder_budget > before:
        seen.add("kept although a withdrawn victim never computed it")


def _take(seen: Seen, real: Any, self: EncoderInputs, request: Request, step: Step) -> None:
    plan = step.encoder_plan
    costs = sum(request.get_num_encoder_embeds(index) for index in plan.inputs)
    if plan.inputs and step.encoder_budget - costs > plan.budget:
        seen.add("what a withdrawn victim gave back is lost")
    real()


def _free(seen: Seen, real: Any, self: EncoderCacheManager, request: Request) -> None:
    if request.status.name in ("WAITING", "PREEMPTED"):
        seen.add("let go when no slots were found")
    real()


def _let_go(seen: Seen, real: Any, self: EncoderInputs, request: Request) -> None:
    real()
    if self.encoder_cache_manager.num_free_slots > self.encoder_cache_manager.cache_size:
        seen.add("more room than there is: given back twice")


def _reset(seen: Seen, real: Any, self: EncoderInputs) -> None:
    seen.update({"reset while held"} if any(self.encoder_cache_manager.cached.values()) else ())
    real()


def _end(seen: Seen, real: Any, self: Finishing, request: Request, *_: Any) -> Any:
    seen.update({"end of a pooling request"} if request.pooling_params is not None else ())
    digests = request._prompt_embeds_per_block_hashes
    if any(first >= request.num_prompt_tokens for first, _ in digests):
        seen.add("empty embeddings beyond the prompt")
    return real()


def _range(seen: Seen, real: Any, self: PlaceholderRange, start: int, end: int) -> Any:
    first, last = real()
    seen.update({"no embedding in the range"} if first == last else ())
    return first, last


WATCHED: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (EncoderInputs, "_plan_encoder_inputs", _plan),
    (EncoderInputs, "_cut_before", _cut),
    (EncoderInputs, "_is_at_hand", _at_hand),
    (EncoderInputs, "_take_encoder_inputs", _take),
    (EncoderInputs, "_free_encoder_inputs", _let_go),
    (EncoderInputs, "reset_encoder_cache", _reset),
    (EncoderInputs, "_withdraw_encoder_inputs", _withdraw),
    (EncoderCacheManager, "free", _free),
    (Finishing, "_free_request", _end),
    (PlaceholderRange, "get_embeds_indices_in_range", _range),
)
"""Class, method, and what notes what happens there."""
