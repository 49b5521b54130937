"""The decode loop without the host: it enqueues steps ahead and reads them when it likes.

A step is a fixed sequence of launches with fixed grids and shapes,

    intake, schedule, tell      letters, decisions, the log
    model                       batch, model, sampling: the caller's
    update                      stop check, ends, blocks freed

and nothing in it waits for the host or depends on what it knows. Where there is CUDA the sequence
is captured in one CUDA graph, which is then replayed; elsewhere it is launched one by one.
Requests arrive, and are ended, through the mailbox, whatever steps are under way.

No graph has been run on a GPU yet: what is tested is the sequence, in Triton's interpreter and
with the kernels' twins, and the loop over a graph that is made of calls.
"""

from collections.abc import Callable
from typing import Protocol

import torch

from nullblock.impl.device.resident import Full
from nullblock.impl.device.scheduler import Scheduler
from nullblock.impl.step import Outputs, Step
from nullblock.kernels.control.state import State

Model = Callable[[State, torch.Tensor], None]
"""Enqueues what computes a step: it finds the step in `State.arrays.decision`, and writes the
tokens, int32 [max_num_seqs], in the order of the step. Its launches, too, are always the same, and
it never waits for the device."""


class Graph(Protocol):
    """A sequence of launches that was recorded once."""

    def capture(self, launches: Callable[[], None]) -> None:
        """Record a sequence, all of whose kernels have been compiled, without running it."""
        ...

    def replay(self) -> None:
        """Run it."""
        ...


class CudaGraph:
    """One CUDA graph."""

    def __init__(self) -> None:
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, launches: Callable[[], None]) -> None:
        """Record a sequence."""
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            launches()

    def replay(self) -> None:
        """Enqueue it."""
        self._graph.replay()


class Loop:
    """Steps of a scheduler that nobody steps by hand.

    From the first `enqueue` to the last `collect` requests are added and ended as always, and
    nothing else is asked of the scheduler. It has to have room from the start: what it does not
    fit raises `Full`, at `add_request`.

    `graph`: what records a step; by default a CUDA graph where there is CUDA, else nothing does.
    """

    def __init__(self, scheduler: Scheduler, model: Model, graph: Graph | None = None) -> None:
        self._scheduler, self._resident, self._model = scheduler, scheduler.resident, model
        resident = self._resident
        resident.fix(scheduler.requests.values())
        device = resident.place.device
        self._sampled = torch.zeros(resident.sizes.max_num_seqs, dtype=torch.int32, device=device)
        self._read = resident.num_steps
        self._graph = CudaGraph() if graph is None and device.type == "cuda" else graph
        self._captured = False

    @property
    def num_ahead(self) -> int:
        """Steps that were enqueued and not collected."""
        return self._resident.num_steps - self._read

    def enqueue(self, steps: int = 1) -> None:
        """Enqueue steps, and read nothing.

        Raises Full if the log would have no place for one that was not collected.
        """
        if self.num_ahead + steps > self._resident.rings.steps:
            room = self._resident.rings.steps
            raise Full(f"{self.num_ahead} steps of {room} wait: collect() them before")
        for _ in range(steps):
            if self._graph is not None and self._captured:
                self._graph.replay()
            else:
                self._launch()
            self._resident.num_steps += 1
            if self._graph is not None and not self._captured:
                self._graph.capture(self._launch)  # the launches before have compiled everything
                self._captured = True

    def _launch(self) -> None:
        """One step, launch by launch."""
        self._resident.launch_schedule()
        self._model(self._resident.state, self._sampled)
        self._resident.launch_update(self._sampled)

    def collect(self) -> list[tuple[Step, Outputs]]:
        """What the steps decided that were enqueued, and what came of them; waits for them."""
        found = []
        while self.num_ahead:
            self._read += 1
            step = self._resident.read_step(self._read)
            self._scheduler.hear_step(step)
            outputs = self._resident.reader.outputs(self._read)
            self._scheduler.hear_outputs(outputs, self._resident.reader.ended(self._read))
            found.append((step, outputs))
        return found

    def close(self) -> None:
        """Give the scheduler back; all steps have to be collected."""
        if self.num_ahead:
            raise RuntimeError(f"{self.num_ahead} steps were not collected")
        self._resident.fixed = False
