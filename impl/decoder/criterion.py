"""Are these the right tokens? Judged by computing each sequence again, without pages.

In float32 the answer is exact: the tokens are those of the unpaged decoder. Sums are taken in
another order there, so the answer means something only where the first logit is well above the
second: by MARGIN, at every token, or the tokens are UNDECIDED, never RIGHT.

In bfloat16 (weights and activations; the judge takes the same rounded weights in float32) nobody
gets the logits closely enough for that. There a token is right if its logit is within ALLOWANCE of
the best one: wherever the first is above the second by more than that, it has to be the first.
"""

from dataclasses import dataclass
from enum import Enum

import torch

from nullblock.impl.decoder.unpaged import all_logits
from nullblock.impl.decoder.weights import Weights

MARGIN = 1e-3
"""At LOGIT_STD 8 the paged and the unpaged path differ by 4e-5 at most, as measured."""


class Outcome(Enum):
    """What came of a comparison."""

    RIGHT = "right"
    WRONG = "wrong"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one request; `at` is the output token that decided it, from 0."""

    outcome: Outcome
    at: int | None = None
    served: int | None = None
    expected: int | None = None
    margin: float = float("inf")
    """The least distance of the first logit to the second, up to there."""


def judge(weights: Weights, prompt: list[int], served: list[int]) -> Verdict:
    """Whether greedy decoding of these float32 weights continues a prompt with these tokens.

    One computation tells all: as long as the tokens agree, so does what the next one follows from.
    """
    if not served:
        return Verdict(Outcome.RIGHT)
    with torch.inference_mode():
        logits = all_logits(weights, prompt + served[:-1])[len(prompt) - 1 :]
    best = logits.topk(2)
    margins = (best.values[:, 0] - best.values[:, 1]).tolist()
    least = float("inf")
    for at, (token, margin) in enumerate(zip(served, margins, strict=True)):
        least, expected = min(least, margin), int(best.indices[at, 0])
        if not margin >= MARGIN:
            return Verdict(Outcome.UNDECIDED, at, token, expected, least)
        if token != expected:
            return Verdict(Outcome.WRONG, at, token, expected, least)
    return Verdict(Outcome.RIGHT, margin=least)
