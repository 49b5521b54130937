"""A batch becomes what a forward pass reads: lengths, positions, slots, ids."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from batches import Case, case, expected
from twins import same

from nullblock.kernels.batch import lengths, slots
from nullblock.kernels.batch.layout import PAD_SLOT, Batch
from nullblock.kernels.errors import Error, new_error

pytestmark = pytest.mark.usefixtures("checked_kernels")

Change = Callable[[Case], object]
HUGE = 2**31 - 1


def prepare(case: Case) -> Error:
    """Both kernels, each beside its twin."""
    said = same(
        partial(lengths.compute_lengths, backend="triton"), lengths.compute_lengths_torch,
        case.requests, case.batch, case.inputs,
    )  # fmt: skip
    sizes = {"block_size": case.block_size, "num_blocks": case.num_blocks}
    return said | same(
        partial(slots.place_tokens, backend="triton", **sizes),
        partial(slots.place_tokens_torch, **sizes),
        case.requests, case.batch, case.inputs,
    )  # fmt: skip


@pytest.mark.parametrize("block_size", [1, 16, 24])
@pytest.mark.parametrize(
    ("scheduled", "max_num_reqs", "max_num_tokens"),
    [
        ([], 0, 0),
        ([], 5, 7),
        ([1], 1, 1),
        ([200], 1, 200),
        ([1] * 37, 40, 64),
        ([1, 130, 1, 1, 57, 3, 1], 9, 256),
        ([1, 2, 3] * 40, 128, 1100),
    ],
)
def test_a_batch_is_what_plain_python_makes_of_it(
    device: torch.device,
    scheduled: list[int],
    max_num_reqs: int,
    max_num_tokens: int,
    block_size: int,
) -> None:
    """Prefills and decodes mixed, odd sizes, one element and none: kernel, twin and a loop over
    requests and tokens say the same, padding included, and what should not be read is not."""
    batch = case(
        device, scheduled, block_size=block_size, max_num_reqs=max_num_reqs,
        max_num_tokens=max_num_tokens, seed=block_size,
    )  # fmt: skip
    assert prepare(batch) == Error(0)
    for name, values in expected(batch).items():
        assert getattr(batch.inputs, name).tolist() == values, name


def test_more_requests_than_one_turn_takes(device: torch.device) -> None:
    """The running sum is carried from tile to tile: 4,099 decodes take three turns."""
    batch = case(device, [1] * 4099, max_model_len=20, max_num_tokens=4100)
    assert prepare(batch) == Error(0)
    assert batch.inputs.query_start_loc.tolist() == list(range(4100))
    assert batch.inputs.slot_mapping.tolist() == expected(batch)["slot_mapping"]


def test_rows_may_be_named_by_64_bits(device: torch.device) -> None:
    """Counters of int64 do as well as those of int32."""
    batch = case(device, [3, 1, 9])
    wide = Batch(*(getattr(batch.batch, name).long() for name in Batch.__dataclass_fields__))
    batch = Case(batch.requests, wide, batch.inputs, batch.block_size, batch.num_blocks)
    assert prepare(batch) == Error(0)
    assert batch.inputs.slot_mapping.tolist() == expected(batch)["slot_mapping"]


def set_to(what: Callable[[Case], torch.Tensor], at: int | tuple[int, int], value: int) -> Change:
    """A change of one element."""

    def change(case: Case) -> None:
        what(case)[at] = value

    return change


@pytest.mark.parametrize(
    ("change", "says", "lost"),
    [
        (set_to(lambda c: c.batch.rows, 1, -1), Error.ROW, 4),
        (set_to(lambda c: c.batch.rows, 1, 1_000_000), Error.ROW, 4),
        (set_to(lambda c: c.batch.num_scheduled_tokens, 1, 0), Error.TOKENS, 4),
        (set_to(lambda c: c.batch.num_scheduled_tokens, 1, -5), Error.TOKENS, 4),
        (set_to(lambda c: c.batch.num_scheduled_tokens, 2, HUGE), Error.TOKENS, 3),
        (set_to(lambda c: c.batch.num_reqs, 0, 4), Error.COUNT, 0),
        (set_to(lambda c: c.batch.num_reqs, 0, -1), Error.COUNT, 8),
        (lambda c: c.requests.num_blocks.fill_(0), Error.TABLE, 8),
        (lambda c: c.requests.num_computed_tokens.fill_(199), Error.TABLE, None),
        (lambda c: c.requests.num_computed_tokens.fill_(-3), Error.TABLE, None),
        (lambda c: c.requests.num_computed_tokens.fill_(HUGE), Error.TABLE, 8),
        (lambda c: c.batch.num_scheduled_tokens.fill_(6), Error.TOKENS, -4),
        (lambda c: c.requests.block_table.fill_(0), Error.BLOCK, 8),
        (lambda c: c.requests.block_table.fill_(c.num_blocks), Error.BLOCK, 8),
        (lambda c: c.requests.block_table.fill_(-7), Error.BLOCK, 8),
    ],
)
def test_what_makes_no_sense_is_left_out_and_said(
    device: torch.device, change: Change, says: Error, lost: int | None
) -> None:
    """A bad row, count, table or block (TABLE-8) sets its bit; its tokens get the padding slot,
    and no slot is outside the pool."""
    batch = case(device, [1, 4, 3], max_num_tokens=12)
    change(batch)
    assert prepare(batch) == says
    given = batch.inputs.slot_mapping[batch.inputs.slot_mapping != PAD_SLOT]
    assert ((given >= batch.block_size) & (given < batch.num_blocks * batch.block_size)).all()
    if lost is not None:
        assert len(given) == 8 - lost
    assert int(batch.inputs.query_start_loc.max()) <= 12


def test_slots_beyond_two_to_the_31(device: torch.device) -> None:
    """Slots are 64-bit: a block number times the block size may pass 2**31."""
    batch = case(device, [5], block_size=16)
    batch.requests.block_table.fill_(2**31 - 2)
    batch = Case(batch.requests, batch.batch, batch.inputs, 16, 2**31 - 1)
    assert prepare(batch) == Error(0)
    assert int(batch.inputs.slot_mapping.min()) >= (2**31 - 2) * 16


def test_wrong_arguments_get_one_line(device: torch.device) -> None:
    """A tensor of the wrong type, shape or order is refused by name, with the remedy."""
    batch = case(device, [1, 2])
    word = new_error(device)

    def refused(part: str, name: str, value: torch.Tensor) -> str:
        structures = {"requests": batch.requests, "batch": batch.batch, "inputs": batch.inputs}
        old = structures[part]
        structures[part] = type(old)(
            **{field: value if field == name else getattr(old, field)
               for field in old.__dataclass_fields__}
        )  # fmt: skip
        with pytest.raises(ValueError) as caught:
            lengths.compute_lengths(*structures.values(), word)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    float_rows = batch.batch.rows.float()
    assert refused("batch", "rows", float_rows) == "rows is float32: give int32 or int64"
    long = torch.zeros(9, dtype=torch.int32, device=device)
    assert refused("inputs", "seq_lens", long) == "seq_lens has shape [9]: give [2]"
    turned = batch.requests.block_table.T.contiguous().T
    assert "call .contiguous()" in refused("requests", "block_table", turned)
    with pytest.raises(ValueError, match="block_size is 0"):
        slots.place_tokens(
            batch.requests, batch.batch, batch.inputs, word, block_size=0, num_blocks=9
        )
