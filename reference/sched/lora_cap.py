"""The cap on adapters: at most ``max_loras`` different ones run, or in vLLM compute in a step."""

from nullblock.reference.request import Request
from nullblock.reference.sched.state import SchedulerState, Step


class LoRACap(SchedulerState):
    """Keeps a request waiting whose adapter has no place in the step any more.

    It is asked only where there is a ``lora_config``.
    """

    def _note_running_loras(self, step: Step) -> None:
        """Count the adapters of the running requests.

        vLLM counts those that this step computes, with a number above 0. Whoever takes the place
        of one that is passed over makes the step that computes both fail here.
        """
        keep_places = self.semantics.adapters_keep_places
        step.loras = {
            request.lora_request.lora_int_id
            for request in (self.running if keep_places else step.running.values())
            if request.lora_request and (keep_places or request.lora_request.lora_int_id > 0)
        }
        assert len(step.loras) <= self.lora_config.max_loras

    def _exceeds_max_loras(self, request: Request, step: Step) -> bool:
        """Whether one adapter more than allowed would have a place in this step."""
        if not request.lora_request:
            return False
        is_full = len(step.loras) == self.lora_config.max_loras
        return is_full and request.lora_request.lora_int_id not in step.loras

    def _take_lora_place(self, request: Request, step: Step) -> None:
        """Count the adapter of an admitted request, whatever its number."""
        if request.lora_request:
            step.loras.add(request.lora_request.lora_int_id)
