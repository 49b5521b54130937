"""Defects planted in the kernels of sampling, and the small call that each of them fails."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import triton
from planting import defect
from twins import same

from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.checks import checked
from nullblock.kernels.sampling import greedy, stop
from nullblock.kernels.sampling.stop import Limits

NAN, INF = float("nan"), float("inf")
Check = Callable[[], None]


def ints(values: list[int]) -> torch.Tensor:
    """An int32 tensor."""
    return torch.tensor(values, dtype=torch.int32)


def logits() -> None:
    """Ties, both zeros, negative numbers only, NaN, a padded place."""
    some = torch.tensor(
        [[1.0, 3.0, 3.0], [-2.0, -1.0, -3.0], [-1.0, -0.0, 0.0], [INF, NAN, 0.0], [NAN] * 3]
    )
    scratch = torch.zeros(5, greedy.SPLITS, dtype=torch.int64)
    num, tokens = ints([4]), ints([9] * 5)

    def kernel(tokens: torch.Tensor, error: torch.Tensor) -> None:
        greedy.greedy_tokens(some, num, tokens, scratch, error, backend="triton")

    same(kernel, partial(greedy.greedy_tokens_torch, some, num), tokens)


def stops() -> None:
    """Every combination around both limits, of eos, a stop id and another token; a full row."""
    cases = list(itertools.product([3, 4, 5], [3, 4, 5], [3, 4, 5], [7, 8, 9]))
    count = len(cases)
    requests = Requests.empty(count, 5, 4, "cpu")
    requests.num_tokens[:] = ints([num - 1 for num, *_ in cases])
    requests.num_tokens[0] = 5
    columns = list(zip(*cases, strict=True))
    limits = Limits(
        ints(list(columns[2])), ints(list(columns[1])), ints([7] * count),
        ints([8] * count).view(count, 1),
    )  # fmt: skip
    batch = Batch(ints(list(range(count))), ints([count]), ints([1] * count))
    sampled, why = ints(list(columns[3])), ints([0] * count)

    def kernel(requests: Requests, why: torch.Tensor, error: torch.Tensor) -> None:
        stop.take_tokens(requests, batch, limits, sampled, why, error, backend="triton")

    def twin(requests: Requests, why: torch.Tensor, error: torch.Tensor) -> None:
        stop.take_tokens_torch(requests, batch, limits, sampled, why, error)

    same(kernel, twin, requests, why)


GREEDY, STOP = "sampling/greedy.py", "sampling/stop.py"
MUTANTS: dict[str, tuple[str, str, str, Check]] = {
    "zeros differ": (GREEDY, "tl.where(x == 0.0, 0, ", "tl.where(x == NOTHING, rank, ", logits),
    "negative numbers the wrong way": (GREEDY, "bits ^ LOW, bits)", "bits, bits)", logits),
    "lanes beyond the vocabulary": (
        GREEDY, "tl.where(inside, _packed(x, token), LEAST)", "_packed(x, token)", logits,
    ),
    "the highest token wins a tie": (
        GREEDY, "(token ^ LOW).to(tl.int64)", "token.to(tl.int64)", logits,
    ),
    "NaN is nothing special": (GREEDY, "tl.where(x != x, LOW, rank)", "rank", logits),
    "NaN is not told": (
        GREEDY, "    report(error, there & ((best >> 32) == LOW), NOT_A_NUMBER)\n", "", logits,
    ),
    "padding is sampled": (
        GREEDY, "tl.where(there, token, NOTHING)", "token", logits,
    ),
    "eos is overlooked": (STOP, "    answer = tl.where(by_eos, BY_EOS, answer)\n", "", stops),
    "stop ids before eos": (
        STOP, "tl.where(by_eos, BY_EOS, answer)", "tl.where(by_eos, BY_ID, answer)", stops,
    ),
    "the limit waits for min_tokens": (
        STOP, "tl.where(at_limit, EARLY, ON), answer)", "ON, answer)", stops,
    ),
    "one token more than max_tokens": (
        STOP, "at_limit = at + 1 >= tl.load", "at_limit = at + 1 > tl.load", stops,
    ),
    "one token more than min_tokens": (
        STOP, "below = at + 1 < tl.load", "below = at < tl.load", stops,
    ),
    "full rows are written": (
        STOP, "fits = takes & (at >= 0) & (at < room)\n    report(error, takes & (fits == 0)",
        "fits = takes & (at >= 0)\n    report(error, takes & (fits == 0)", stops,
    ),
}  # fmt: skip


@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.parametrize("check", [logits, stops])
def test_without_a_defect(check: Check) -> None:
    """The same calls find nothing in the kernels as they are."""
    with checked():
        check()


@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_defect_is_noticed(mutant: tuple[str, str, str, Check], tmp_path: Path) -> None:
    """The call fails with the defect: its own assertion says so, or a check of the kernels."""
    file, old, new, check = mutant
    with defect(tmp_path, file, old, new), pytest.raises(AssertionError):
        with checked():  # under which a store out of bounds does no harm
            check()
