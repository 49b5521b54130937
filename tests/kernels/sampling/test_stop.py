"""Requests take their tokens and stop as the specification says (UPD-3, UPD-4)."""

import itertools

import pytest
import torch
from twins import same

from nullblock.kernels.batch.layout import NO_TOKEN, Batch, Requests
from nullblock.kernels.errors import Error
from nullblock.kernels.sampling import stop
from nullblock.kernels.sampling.stop import Limits
from nullblock.spec import fields

pytestmark = pytest.mark.usefixtures("checked_kernels")

EOS, STOP_ID, OTHER = 7, 8, 9


def ints(values: list[int], device: torch.device) -> torch.Tensor:
    """An int32 tensor."""
    return torch.tensor(values, dtype=torch.int32, device=device)


def rule(num_tokens: int, at_least: int, limit: int, token: int, early: bool) -> int:
    """UPD-4 as it is written, for one request; `num_tokens` counts the token."""
    at_limit = num_tokens >= limit
    if num_tokens < at_least:
        return stop.LENGTH if early and at_limit else stop.CONTINUE
    if token == EOS:
        return stop.STOPPED
    if token == STOP_ID:
        return stop.STOPPED_BY_ID
    return stop.LENGTH if at_limit else stop.CONTINUE


def take(
    requests: Requests, batch: Batch, limits: Limits, sampled: list[int], early: bool = True
) -> tuple[list[int], Error]:
    """The kernel beside its twin: how everybody goes on, and what the error word says."""
    device = requests.num_tokens.device
    tokens = ints(sampled, device)
    why = torch.full((len(sampled),), 55, dtype=torch.int32, device=device)

    said = same(
        lambda r, w, error: stop.take_tokens(
            r, batch, limits, tokens, w, error, length_before_min_tokens=early, backend="triton"
        ),
        lambda r, w, error: stop.take_tokens_torch(
            r, batch, limits, tokens, w, error, length_before_min_tokens=early
        ),
        requests, why,
    )  # fmt: skip
    return why.tolist(), said


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("width", [0, 1, 3])
def test_every_combination_stops_as_the_rule_says(
    device: torch.device, early: bool, width: int
) -> None:
    """Around both limits, for eos, a stop id and another token, with eos also a stop id: the
    answer is that of the rule as it is written, under both of its variants."""
    cases = list(itertools.product([3, 4, 5], [3, 4, 5], [3, 4, 5], [EOS, STOP_ID, OTHER]))
    count = len(cases)
    requests = Requests.empty(count, 8, 4, device)
    requests.num_tokens[:] = ints([num - 1 for num, _, _, _ in cases], device)
    stop_ids = torch.full((count, width), NO_TOKEN, dtype=torch.int32, device=device)
    if width:
        stop_ids[:, width - 1] = STOP_ID
        stop_ids[: count // 2, 0] = EOS if width > 1 else STOP_ID
    limits = Limits(
        ints([limit for _, _, limit, _ in cases], device),
        ints([least for _, least, _, _ in cases], device),
        ints([EOS] * count, device),
        stop_ids,
    )
    rows = ints(list(range(count)), device)
    batch = Batch(rows, ints([count], device), torch.ones_like(rows))
    tokens = [token for _, _, _, token in cases]
    why, said = take(requests, batch, limits, tokens, early)
    heard = [token if width or token != STOP_ID else OTHER for token in tokens]
    wanted = [
        rule(num, least, limit, token, early)
        for (num, least, limit, _), token in zip(cases, heard, strict=True)
    ]
    assert (why, said) == (wanted, Error(0))
    assert set(why) >= {stop.CONTINUE, stop.STOPPED, stop.LENGTH}
    assert requests.num_tokens.tolist() == [num for num, _, _, _ in cases]
    assert [int(requests.token_ids[r, num - 1]) for r, (num, *_) in enumerate(cases)] == tokens


def test_codes_are_those_of_the_specification() -> None:
    """CONTINUE, STOPPED, STOPPED_BY_ID and LENGTH have the specification's numbers."""
    names = ("CONTINUE", "STOPPED", "STOPPED_BY_ID", "LENGTH")
    assert [getattr(stop, name) for name in names] == [getattr(fields, name) for name in names]


def test_who_takes_nothing_stays_as_it_was(device: torch.device) -> None:
    """A chunk of a prompt samples nothing; padded places are not looked at; a row that is full or
    does not exist takes nothing and sets its bit; without an eos nothing is one."""
    requests = Requests.empty(4, 4, 4, device)
    requests.num_tokens[:] = ints([1, 4, 2, 3], device)
    limits = Limits(
        ints([9] * 4, device), ints([0] * 4, device), ints([NO_TOKEN] * 4, device),
        torch.full((4, 2), NO_TOKEN, dtype=torch.int32, device=device),
    )  # fmt: skip
    batch = Batch(ints([2, 1, 9, 0, 3], device), ints([4], device), ints([1] * 5, device))
    why, said = take(requests, batch, limits, [NO_TOKEN, 5, 5, 6, 7])
    assert (why, said) == ([stop.CONTINUE] * 5, Error.ROW | Error.ROOM)
    assert requests.num_tokens.tolist() == [2, 4, 2, 3]
    assert requests.token_ids.sum() == requests.token_ids[0, 1] == 6
