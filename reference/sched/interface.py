"""What an engine core may ask of any scheduler."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from nullblock.reference.engine import EngineCoreOutputs
from nullblock.reference.outputs import DraftTokenIds, ModelRunnerOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.output import GrammarOutput, SchedulerOutput
from nullblock.reference.stats import SchedulerStats


class PauseState(enum.IntEnum):
    """How much is scheduled."""

    UNPAUSED = 0
    """Everything."""
    PAUSED_NEW = 1
    """Only what is running already."""
    PAUSED_ALL = 2
    """Nothing."""


class SchedulerInterface(ABC):
    """The scheduler's side of the engine loop: add, schedule, update, finish."""

    @abstractmethod
    def schedule(self) -> SchedulerOutput:
        """Decide one step."""

    @abstractmethod
    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        """Take in what a step sampled; the outputs, by client."""

    @abstractmethod
    def add_request(self, request: Request) -> None:
        """Queue a new request."""

    @abstractmethod
    def finish_requests(
        self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus
    ) -> list[tuple[str, int]]:
        """End requests from outside; the ids and clients of those that were alive."""

    @abstractmethod
    def get_num_unfinished_requests(self) -> int:
        """How many requests there is work for, given the pause state."""

    def has_unfinished_requests(self) -> bool:
        """Whether there is work, given the pause state."""
        return self.get_num_unfinished_requests() > 0

    @abstractmethod
    def has_finished_requests(self) -> bool:
        """Whether workers still have to be told of a finished request."""

    def has_requests(self) -> bool:
        """Whether another step has anything to do or to tell."""
        return self.has_unfinished_requests() or self.has_finished_requests()

    @property
    @abstractmethod
    def pause_state(self) -> PauseState:
        """How much is scheduled."""

    @abstractmethod
    def set_pause_state(self, pause_state: PauseState) -> None:
        """Change how much is scheduled, from the next step on."""

    @abstractmethod
    def reset_prefix_cache(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> bool:
        """Empty the prefix cache, preempting whatever runs if asked to; whether it was done."""

    @abstractmethod
    def get_request_counts(self) -> tuple[int, int]:
        """How many requests run, and how many wait."""

    @abstractmethod
    def make_stats(self) -> SchedulerStats | None:
        """This step's figures; None when statistics are off."""

    def get_kv_connector(self) -> Any:
        """What knows remote KV; None if nothing does."""
        return None

    @abstractmethod
    def get_grammar_bitmask(self, scheduler_output: SchedulerOutput) -> GrammarOutput | None:
        """The mask of allowed tokens for a step; None if nobody in it needs one."""

    @abstractmethod
    def update_draft_token_ids(self, draft_token_ids: DraftTokenIds) -> None:
        """Take drafts for the steps to come."""

    @abstractmethod
    def update_draft_token_ids_in_output(
        self, draft_token_ids: DraftTokenIds, scheduler_output: SchedulerOutput
    ) -> None:
        """Write drafts into a step that was scheduled without knowing them."""
