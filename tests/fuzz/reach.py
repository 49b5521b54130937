"""What a scenario reaches: fuzzing that never preempts shows nothing about preemption.

Most is read from the lines (``nullblock.conformance.lockstep.reach``). Who was withdrawn, whom a
victim made the scheduler skip, and who was passed over because of outputs in flight can be seen
only from inside, so the reference is watched while it runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fuzz.lockstep import Scenario, lines_of

from nullblock.conformance.lockstep import reach
from nullblock.reference.request import Request
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.state import Step

INSIDE = (
    "withdrawal of a scheduled victim",
    "victim before the index, not scheduled",
    "self-preemption",
    "passed over: the outputs in flight are its last",
    "a step scheduled whose output nobody takes",
)


def reached(document: Scenario) -> set[str]:
    """Everything that a scenario reaches. Raises ``InputError`` as the driver does."""
    with _watched() as seen:
        lines = lines_of("reference", document)
    priority = document["config"].get("policy") == "priority"
    seen |= {f"{what} (priority)" for what in seen if priority}
    return seen | reach.reached(document, lines)


@contextmanager
def _watched() -> Iterator[set[str]]:
    """What happens while victims are chosen, until the end of the block."""
    seen: set[str] = set()
    pop_victim: Callable[..., Request] = RunningPhase._pop_victim
    preempt_for: Callable[..., Any] = RunningPhase._preempt_for
    is_served: Callable[..., bool] = RunningPhase._is_served_by_steps_in_flight

    def watched_pop(self: RunningPhase, step: Step) -> Request:
        before, scheduled = list(self.running), set(step.num_scheduled_tokens)
        index = step.req_index
        victim = pop_victim(self, step)
        if victim.request_id in scheduled:
            seen.add(INSIDE[0])
        elif before.index(victim) < index:
            seen.add(INSIDE[1])
        return victim

    def watched_preempt(
        self: RunningPhase, request: Request, num_new_tokens: int, step: Step
    ) -> Any:
        blocks = preempt_for(self, request, num_new_tokens, step)
        if blocks is None:
            seen.add(INSIDE[2])
        return blocks

    def watched_check(self: RunningPhase, request: Request) -> bool:
        passed_over = is_served(self, request)
        in_flight = request.num_output_placeholders
        if passed_over:
            seen.add(INSIDE[3])
        elif request.num_output_tokens + in_flight >= request.max_tokens:
            seen.add(INSIDE[4])
        return passed_over

    vars_ = {
        "_pop_victim": watched_pop,
        "_preempt_for": watched_preempt,
        "_is_served_by_steps_in_flight": watched_check,
    }
    originals = {name: getattr(RunningPhase, name) for name in vars_}
    for name, function in vars_.items():
        setattr(RunningPhase, name, function)
    try:
        yield seen
    finally:
        for name, function in originals.items():
            setattr(RunningPhase, name, function)
