"""What a worker knows: the running list as the scheduler has it, kept by messages alone.

Structures of arrays, laid out as the scheduler's own (`running.py`): what is known of the i-th
that runs stands at index i of a column, tokens and block table in a row that is its own as long as
it runs. A message touches what it changes. It is checked against the mirror before anything is
written: a refused one leaves the mirror as it was.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from nullblock.impl.arrays import Blocks, Flags, Ints, Part, Tokens, cells, grown
from nullblock.impl.workers.checks import Plan, plan
from nullblock.impl.workers.decode import Buffer, decode
from nullblock.impl.workers.errors import Diverged, OutOfTurn
from nullblock.impl.workers.layout import Decision, Turnover, Words
from nullblock.impl.workers.view import View, digest
from nullblock.spec.facts import Config

FIRST_ROWS, FIRST_TOKENS, FIRST_BLOCKS = 16, 64, 8
"""Rows, and tokens and blocks that a row has room for, at first; all double when needed."""
_NUM_COLUMNS = 5


@dataclass(slots=True)
class Work:
    """What a worker has to compute in this step; arrays in parallel, in the step's order."""

    places: Part
    """Where they stand in the columns of the mirror."""
    rows: Ints
    num_scheduled: Ints
    num_computed: Ints
    """Before the step: the position of the first token to compute."""
    samples: Flags
    """Whether the step reaches the request's last token, so that one is sampled."""
    num_tokens: int
    """In all."""
    num_common_prefix_blocks: int


