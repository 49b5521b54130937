"""The largest logit wins, and where that is not all, it is said which."""

from functools import partial

import pytest
import torch
from twins import same

from nullblock.kernels.batch.layout import NO_TOKEN
from nullblock.kernels.errors import Error, new_error
from nullblock.kernels.sampling import greedy

pytestmark = pytest.mark.usefixtures("checked_kernels")

INF, NAN = float("inf"), float("nan")


def sample(logits: torch.Tensor, count: int | None = None) -> tuple[list[int], Error]:
    """The kernels beside their twin: the tokens, and what the error word says."""
    most, device = logits.shape[0], logits.device
    num = torch.tensor([most if count is None else count], dtype=torch.int32, device=device)
    tokens = torch.full((most,), 77, dtype=torch.int32, device=device)
    scratch = torch.zeros(most, greedy.SPLITS, dtype=torch.int64, device=device)

    def kernel(tokens: torch.Tensor, error: torch.Tensor) -> None:
        greedy.greedy_tokens(logits, num, tokens, scratch, error, backend="triton")

    said = same(kernel, partial(greedy.greedy_tokens_torch, logits, num), tokens)
    return tokens.tolist(), said


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "vocab"), [(1, 1), (3, 2), (37, 1000), (2, 4097), (1, 20_001), (0, 5)]
)
def test_the_token_is_torchs(
    device: torch.device, dtype: torch.dtype, rows: int, vocab: int
) -> None:
    """Vocabularies of any size, one row and none: torch.argmax says the same; in 16 bits and
    20,001 columns there are ties enough."""
    logits = torch.randn(rows, vocab, device=device).to(dtype)
    tokens, said = sample(logits)
    assert (tokens, said) == (logits.float().argmax(1).tolist(), Error(0))


@pytest.mark.parametrize(
    ("row", "token", "says"),
    [
        ([0.0, 3.0, 3.0, 3.0], 1, Error(0)),
        ([-5.0, -5.0, -6.0, -5.0], 0, Error(0)),
        ([-1.0, -0.0, 0.0, 0.0], 1, Error(0)),
        ([-1.0, 0.0, -0.0, -0.0], 1, Error(0)),
        ([-INF, -INF, -INF, -INF], 0, Error(0)),
        ([-INF, -3e38, -INF, -INF], 1, Error(0)),
        ([1e-45, 0.0, 2.0, INF], 3, Error(0)),
        ([-1e-45, -2e-45, -3.0, -4.0], 0, Error(0)),
        ([INF, 1.0, NAN, NAN], 2, Error.NOT_A_NUMBER),
        ([NAN, INF, 0.0, -NAN], 0, Error.NOT_A_NUMBER),
    ],
)
def test_ties_zeros_infinities_and_nan(
    device: torch.device, row: list[float], token: int, says: Error
) -> None:
    """The lowest token wins a tie; the zeros are equal; NaN is larger than infinity and said. Of
    other rows nothing changes."""
    logits = torch.tensor([[0.0, 1.0, 0.0, 0.0], row, [0.0, 0.0, 2.0, 0.0]], device=device)
    assert sample(logits) == ([1, token, 2], says)
    assert logits[1].argmax() == token


def test_a_tie_across_tiles_and_programs(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lowest token wins wherever the equal ones are computed: here in tiles of 64, four
    programs a row, five turns each."""
    monkeypatch.setattr(greedy, "SPLITS", 4)
    monkeypatch.setattr(greedy, "MOST_COLUMNS", 64)
    logits = torch.zeros(4, 1200, device=device)
    equal = [[1100, 1199], [64, 65, 300], [5, 70], [256, 320, 700]]
    for row, tokens in enumerate(equal):
        logits[row, tokens] = 1.0
    assert sample(logits) == ([1100, 64, 5, 256], Error(0))


def test_places_without_a_request_have_no_token(device: torch.device) -> None:
    """Logits of padded places are not looked at, NaN or not; a count beyond them sets COUNT."""
    logits = torch.full((4, 6), NAN, device=device)
    logits[:2] = torch.arange(6)
    assert sample(logits, 2) == ([5, 5, NO_TOKEN, NO_TOKEN], Error(0))
    assert sample(logits[:2], 3) == ([5, 5], Error.COUNT)
    assert sample(logits, -1) == ([NO_TOKEN] * 4, Error.COUNT)


def test_rows_may_lie_apart(device: torch.device) -> None:
    """The vocabulary may be padded in memory: what is behind it is not looked at."""
    padded = torch.full((3, 64), INF, device=device)
    padded[:, :50] = torch.randn(3, 50)
    assert sample(padded[:, :50]) == (padded[:, :50].argmax(1).tolist(), Error(0))


def test_an_empty_vocabulary_is_refused(device: torch.device) -> None:
    """There is no token to give."""
    empty = torch.zeros(1, 0, device=device)
    scratch = torch.zeros(1, greedy.SPLITS, dtype=torch.int64, device=device)
    one = torch.ones(1, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match="at least one token"):
        greedy.greedy_tokens(empty, one, one, scratch, new_error(device))
