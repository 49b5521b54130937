"""Whether a request in the state stops at the token that it just took (UPD-4).

The rule itself is `verdict` of the sampling kernels; here stands what it is asked about a row.
`limit` and `at_least` count tokens, prompt included: the first is where max_tokens or
max_model_len ends the request, the second where min_tokens is reached.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import Requests
from nullblock.kernels.sampling import stop
from nullblock.kernels.sampling.stop import BY_LENGTH, ON, verdict, verdict_torch

CONTINUE = tl.constexpr(stop.CONTINUE)


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
    by_eos = token == tl.load(requests.eos + row, mask=there, other=0)
    by_id = is_stop_id(requests, row, token, there, z)
    early: tl.constexpr = BY_LENGTH if z.length_before_min_tokens else ON
    why = verdict(num_tokens >= limit, num_tokens < at_least, by_eos, by_id, early)
    return tl.where(there, why, CONTINUE)


def why_it_stops_torch(
    requests: Requests,
    row: torch.Tensor,
    token: torch.Tensor,
    num_tokens: torch.Tensor,
    sizes: Sizes,
) -> torch.Tensor:
    """The twin of `why_it_stops`: int32, one for each row."""
    width = requests.stop_ids.shape[1]
    listed = torch.arange(width, device=row.device) < requests.num_stop[row, None]
    by_id = (listed & (requests.stop_ids[row] == token[:, None])).any(1)
    at_limit, below = num_tokens >= requests.limit[row], num_tokens < requests.at_least[row]
    early = stop.LENGTH if sizes.length_before_min_tokens else stop.CONTINUE
    why = verdict_torch(at_limit, below, token == requests.eos[row], by_id, early)
    return why.to(torch.int32)
