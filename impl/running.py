"""The running list as arrays: what is known of the i-th request stands at index i of a column.

Columns have one number a request and no holes, so that a step over all of them reads memory from
left to right. What is long (tokens, block table, names) stands in a row that is the request's as
long as it runs, `row[i]`; when somebody leaves the list numbers move, rows never do.
"""

import numpy as np

from nullblock.impl.arrays import Blocks, Flags, Ints, Tokens, grown
from nullblock.impl.requests import NO_EOS, Request

FIRST_ROWS, FIRST_TOKENS = 16, 64
"""Rows, and tokens that a row has room for, at first; both double when that is not enough."""
_NUM_COLUMNS = 17
_MOST = 1 << 62
"""More tokens than any request has."""


class Running:
    """At most `max_num_seqs` requests, in the order of their admission (vLLM's `running`).

    Tokens and blocks are counted. Memory: 8 bytes a token of `tokens`, 4 a block of `table`, 8 a
    block of `names` and 8 a stop token of `stops`, in each row. There are as many rows as ever ran
    at once, and they are as wide as the longest request that ever ran, both up to a factor of 2.
    """

    row: Ints
    """Which row of `tokens`, `table` and `names` is the request's."""
    num_tokens: Ints
    """Prompt and output."""
    num_computed: Ints
    num_prompt: Ints
    limit: Ints
    """Tokens at which it ends, by max_tokens or max_model_len."""
    most: Ints
    """Tokens at which it ends, by max_tokens."""
    at_least: Ints
    """Tokens below which it does not stop, by min_tokens."""
    eos: Ints
    has_stop: Ints
    """1: it has stop tokens besides eos."""
    placeholders: Ints
    """Tokens in flight that it will take, where they are counted."""
    discarded: Ints
    """Tokens in flight that it will not take."""
    num_blocks: Ints
    num_cached: Ints
    """Leading blocks that were hit or cached."""
    num_named: Ints
    """Leading blocks whose content has a name."""
    granted: Ints
    """Tokens that the step being decided gives it."""
    told: Ints
    """Blocks that the worker knows of."""
    in_previous: Ints
    """1: the step before had it."""

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        self._most, self._longest, self._block_size = max_num_seqs, max_model_len, block_size
        self.count = 0
        self.requests: list[Request] = []
        self.ids: list[str] = []
        self.departures = 0
        """How often somebody has left: until it grows, everybody stands where they stood."""
        self._entered = 0
        n, width = min(max_num_seqs, FIRST_ROWS), min(max_model_len, FIRST_TOKENS)
        self.tokens: Tokens = np.zeros((n, width), np.int64)
        self.table: Blocks = np.zeros((n, self._blocks(width)), np.int32)
        self.names: Ints = np.zeros((n, self._blocks(width)), np.int64)
        self.stops: Tokens = np.zeros((n, 1), np.int64)
        """Of a request with `has_stop`: its stop tokens, and NO_EOS behind them."""
        self._free_rows = list(range(n - 1, -1, -1))
        self.place = np.zeros(n, np.int64)
        """By row, where its request stands in the list."""
        self.visit = np.zeros(n, np.int64)
        """By row, a number that no other stay in any row has; 0: the row is empty."""
        self._set_columns(np.zeros((_NUM_COLUMNS, n), np.int64))

    def _set_columns(self, columns: Ints) -> None:
        self._columns = columns
        self.row, self.num_tokens, self.num_computed, self.num_prompt = columns[:4]
        self.limit, self.most, self.at_least, self.eos, self.has_stop = columns[4:9]
        self.placeholders, self.discarded, self.num_blocks, self.num_cached = columns[9:13]
        self.num_named, self.granted, self.told, self.in_previous = columns[13:]

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    def make_room(self, num_tokens: int) -> None:
        """See that so many tokens, and their blocks, have a place in every row."""
        n, have = self.tokens.shape
        if num_tokens > have:
            width = max(num_tokens, min(2 * have, self._longest))
            self._resize(n, width)

    def _resize(self, n: int, width: int) -> None:
        """Rows, and tokens in each."""
        self.tokens = grown(self.tokens, n, width)
        self.table = grown(self.table, n, self._blocks(width))
        self.names = grown(self.names, n, self._blocks(width))
        self.stops = grown(self.stops, n, self.stops.shape[1])

    def enter(self, request: Request, num_computed: int) -> int:
        """Append a request, without blocks as yet; its index."""
        i, n = self.count, request.num_tokens
        if not self._free_rows:
            self._add_rows()
        row = self._free_rows.pop()
        self.make_room(n)
        self.tokens[row, :n] = request.tokens
        self.names[row, : len(request.names)] = request.names
        if request.stop:
            self._stop_at(row, request.stop)
        prompt = request.num_prompt_tokens
        self._columns[:, i] = (
            *(row, n, num_computed, prompt),
            min(prompt + request.max_tokens, self._longest),
            min(prompt + request.max_tokens, _MOST),
            min(prompt + request.min_tokens, _MOST),
            request.eos,
            bool(request.stop),
            request.num_output_placeholders,
            request.num_discarded,
            *(0, 0, len(request.names)),
            *(0, 0, 0),
        )
        self.requests.append(request)
        self.ids.append(request.id)
        request.is_running = True
        self._entered += 1
        self.place[row], self.visit[row] = i, self._entered
        self.count += 1
        return i

    def _stop_at(self, row: int, tokens: frozenset[int]) -> None:
        """Note stop tokens; what has more than 64 bits is never sampled."""
        stops = [token for token in tokens if abs(token) <= -(NO_EOS + 1)]
        n, have = self.stops.shape
        if len(stops) > have:
            larger = np.full((n, len(stops)), NO_EOS)
            larger[:, :have] = self.stops
            self.stops = larger
        self.stops[row] = NO_EOS
        self.stops[row, : len(stops)] = stops

    def _add_rows(self) -> None:
        """Twice as many, or as many as may run."""
        have, width = self.tokens.shape
        n = min(2 * have, self._most)
        self._resize(n, width)
        self._set_columns(grown(self._columns, _NUM_COLUMNS, n))
        self.place = np.concatenate([self.place, np.zeros(n - have, np.int64)])
        self.visit = np.concatenate([self.visit, np.zeros(n - have, np.int64)])
        self._free_rows.extend(range(n - 1, have - 1, -1))

    def leave(self, i: int) -> Request:
        """Empty the row of the i-th, which knows its tokens again. It still stands in the list."""
        request, row = self.requests[i], int(self.row[i])
        request.tokens = self.tokens[row, : self.num_tokens[i]].copy()
        request.names = self.names[row, : self.num_named[i]].copy()
        request.num_output_placeholders = int(self.placeholders[i])
        request.num_discarded = int(self.discarded[i])
        request.is_running = False
        self.visit[row] = 0
        self.departures += 1
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
        self.place[self.row[: self.count]] = np.arange(self.count)

    def index(self, request: Request) -> int:
        """Where a running request stands."""
        return self.requests.index(request)

    def blocks(self, i: int, first: int = 0) -> Blocks:
        """The block table of the i-th, from its block number `first` on."""
        held: Blocks = self.table[self.row[i], first : self.num_blocks[i]]
        return held
