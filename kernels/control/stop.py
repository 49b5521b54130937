"""Whether a request stops at the token that it just took (UPD-4), for one or for many at once.

    below at_least      LENGTH if the limit is reached and length_before_min_tokens, else CONTINUE
    the token is eos    STOPPED
    is a stop id        STOPPED_BY_ID
    limit reached       LENGTH
    else                CONTINUE

`limit` and `at_least` count tokens, prompt included: the first is where max_tokens or
max_model_len ends the request, the second where min_tokens is reached.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import Requests

# The numbers of the specification.
CONTINUE = tl.constexpr(0)
STOPPED = tl.constexpr(1)
STOPPED_BY_ID = tl.constexpr(2)
LENGTH = tl.constexpr(3)


@triton.jit
def is_stop_id(requests, row, token, there, z: tl.constexpr):
    """Whether each token is one of its request's stop ids."""
    found = there & (token < token)
    n = tl.load(requests.num_stop + row, mask=there, other=0)
    width: tl.constexpr = z.stop_width
    for j in tl.static_range(width):
        at = row.to(tl.int64) * width + j
        listed = there & (j < n)
        found = found | (listed & (tl.load(requests.stop_ids + at, mask=listed, other=0) == token))
    return found


@triton.jit
def why_it_stops(requests, row, token, num_tokens, there, z: tl.constexpr):
    """How each of these requests stops, with `token` the last of its `num_tokens`; CONTINUE where
    not `there`.
    """
    limit = tl.load(requests.limit + row, mask=there, other=0)
    at_least = tl.load(requests.at_least + row, mask=there, other=0)
    eos = tl.load(requests.eos + row, mask=there, other=0)
    at_limit = num_tokens >= limit
    why = tl.where(at_limit, LENGTH, CONTINUE)
    why = tl.where(is_stop_id(requests, row, token, there, z), STOPPED_BY_ID, why)
    why = tl.where(token == eos, STOPPED, why)
    early = tl.where(at_limit & z.length_before_min_tokens, LENGTH, CONTINUE)
    why = tl.where(num_tokens < at_least, early, why)
    return tl.where(there, why, CONTINUE)


def why_it_stops_torch(
    requests: Requests,
    row: torch.Tensor,
    token: torch.Tensor,
    num_tokens: torch.Tensor,
    sizes: Sizes,
) -> torch.Tensor:
    """The twin of `why_it_stops`: int32, one for each row."""
    at_limit = num_tokens >= requests.limit[row]
    width = requests.stop_ids.shape[1]
    listed = torch.arange(width, device=row.device) < requests.num_stop[row, None]
    by_id = (listed & (requests.stop_ids[row] == token[:, None])).any(1)
    why = torch.where(at_limit, LENGTH.value, CONTINUE.value)
    why = torch.where(by_id, STOPPED_BY_ID.value, why)
    why = torch.where(token == requests.eos[row], STOPPED.value, why)
    early = at_limit & sizes.length_before_min_tokens
    below = num_tokens < requests.at_least[row]
    why = torch.where(below, torch.where(early, LENGTH.value, CONTINUE.value), why)
    return why.to(torch.int32)
