"""Defects planted in the kernels of the batch, and the small batch that each of them fails."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import triton
from batches import case, expected
from planting import defect
from twins import same

from nullblock.kernels.batch import append, gather, lengths, rows, slots
from nullblock.kernels.batch.append import NOBODY, Growth, Scratch
from nullblock.kernels.checks import checked
from nullblock.kernels.errors import new_error

CPU = torch.device("cpu")
Check = Callable[[], None]


def ints(*values: int) -> torch.Tensor:
    """An int32 tensor."""
    return torch.tensor(values, dtype=torch.int32)


def mixed() -> None:
    """Chunks and decodes, with padding, are what plain Python makes of them."""
    batch = case(CPU, [1, 37, 1, 20] + [1] * 20, max_num_reqs=30, max_num_tokens=90)
    given = (batch.requests, batch.batch, batch.inputs, new_error(CPU))
    lengths.compute_lengths(*given, backend="triton")
    sizes = {"block_size": batch.block_size, "num_blocks": batch.num_blocks}
    slots.place_tokens(*given, backend="triton", **sizes)
    assert int(given[3]) == 0
    for name, values in expected(batch).items():
        assert getattr(batch.inputs, name).tolist() == values


def nonsense() -> None:
    """Null blocks, tables too short, too many tokens: the twin says and leaves out the same."""
    batch = case(CPU, [1, 37, 1, 20], max_num_tokens=50)
    batch.requests.block_table[batch.batch.rows[0]] = 0
    batch.requests.num_blocks[batch.batch.rows[1]] = 1
    given = (batch.requests, batch.batch, batch.inputs)
    same(partial(lengths.compute_lengths, backend="triton"), lengths.compute_lengths_torch, *given)
    sizes = {"block_size": batch.block_size, "num_blocks": batch.num_blocks}
    same(
        partial(slots.place_tokens, backend="triton", **sizes),
        partial(slots.place_tokens_torch, **sizes),
        *given,
    )


def far_rows() -> None:
    """A token list that begins more than 2**31 elements behind the first one."""
    batch = case(CPU, [1], max_model_len=64, rows=3)
    stride = 2**30 + 64
    token_ids = torch.empty(2 * stride + 64, dtype=torch.int32).as_strided((3, 64), (stride, 1))
    token_ids.copy_(batch.requests.token_ids)
    requests = replace(batch.requests, token_ids=token_ids)
    batch.batch.rows[0] = 2
    requests.num_blocks[2], requests.num_computed_tokens[2], requests.block_table[2] = 1, 5, 1
    given = (requests, batch.batch, batch.inputs, new_error(CPU))
    lengths.compute_lengths(*given, backend="triton")
    slots.place_tokens(*given, backend="triton", block_size=16, num_blocks=9)
    assert int(batch.inputs.input_ids[0]) == int(token_ids[2, 5])


def grows() -> None:
    """Rows grow, one anew, one named twice, one too full, over two turns; twice in a row."""
    matrix, held = torch.zeros(40, 4, dtype=torch.int32), torch.ones(40, dtype=torch.int32)
    named = [7, 3, 7, *range(10, 30)]
    growth = Growth(
        ints(*named), ints(len(named)), ints(*[2] * len(named)),
        ints(0, 1, 0, *[0] * 20), torch.arange(1, 2 * len(named) + 1, dtype=torch.int32),
    )  # fmt: skip
    growth.counts[5], growth.counts[6], growth.counts[8] = 4, 3, -1
    scratch = Scratch.empty(40, len(named), CPU)

    def kernel(matrix: torch.Tensor, held: torch.Tensor, error: torch.Tensor) -> None:
        append.append_rows(matrix, held, growth, scratch, error, backend="triton")

    def twin(matrix: torch.Tensor, held: torch.Tensor, error: torch.Tensor) -> None:
        append.append_rows_torch(matrix, held, growth, error)

    for _ in range(2):
        same(kernel, twin, matrix, held)
        assert (scratch.owner == NOBODY).all()


def counters() -> None:
    """Rows that do not exist are not cleared; tables are copied as far as they are filled."""
    batch = case(CPU, [20, 1, 1], max_num_reqs=5)
    same(
        partial(rows.clear_rows, backend="triton"), rows.clear_rows_torch,
        batch.requests, ints(-1, 2, 99), ints(2),
    )  # fmt: skip
    tables = torch.zeros(5, batch.requests.block_table.shape[1], dtype=torch.int32)
    kernel = partial(gather.gather_block_tables, backend="triton")
    same(kernel, gather.gather_block_tables_torch, batch.requests, batch.batch, tables)


SLOTS, APPEND = "batch/slots.py", "batch/append.py"
MUTANTS: dict[str, tuple[str, str, str, Check]] = {
    "positions count from the batch": (
        "index.py", "num_computed + (token - query_start)", "num_computed + token", mixed,
    ),
    "one token too many": (
        SLOTS, "there = (token < tl.load(", "there = (token <= tl.load(", mixed,
    ),
    "the tail keeps old slots": (
        SLOTS, "tl.where(good, slot, PAD), mask=token < room", "slot, mask=good", mixed,
    ),
    "a stale column": (
        SLOTS, "max_model_len) & (column < has)", "max_model_len) & (column <= has)", nonsense,
    ),
    "the null block is written": (
        SLOTS, "(block > 0) & (block < num_blocks)\n    slot = slot_index(",
        "(block < num_blocks)\n    slot = slot_index(", nonsense,
    ),
    "rows of 32 bits": (
        SLOTS, "tl.load(rows + place, mask=there, other=0).to(tl.int64)",
        "tl.load(rows + place, mask=there, other=0)", far_rows,
    ),
    "the request before": ("batch/search.py", "other=0) <= wanted", "other=0) < wanted", mixed),
    "turns forget the sum": (
        "batch/lengths.py", "ends = total + tl.cumsum", "ends = tl.cumsum", mixed,
    ),
    "starts beyond the room": ("batch/lengths.py", "tl.minimum(ends, room)", "ends", nonsense),
    "nobody claims a row": (
        APPEND, "    _claim(rows, n, owner, most, num_rows, W)\n", "", grows,
    ),
    "claims are not given back": (
        APPEND, "    _release(rows, n, owner, most, num_rows, W)\n", "", grows,
    ),
    "a row one short": (
        APPEND, "column + count <= num_columns", "column + count < num_columns", grows,
    ),
    "nothing replaces": (APPEND, "replace = tl.load(", "replace = 0 * tl.load(", grows),
    "turns of growth forget the sum": (
        APPEND, "        total += tl.sum(count, 0)\n", "", grows,
    ),
    "what was refused is written": (
        APPEND, "good = there & (column >= 0)", "good = there & (column >= -1)", grows,
    ),
    "tables one column too long": (
        "batch/gather.py", "(j < has[:, None])", "(j <= has[:, None])", counters,
    ),
}  # fmt: skip


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops take several turns for a few requests."""
    for module in (lengths, append, slots):
        monkeypatch.setattr(module, "MOST_LANES", 16)


@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("check", [mixed, nonsense, far_rows, grows, counters])
def test_without_a_defect(check: Check) -> None:
    """The same batches find nothing in the kernels as they are."""
    with checked():
        check()


@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_defect_is_noticed(mutant: tuple[str, str, str, Check], tmp_path: Path) -> None:
    """The batch fails with the defect: its own assertion says so, or a check of the kernels."""
    file, old, new, check = mutant
    with defect(tmp_path, file, old, new), pytest.raises(AssertionError):
        with checked():  # under which a store out of bounds does no harm
            check()
