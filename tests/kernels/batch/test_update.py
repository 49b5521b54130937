"""The persistent batch changes where a step changed it, and nowhere else."""

import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from batches import JUNK, case
from twins import same

from nullblock.kernels.batch import append, gather, rows
from nullblock.kernels.batch.append import NOBODY, Growth, Scratch
from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.batch.update import Delta, Scratches, update_batch
from nullblock.kernels.errors import Error, new_error

pytestmark = pytest.mark.usefixtures("checked_kernels")

Rows = list[tuple[int, list[int], bool]]
"""Which row gains what, and whether that replaces what it held."""


def ints(values: list[int], device: torch.device) -> torch.Tensor:
    """An int32 tensor."""
    return torch.tensor(values, dtype=torch.int32, device=device)


def growth(changes: Rows, device: torch.device, spare: int = 0, spare_values: int = 0) -> Growth:
    """As kernels take it, with room to spare that is full of junk."""
    values = [value for _, gained, _ in changes for value in gained]
    return Growth(
        ints([row for row, _, _ in changes] + [JUNK] * spare, device),
        ints([len(changes)], device),
        ints([len(gained) for _, gained, _ in changes] + [JUNK] * spare, device),
        ints([int(replaces) for _, _, replaces in changes] + [JUNK] * spare, device),
        ints(values + [JUNK] * spare_values, device),
    )


def appended(matrix: torch.Tensor, lengths: torch.Tensor, given: Growth) -> Error:
    """The kernels beside their twin; the scratch space is left as it was found."""
    scratch = Scratch.empty(matrix.shape[0], len(given.rows), matrix.device)

    def kernel(matrix: torch.Tensor, lengths: torch.Tensor, error: torch.Tensor) -> None:
        append.append_rows(matrix, lengths, given, scratch, error, backend="triton")

    def twin(matrix: torch.Tensor, lengths: torch.Tensor, error: torch.Tensor) -> None:
        append.append_rows_torch(matrix, lengths, given, error)

    said = same(kernel, twin, matrix, lengths)
    assert (scratch.owner == NOBODY).all()
    return said


@pytest.mark.parametrize("seed", range(6))
def test_rows_grow_as_lists_do(device: torch.device, seed: int) -> None:
    """Random growth: some rows by nothing, some by all they have room for, some anew; every other
    entry of the matrix stays as it was."""
    rng = random.Random(seed)
    num_rows, width = rng.choice([(1, 1), (9, 33), (70, 20), (3, 1500)])
    matrix = torch.randint(0, 99, (num_rows, width), dtype=torch.int32, device=device)
    held = [rng.randrange(width + 1) for _ in range(num_rows)]
    lengths, wanted = ints(held, device), matrix.tolist()
    changes: Rows = []
    for row in rng.sample(range(num_rows), rng.randrange(num_rows + 1)):
        replaces = rng.random() < 0.3
        if replaces:
            held[row], lengths[row] = 0, JUNK
        count = rng.choice([0, min(1, width - held[row]), width - held[row]])
        gained = [rng.randrange(10**6) for _ in range(count)]
        changes.append((row, gained, replaces))
        wanted[row][held[row] : held[row] + count] = gained
        held[row] += count
    given = growth(changes, device, spare=rng.randrange(3), spare_values=rng.randrange(3))
    assert appended(matrix, lengths, given) == Error(0)
    assert matrix.tolist() == wanted
    assert lengths.tolist() == held


def test_more_rows_than_one_turn_takes(device: torch.device) -> None:
    """1,500 rows gain one value each: the running sum is carried from tile to tile."""
    matrix = torch.zeros(1500, 2, dtype=torch.int32, device=device)
    lengths = torch.ones(1500, dtype=torch.int32, device=device)
    given = growth([(1499 - i, [i], False) for i in range(1500)], device)
    assert appended(matrix, lengths, given) == Error(0)
    assert matrix[:, 1].tolist() == list(range(1499, -1, -1))


