"""The exact answer, and how far from it a result may be.

A score is a sum of ``head_size`` products, a result one of ``length`` products of weights and
values, all added in float32 in some order. To first order, with ``u = 2**-24``:

* a score errs by ``(head_size + 4) * u`` times the sum of its products' sizes, and a weight,
  relatively, by as much as its score does;
* where products are made of 16-bit numbers, weights are first rounded to those: another
  ``2**-11`` (float16) or ``2**-8`` (bfloat16), relatively, or half of the smallest step: the
  largest weight is 1, and their sum is no less;
* sums over keys, and the rescaling from tile to tile and split to split, err by ``length * u`` and
  a few ``u``, relative to the sum of sizes: ``A = sum(weight * |value|)``;
* the result is rounded to its type: half a unit of its last place, relative to itself.

Weights are divided by their own sum, which errs as they do: hence the factor 2. An lse errs by
what its scores do. These are bounds, not habits: nothing was adjusted to make a test pass.
"""

from dataclasses import dataclass

import torch
from paged import Batch

UNIT = 2.0**-24
LAST_PLACE = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
"""Half a unit in the last place, relative to the number."""
LEAST = {torch.float32: 2.0**-149, torch.float16: 2.0**-25, torch.bfloat16: 2.0**-133}
"""Half of the smallest step."""


@dataclass(frozen=True)
class Exact:
    """Of one request: the answer in float64, and the bound on its error."""

    out: torch.Tensor
    lse: torch.Tensor
    out_error: torch.Tensor
    lse_error: torch.Tensor


def exact(batch: Batch, request: int) -> Exact:
    """Causal attention over dense keys and values, all at once."""
    shape, length, count = batch.shape, batch.lengths[request], batch.counts[request]
    query = batch.queries[request].cpu().double() * shape.softmax_scale
    key = _for_query_heads(
        batch.keys[request].double() * float(batch.context.k_scale), shape.group
    )
    value = _for_query_heads(
        batch.values[request].double() * float(batch.context.v_scale), shape.group
    )
    scores = torch.einsum("nhd,khd->nhk", query, key)
    hidden = torch.ones(count, length).triu(length - count + 1).bool()[:, None]
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    out = torch.einsum("nhk,khd->nhd", weights, value)
    sizes = torch.einsum("nhd,khd->nhk", query.abs(), key.abs()).masked_fill(hidden, 0)
    score_error = (shape.head_size + 4) * UNIT * sizes.amax(-1) + 4 * UNIT
    rounding = LAST_PLACE[shape.dtype] if shape.dtype != torch.float32 else 0.0
    relative = 2 * (score_error + rounding + (length + 16) * UNIT)
    absolute = torch.einsum("nhk,khd->nhd", weights, value.abs())
    places = LAST_PLACE[shape.dtype] * out.abs() + LEAST[shape.dtype]
    if shape.dtype != torch.float32:
        places = places + LEAST[shape.dtype] * value.abs().sum(0)
    lse = scores.masked_fill(hidden, -torch.inf).logsumexp(-1)
    lse_error = 2 * score_error + (length + 16) * UNIT + 2 * UNIT * lse.abs()
    return Exact(out, lse, relative[..., None] * absolute + places, lse_error)


def assert_right(batch: Batch, out: torch.Tensor, lse: torch.Tensor | None = None) -> None:
    """Every row of every request is within the bound; a padded request's are 0 and -inf."""
    for request, length in enumerate(batch.lengths):
        rows = batch.rows(request)
        if length == 0:
            assert not out[rows].any(), f"request {request}, padded, is not 0"
            assert lse is None or bool((lse[rows] == -torch.inf).all())
            continue
        wanted = exact(batch, request)
        _assert_close(out[rows], wanted.out, wanted.out_error, f"request {request} of {length}")
        if lse is not None:
            _assert_close(lse[rows], wanted.lse, wanted.lse_error, f"lse of request {request}")


def _assert_close(
    found: torch.Tensor, wanted: torch.Tensor, bound: torch.Tensor, what: str
) -> None:
    error = (found.cpu().double() - wanted).abs()
    assert not error.isnan().any(), f"{what}: {int(error.isnan().sum())} are NaN"
    worst = float((error / bound).max()) if error.numel() else 0.0
    assert worst <= 1, f"{what}: an error of {worst:.3g} times the bound"


def _for_query_heads(rows: torch.Tensor, group: int) -> torch.Tensor:
    """Rows of key/value heads, each repeated for the query heads that share it."""
    return rows.repeat_interleave(group, 1)
