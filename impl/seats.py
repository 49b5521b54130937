"""What is known of running requests, as arrays: one row, a seat, for each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.requests import Request

Ints = NDArray[np.int64]


class Seats:
    """`max_num_seqs` rows; `order[:count]` are those taken, in the order of the running list.

    Every column is indexed by seat. Tokens and blocks are counted.
    """

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        n = max_num_seqs
        self.order = np.zeros(n, np.int64)
        self.count = 0
        self.free = list(range(n - 1, -1, -1))
        self.requests: list[Request | None] = [None] * n
        self.num_tokens = np.zeros(n, np.int64)
        """Prompt and output."""
        self.num_computed = np.zeros(n, np.int64)
        self.num_prompt = np.zeros(n, np.int64)
        self.limit = np.zeros(n, np.int64)
        """Tokens at which it ends, by max_tokens or max_model_len."""
        self.at_least = np.zeros(n, np.int64)
        """Tokens below which it does not stop, by min_tokens."""
        self.eos = np.zeros(n, np.int64)
        self.has_stop = np.zeros(n, np.bool_)
        self.placeholders = np.zeros(n, np.int64)
        self.num_blocks = np.zeros(n, np.int64)
        self.num_cached = np.zeros(n, np.int64)
        """Leading blocks that were hit or cached."""
        self.granted = np.zeros(n, np.int64)
        """Tokens of the step being decided."""
        self.told = np.zeros(n, np.int64)
        """Blocks that the worker knows of."""
        self.in_previous = np.zeros(n, np.bool_)
        """Whether it was scheduled in the step before."""
        self.tokens = np.zeros((n, min(max_model_len, 64)), np.int64)
        self.table = np.zeros((n, min(max_model_len // block_size + 1, 16)), np.int32)
        self._longest = max_model_len
        self._block_size = block_size

    @property
    def taken(self) -> Ints:
        """Seats in the order of the running list."""
        return self.order[: self.count]

    def room(self, num_tokens: int) -> None:
        """See that so many tokens, and their blocks, have a place in every row."""
        if num_tokens > self.tokens.shape[1]:
            width = max(num_tokens, min(2 * self.tokens.shape[1], self._longest))
            self.tokens = _widened(self.tokens, width)
        blocks = -(-num_tokens // self._block_size)
        if blocks > self.table.shape[1]:
            width = max(
                blocks, min(2 * self.table.shape[1], self._longest // self._block_size + 1)
            )
            self.table = _widened(self.table, width)

    def enter(self, request: Request, num_computed: int, max_model_len: int) -> int:
        """Give a request a seat, the last of the running list; its number."""
        seat = self.free.pop()
        self.requests[seat], request.seat = request, seat
        n = request.num_tokens
        self.room(n)
        self.tokens[seat, :n] = request.tokens
        self.num_tokens[seat], self.num_computed[seat] = n, num_computed
        self.num_prompt[seat] = request.num_prompt_tokens
        self.limit[seat] = min(request.num_prompt_tokens + request.max_tokens, max_model_len)
        self.at_least[seat] = request.num_prompt_tokens + request.min_tokens
        self.eos[seat], self.has_stop[seat] = request.eos, bool(request.stop)
        self.placeholders[seat] = request.num_output_placeholders
        self.num_blocks[seat] = self.num_cached[seat] = 0
        self.granted[seat] = self.told[seat] = 0
        self.in_previous[seat] = False
        self.order[self.count] = seat
        self.count += 1
        return seat

    def leave(self, seat: int) -> Request:
        """Empty a seat; its request knows its tokens again. The running list is the caller's."""
        request = self.requests[seat]
        assert request is not None
        request.tokens = self.tokens[seat, : self.num_tokens[seat]].copy()
        request.num_output_placeholders = int(self.placeholders[seat])
        request.seat = self.requests[seat] = None
        self.granted[seat] = 0
        self.in_previous[seat] = False
        self.free.append(seat)
        return request

    def drop(self, index: int) -> int:
        """Take one off the running list; its seat."""
        seat = int(self.order[index])
        self.order[index : self.count - 1] = self.order[index + 1 : self.count]
        self.count -= 1
        return seat

    def keep(self, stay: NDArray[np.bool_]) -> None:
        """Of the running list, keep those marked."""
        left = self.taken[stay]
        self.count = len(left)
        self.order[: self.count] = left


def _widened(rows: NDArray[Any], width: int) -> NDArray[Any]:
    wider = np.zeros((rows.shape[0], width), rows.dtype)
    wider[:, : rows.shape[1]] = rows
    return wider
