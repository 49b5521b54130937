"""The running list as arrays: what is known of the i-th request stands at index i of a column.

Columns have one number a request and no holes, so that a step over all of them reads memory from
left to right. What is long (tokens, block table, names) stands in a row that is the request's as
long as it runs, `row[i]`; when somebody leaves the list numbers move, rows never do.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.arrays import Blocks, Flags, Ints, Tokens
from nullblock.impl.requests import Request

FIRST_TOKENS = 64
"""Tokens that a row has room for at first; it doubles when that is not enough."""
NUM_COLUMNS = 15


class Running:
    """At most `max_num_seqs` requests, in the order of their admission (vLLM's `running`).

    Tokens and blocks are counted. Memory: 8 bytes a token of `tokens`, 4 a block of `table` and 8
    a block of `names`, all times `max_num_seqs`; rows are as wide as the longest request so far
    needed, up to a factor of 2, and never wider than `max_model_len`.
    """

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        n = max_num_seqs
        self._longest, self._block_size = max_model_len, block_size
        self.count = 0
        self.requests: list[Request] = []
        self.ids: list[str] = []
        self._columns = np.zeros((NUM_COLUMNS, n), np.int64)
        columns: list[Ints] = list(self._columns)
        self.row, self.num_tokens, self.num_computed, self.num_prompt = columns[:4]
        self.limit, self.at_least, self.eos, self.has_stop = columns[4:8]
        self.placeholders, self.num_blocks, self.num_cached, self.num_named = columns[8:12]
        self.granted, self.told, self.in_previous = columns[12:]
        # limit: tokens at which a request ends, by max_tokens or max_model_len; at_least: tokens
        # below which it does not stop; num_cached: leading blocks that were hit or cached; told:
        # blocks that the worker knows of; in_previous: whether the step before had it.
        self.tokens: Tokens = np.zeros((n, min(max_model_len, FIRST_TOKENS)), np.int64)
        width = self._blocks(self.tokens.shape[1])
        self.table: Blocks = np.zeros((n, width), np.int32)
        self.names: Ints = np.zeros((n, width), np.int64)
        self._free_rows = list(range(n - 1, -1, -1))

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    def make_room(self, num_tokens: int) -> None:
        """See that so many tokens, and their blocks, have a place in every row."""
        have = self.tokens.shape[1]
        if num_tokens <= have:
            return
        width = max(num_tokens, min(2 * have, self._longest))
        self.tokens = _widened(self.tokens, width)
        self.table = _widened(self.table, self._blocks(width))
        self.names = _widened(self.names, self._blocks(width))

    def enter(self, request: Request, num_computed: int) -> int:
        """Append a request, without blocks as yet; its index."""
        i, row, n = self.count, self._free_rows.pop(), request.num_tokens
        self.make_room(n)
        self.tokens[row, :n] = request.tokens
        self.names[row, : len(request.names)] = request.names
        prompt = request.num_prompt_tokens
        self._columns[:, i] = (
            *(row, n, num_computed, prompt),
            min(prompt + request.max_tokens, self._longest),
            prompt + request.min_tokens,
            request.eos,
            bool(request.stop),
            request.num_output_placeholders,
            *(0, 0, len(request.names)),
            *(0, 0, 0),
        )
        self.requests.append(request)
        self.ids.append(request.id)
        request.is_running = True
        self.count += 1
        return i

    def leave(self, i: int) -> Request:
        """Empty the row of the i-th, which knows its tokens again. It still stands in the list."""
        request, row = self.requests[i], int(self.row[i])
        request.tokens = self.tokens[row, : self.num_tokens[i]].copy()
        request.names = self.names[row, : self.num_named[i]].copy()
        request.num_output_placeholders = int(self.placeholders[i])
        request.is_running = False
        self._free_rows.append(row)
        return request

    def remove(self, gone: list[int]) -> None:
        """Take those who left off the list; indices in ascending order."""
        n = self.count
        if len(gone) == 1:
            i = gone[0]
            self._columns[:, i : n - 1] = self._columns[:, i + 1 : n]
        else:
            stay: Flags = np.ones(n, np.bool_)
            stay[gone] = False
            self._columns[:, : n - len(gone)] = self._columns[:, :n][:, stay]
        for i in reversed(gone):
            del self.requests[i], self.ids[i]
        self.count = n - len(gone)

    def index(self, request: Request) -> int:
        """Where a running request stands."""
        return self.requests.index(request)

    def blocks(self, i: int, first: int = 0) -> Blocks:
        """The block table of the i-th, from its block number `first` on."""
        held: Blocks = self.table[self.row[i], first : self.num_blocks[i]]
        return held


def _widened(rows: NDArray[Any], width: int) -> NDArray[Any]:
    wider = np.zeros((rows.shape[0], width), rows.dtype)
    wider[:, : rows.shape[1]] = rows
    return wider