class Mirror:
    """The scheduler's running list in a worker.

    Memory: 8 bytes a token and 4 a block in each row; as many rows as ever ran at once, as wide as
    the longest, both up to a factor of 2.

    `num_rows`: rows are less than this. `max_num_seqs` if it is not given; an engine that keeps
    rows also for who waits has more.
    """

    row: Ints
    num_tokens: Ints
    """Prompt and output."""
    num_computed: Ints
    num_prompt: Ints
    num_blocks: Ints

    def __init__(self, config: Config, num_rows: int | None = None) -> None:
        self.config = config
        self.num_rows = config.max_num_seqs if num_rows is None else num_rows
        self.step = 0
        """The number of the message that comes next."""
        self.count = 0
        self.ids: list[str] = []
        """Who runs, in order."""
        self.params: dict[str, bytes] = {}
        """Of everybody known, also of those who wait after a preemption: what the engine said."""
        self.work: Work | None = None
        """The step whose tokens have not been taken."""
        self.tokens: Tokens = np.zeros((FIRST_ROWS, FIRST_TOKENS), np.int64)
        self.table: Blocks = np.zeros((FIRST_ROWS, FIRST_BLOCKS), np.int32)
        self._set_columns(np.zeros((_NUM_COLUMNS, FIRST_ROWS), np.int64))

    def _set_columns(self, columns: Ints) -> None:
        self._columns = columns
        self.row, self.num_tokens, self.num_computed, self.num_prompt, self.num_blocks = columns

    def apply(self, message: Buffer) -> Work:
        """Take in the next message; what is to be computed.

        Raises Malformed, OutOfTurn or Diverged, and leaves the mirror as it was; but a digest is
        compared when the message has been applied.
        """
        return self.apply_decision(decode(message))

    def apply_decision(self, decision: Decision) -> Work:
        """The same of a message that has been decoded."""
        if self.work is not None:
            raise OutOfTurn(
                f"step {decision.header.step} came before the tokens of step {self.step - 1} "
                "were taken: call take() first"
            )
        planned = plan(self, decision)
        if planned.gone:
            self._remove(planned)
        for id in planned.over:
            del self.params[id]
        self._advance(decision, planned)
        self.work = self._work(decision, planned)
        self.step += 1
        if decision.header.digest and digest(self.view()) != decision.header.digest:
            raise Diverged(
                f"after step {self.step - 1} this worker's state is not the scheduler's: "
                "start both again"
            )
        return self.work

    def take(self, sampled: ArrayLike | None) -> None:
        """Append one token to each request that samples in this step; `sampled` has one for each
        scheduled request, in the order of the step, and the others are ignored. None: the tokens
        are kept elsewhere, and only counted here.

        Raises OutOfTurn without a step, ValueError for another number of tokens.
        """
        work = self.work
        if work is None:
            raise OutOfTurn("no step waits for tokens: apply() the next message first")
        tokens = np.asarray(0 if sampled is None else sampled, np.int64)
        if sampled is not None and tokens.shape != work.rows.shape:
            raise ValueError(f"{tokens.shape} tokens for {len(work.rows)} scheduled requests")
        places: Part = work.places
        if not work.samples.all():
            places = np.arange(self.count)[places][work.samples]
            tokens = tokens[work.samples] if sampled is not None else tokens
        at = self.num_tokens[places]
        if len(at):
            self._widen(int(at.max()) + 1, 0)
        self.tokens[self.row[places], at] = tokens
        self.num_tokens[places] += 1
        self.work = None

    def view(self) -> View:
        """All that the mirror knows, copied."""
        return View.of(
            *(self.ids, self._columns[:, : self.count], self.tokens, self.table),
            known=self.params.keys(),
        )

    # The parts of apply(), of a message that has been checked ------------------------------------

    def _remove(self, planned: Plan) -> None:
        """Those who stay close the gaps."""
        count = self.count - len(planned.gone)
        self._columns[:, :count] = self._columns[:, : self.count][:, planned.stay]
        for place in reversed(planned.gone):
            del self.ids[place]
        self.count = count

    def _advance(self, decision: Decision, planned: Plan) -> None:
        """Blocks and computed tokens of those who ran before (UPD-1)."""
        places, grows = planned.places, planned.grows
        self.num_computed[places] = planned.num_computed + planned.num_scheduled
        self._widen(0, planned.longest)
        if len(grows):
            there = grows if isinstance(places, slice) else places[grows]
            self._append(there, self.num_blocks[there], planned.held, decision.blocks)

    def _append(self, places: Ints, first: Ints, held: Ints, blocks: Words) -> None:
        """Blocks to the tables of these, which held `first` and hold `held`, at least one more."""
        which, columns = cells(first, held - first, len(blocks))
        self.table[self.row[places][which], columns] = blocks
        self.num_blocks[places] = held

    def _enter(self, turnover: Turnover) -> None:
        """New and resumed requests, behind those who run (OUT-2, OUT-3)."""
        entered, first = turnover.entered, self.count
        self.count = last = first + len(turnover.ids)
        self._add_rows(max(last, int(entered.row.max()) + 1))
        counts = entered.num_tokens.astype(np.int64)
        self._widen(int(counts.max()), 0)
        self._columns[:, first:last] = (
            *(entered.row, counts, entered.num_computed + entered.num_scheduled),
            *(entered.num_prompt, 0 * counts),
        )
        which, columns = cells(np.zeros_like(counts), counts, len(turnover.tokens))
        self.tokens[entered.row[which], columns] = turnover.tokens
        held = entered.num_blocks.astype(np.int64)
        self._append(np.arange(first, last), np.zeros_like(held), held, turnover.blocks)
        self.ids += turnover.ids
        for id, params, known in zip(turnover.ids, turnover.params, entered.known, strict=True):
            if not known:
                self.params[id] = params

    def _work(self, decision: Decision, planned: Plan) -> Work:
        """Who is scheduled; those who enter come in now."""
        places, scheduled, computed = planned.places, planned.num_scheduled, planned.num_computed
        samples, turnover = planned.remaining == 0, decision.turnover
        total = int(np.add.reduce(scheduled)) if decision.header.num_odd else len(scheduled)
        if turnover is not None and turnover.ids:
            first, entered = self.count, turnover.entered
            self._enter(turnover)
            scheduled = np.append(scheduled, entered.num_scheduled)
            total = int(np.add.reduce(scheduled))
            computed = np.append(computed, entered.num_computed)
            end = entered.num_computed + entered.num_scheduled
            samples = np.append(samples, end == entered.num_tokens)
            if isinstance(places, slice):
                places = slice(0, self.count)
            else:
                places = np.append(places, np.arange(first, self.count))
        return Work(
            places=places,
            rows=self.row[places].copy(),
            num_scheduled=scheduled,
            num_computed=computed,
            samples=samples,
            num_tokens=total,
            num_common_prefix_blocks=decision.header.num_common_prefix_blocks,
        )

    # Room ----------------------------------------------------------------------------------------

    def _add_rows(self, needed: int) -> None:
        """Room for so many rows; those that are there stay."""
        have = len(self.tokens)
        if needed > have:
            n = max(needed, 2 * have)
            self.tokens = grown(self.tokens, n, self.tokens.shape[1])
            self.table = grown(self.table, n, self.table.shape[1])
            self._set_columns(grown(self._columns, _NUM_COLUMNS, n))

    def _widen(self, num_tokens: int, num_blocks: int) -> None:
        """Room for so many tokens and blocks in every row."""
        n, have = self.tokens.shape
        if num_tokens > have:
            self.tokens = grown(self.tokens, n, max(num_tokens, 2 * have))
        have = self.table.shape[1]
        if num_blocks > have:
            self.table = grown(self.table, n, max(num_blocks, 2 * have))
