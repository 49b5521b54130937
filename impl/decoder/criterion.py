"""Are these the right tokens? Judged by computing each sequence again, without pages.

In float32 the answer is exact: the tokens are those of the unpaged decoder. Sums are taken in
another order there, so the answer means something only where the first logit is well above the
second: by MARGIN, at every token, or the tokens are UNDECIDED, never RIGHT.

In bfloat16 (weights, activations and cache) no two ways of computing agree closely enough for
that. The judge takes the same rounded weights in float32, and a token is right if its logit is
within ALLOWANCE of the best one: wherever the first is above the second by more than that, and
that is at about two tokens of three, it has to be the first.
"""

from dataclasses import dataclass
from enum import Enum

import torch

from nullblock.impl.decoder.unpaged import all_logits
from nullblock.impl.decoder.weights import Weights

MARGIN = 1e-3
"""Of float32. At LOGIT_STD 8 paged and unpaged logits differ by 4e-5 at most, as measured."""
ALLOWANCE = 1.0
"""Of bfloat16. With 3 layers the logits differ by 0.6 at most, as measured on a CPU."""


class Outcome(Enum):
    """What came of a comparison."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one request. `at`: the output token that decided against it, from 0."""

    outcome: Outcome
    margin: float
    """The least distance of the first logit to the second, up to there."""
    at: int | None = None
    expected: int | None = None


def judge(weights: Weights, prompt: list[int], served: list[int]) -> Verdict:
    """Whether greedy decoding continues a prompt with these tokens.

    One computation tells all: as long as the tokens agree, so does what the next one follows from.
    """
    exact, least = weights.embedding.dtype == torch.float32, float("inf")
    if not served:
        return Verdict(Outcome.RIGHT, least)
    wide = weights.to(str(weights.embedding.device), torch.float32)
    logits = all_logits(wide, prompt + served[:-1])[len(prompt) - 1 :].cpu()
    best = logits.topk(2)
    short = best.values[:, 0] - logits[torch.arange(len(served)), torch.tensor(served)]
    for at, (first, second) in enumerate(best.values.tolist()):
        least = min(least, first - second)
        expected = int(best.indices[at, 0])
        if exact and not first - second >= MARGIN:  # nor if it is NaN
            return Verdict(Outcome.UNDECIDED, least, at, expected)
        if served[at] != expected and not (not exact and float(short[at]) <= ALLOWANCE):
            return Verdict(Outcome.WRONG, least, at, expected)
    return Verdict(Outcome.RIGHT, least)
