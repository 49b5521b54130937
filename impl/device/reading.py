"""Reading the log: what the device decided, as the arrays and lists that users get.

Records are read in their order, each before its place is used again: rows are the requests' that
they were when the step was told.
"""

from collections.abc import Iterator

import numpy as np
import torch

from nullblock.impl.arrays import Ints
from nullblock.impl.device.rows import Rows
from nullblock.impl.requests import Request
from nullblock.impl.step import Outputs, Step
from nullblock.kernels.control import exchange as at
from nullblock.kernels.control.exchange import Exchange, Rings
from nullblock.kernels.control.faults import Fault
from nullblock.kernels.control.state import State
from nullblock.kernels.errors import names
from nullblock.spec.fields import CONTINUE


class Reader:
    """The host's end of the log."""

    def __init__(self, state: State, exchange: Exchange, rings: Rings, rows: Rows) -> None:
        self._tokens = state.arrays.requests.tokens
        self._log, self._size, self._rows = exchange.log, rings.steps, rows

    def step(self, number: int) -> Step:
        """What the step of that number decided, from 1. Waits for the device.

        Raises LookupError if its place is another step's, OverflowError if vLLM 0.22.1 would have
        scheduled less than no tokens, RuntimeError if a kernel reported another fault.
        """
        place, header = self._record(number)
        n, ran = int(header[at.SCHEDULED.value]), int(header[at.RAN.value])
        victims, finished = int(header[at.VICTIMS.value]), int(header[at.FINISHED.value])
        columns = _read(self._log.scheduled[place, :, : max(n, victims)])
        rows = columns[at.ROW.value, :n]
        requests = [self._rows[row] for row in rows.tolist()]
        for i in columns[at.RESUMED.value, :n].nonzero()[0].tolist():
            requests[i].num_preemptions = max(requests[i].num_preemptions, 1)
        computed, output = (
            columns[column.value, :n] for column in (at.COMPUTED_TOKENS, at.OUTPUT_TOKENS)
        )
        blocks = self._log.new_block_ids[place, : int(header[at.BLOCKS.value])]
        again = columns[at.SEND_ALL_TOKENS.value, :n].nonzero()[0].tolist()
        told = _read(self._log.finished[place, :finished]).tolist()
        return Step(
            ids=[request.id for request in requests],
            rows=rows,
            num_scheduled_tokens=columns[at.SCHEDULED_TOKENS.value, :n],
            samples=columns[at.SAMPLES.value, :n].astype(np.bool_),
            running=ran,
            admitted=requests[ran:],
            num_computed_tokens=computed,
            num_output_tokens=output,
            new_block_counts=columns[at.NEW_BLOCKS.value, :n],
            new_block_ids=blocks.cpu().numpy(),
            all_token_ids={
                requests[i].id: self._text(
                    int(rows[i]), requests[i].num_prompt_tokens + int(output[i])
                )
                for i in again
            },
            preempted=self._ids(columns[at.PREEMPTED.value, :victims].tolist()),
            finished=list(dict.fromkeys(self._ids(told))),
            num_common_prefix_blocks=int(header[at.COMMON_PREFIX.value]),
        )

    def told(self, number: int) -> Iterator[int]:
        """The rows of those who ended before that step: from now on they are nobody's."""
        place, header = self._record(number)
        yield from self._log.finished[place, : int(header[at.FINISHED.value])].tolist()

    def num_letters(self, number: int) -> int:
        """How many letters had been taken when that step was told."""
        place, _ = self._record(number)
        return int(self._log.taken[place])

    def outputs(self, number: int) -> Outputs:
        """What came of the step of that number; nobody is rejected in it."""
        place, header = self._record(number)
        columns = _read(self._log.scheduled[place, :, : int(header[at.OUTPUTS.value])])
        return Outputs(
            ids=self._ids(columns[at.OUTPUT_ROW.value].tolist()),
            tokens=columns[at.OUTPUT_TOKEN.value],
            why=columns[at.OUTPUT_WHY.value].astype(np.int8),
            rejected=[],
        )

    def ended(self, number: int) -> list[Request]:
        """Whom the tokens of that step ended, in the order of the step."""
        place, header = self._record(number)
        columns = _read(self._log.scheduled[place, :, : int(header[at.OUTPUTS.value])])
        over = columns[at.OUTPUT_WHY.value] != CONTINUE
        return [self._rows[row] for row in columns[at.OUTPUT_ROW.value, over].tolist()]

    def _record(self, number: int) -> tuple[int, Ints]:
        place = (number - 1) % self._size
        header = _read(self._log.header[place])
        _check(Fault(int(header[at.ERROR.value])), number)
        if int(header[at.STEP.value]) != number & (1 << 31) - 1:
            raise LookupError(f"step {number} is not in the log any more, or not yet")
        return place, header

    def _ids(self, rows: list[int]) -> list[str]:
        return [self._rows[row].id for row in rows]

    def _text(self, row: int, n: int) -> list[int]:
        """The first n tokens of a row: they do not change as long as it is the request's."""
        found: list[int] = self._tokens[row, :n].tolist()
        return found


def _check(fault: Fault, number: int) -> None:
    if fault is Fault.TOKENS:
        raise OverflowError(
            "a request is longer than max_model_len, and of such vLLM 0.22.1 schedules less than "
            "no tokens: not on a device"
        )
    if fault:
        raise RuntimeError(f"the scheduler's kernels stopped in step {number}: {names(fault)}")


def _read(values: torch.Tensor) -> Ints:
    """A copy on the host."""
    found: Ints = values.to("cpu", torch.int64).numpy().copy()
    return found