@pytest.mark.parametrize(
    ("changes", "says", "grown"),
    [
        ([(2, [1], False), (2, [5, 6], False), (1, [7], False)], Error.ROW, [0, 1, 1]),
        ([(-1, [1], False), (3, [2], False), (0, [3], False)], Error.ROW, [1, 0, 0]),
        ([(0, [1] * 5, False), (1, [2], False)], Error.ROOM, [0, 1, 0]),
        ([(0, [1] * 4, True), (1, [2] * 4, False)], Error(0), [4, 4, 0]),
    ],
)
def test_what_does_not_fit_is_left_out_whole(
    device: torch.device, changes: Rows, says: Error, grown: list[int]
) -> None:
    """A row named twice grows once, by what came first; one that does not exist, or has not
    enough room, does not grow at all; the others do."""
    matrix = torch.full((3, 4), JUNK, dtype=torch.int32, device=device)
    lengths = torch.zeros(3, dtype=torch.int32, device=device)
    assert appended(matrix, lengths, growth(changes, device)) == says
    assert lengths.tolist() == grown
    assert (matrix != JUNK).sum(1).tolist() == grown


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda g: g.num_rows.fill_(3), Error.COUNT),
        (lambda g: g.num_rows.fill_(-1), Error.COUNT),
        (lambda g: g.counts[0:1].fill_(-1), Error.COUNT),
        (lambda g: g.counts[1:2].fill_(2**31 - 1), Error.ROOM),
    ],
)
def test_counts_are_not_trusted(
    device: torch.device, spoil: Callable[[Growth], object], says: Error
) -> None:
    """Counts that lie set a bit; nothing is read behind the values."""
    given = growth([(0, [1], False), (1, [2, 3], False)], device)
    spoil(given)
    matrix = torch.zeros(3, 4, dtype=torch.int32, device=device)
    lengths = torch.zeros(3, dtype=torch.int32, device=device)
    assert appended(matrix, lengths, given) == says


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 4])
@pytest.mark.parametrize("row", [-1, 0, 5, 6])
def test_counters_of_rows(device: torch.device, count: int, row: int) -> None:
    """Rows are cleared, set and advanced (UPD-1), those that exist and count, and no others."""
    requests = Requests.empty(6, 20, 4, device)
    for counter in (requests.num_tokens, requests.num_computed_tokens, requests.num_blocks):
        counter[:] = torch.arange(10, 16)
    some, num = ints([2, row, 4], device), ints([count], device)
    amounts = ints([7, 8, 9], device)
    wrong = Error.COUNT if count not in (0, 1, 3) else Error(0)
    wrong |= Error.ROW if count in (3, 4) and row in (-1, 6) else Error(0)
    before = list(range(10, 16))
    named = [r for r in [2, row, 4][: max(count, 0)] if 0 <= r < 6]
    added = dict(zip([2, row, 4], [7, 8, 9], strict=True))

    said = same(
        partial(rows.advance, backend="triton"), rows.advance_torch, requests,
        Batch(some, num, amounts),
    )  # fmt: skip
    assert said == wrong
    after = [v + added[r] if r in named else v for r, v in enumerate(before)]
    assert requests.num_computed_tokens.tolist() == after
    same(
        partial(rows.set_rows, backend="triton"), rows.set_rows_torch,
        requests.num_computed_tokens, some, num, amounts,
    )  # fmt: skip
    after = [added[r] if r in named else v for r, v in enumerate(before)]
    assert requests.num_computed_tokens.tolist() == after
    same(partial(rows.clear_rows, backend="triton"), rows.clear_rows_torch, requests, some, num)
    after = [0 if r in named else v for r, v in enumerate(before)]
    assert requests.num_blocks.tolist() == requests.num_tokens.tolist() == after


def test_tables_in_the_order_of_the_batch(device: torch.device) -> None:
    """Filled columns are copied, and nothing else is written; wide tables take several tiles."""
    batch = case(device, [1, 1100, 1, 3], block_size=1, max_model_len=1200, max_num_reqs=6)
    tables = torch.full((6, 1200), -5, dtype=torch.int32, device=device)
    kernel = partial(gather.gather_block_tables, backend="triton")
    twin = gather.gather_block_tables_torch
    assert same(kernel, twin, batch.requests, batch.batch, tables) == Error(0)
    for place in range(4):
        row = int(batch.batch.rows[place])
        filled = int(batch.requests.num_blocks[row])
        wanted = batch.requests.block_table[row, :filled].tolist() + [-5] * (1200 - filled)
        assert tables[place].tolist() == wanted
    assert (tables[4:] == -5).all()
    batch.requests.num_blocks[batch.batch.rows[0]] = 5000
    batch.batch.rows[1] = 1000
    says = same(kernel, twin, batch.requests, batch.batch, tables)
    assert says == Error.TABLE | Error.ROW


def test_a_step_changes_only_what_it_says(device: torch.device) -> None:
    """A request leaves, another takes its row, a third grows by a block, a fourth is not looked
    at: row by row what a worker should know (OUT-2, OUT-3, OUT-7)."""
    requests = Requests.empty(4, 8, 4, device)
    for row in range(4):
        requests.token_ids[row] = 100 + row
        requests.block_table[row] = 10 + row
    requests.num_tokens[:] = requests.num_computed_tokens[:] = ints([4, 4, 6, 0], device)
    requests.num_blocks[:] = ints([1, 1, 2, 0], device)
    delta = Delta(
        gone=ints([1, 2], device),
        num_gone=ints([2], device),
        blocks=growth([(0, [7], False), (1, [3, 4], True)], device),
        tokens=growth([(1, [5, 6, 7, 8, 9], True)], device),
        num_computed_tokens=ints([4], device),
    )
    error = new_error(device)
    scratches = Scratches.empty(4, 2, device)
    scratches = Scratches(scratches.blocks, Scratch.empty(4, 1, device))
    update_batch(requests, delta, scratches, error, backend="triton")
    assert int(error) == 0
    assert requests.num_tokens.tolist() == [4, 5, 0, 0]
    assert requests.num_computed_tokens.tolist() == [4, 4, 0, 0]
    assert requests.num_blocks.tolist() == [2, 2, 0, 0]
    assert requests.block_table.tolist() == [[10, 7], [3, 4], [12, 12], [13, 13]]
    assert requests.token_ids[1].tolist() == [5, 6, 7, 8, 9, 101, 101, 101]
    assert requests.token_ids[2].tolist() == [102] * 8
