"""Keys: polynomials over a prime field at two secret points, and nothing else (HASH-1)."""

import itertools

import pytest
import torch
from control_bench import CPU, ints, place_of

from nullblock.kernels.arguments import Backend
from nullblock.kernels.control.lookup import look_up
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import State, new_state
from nullblock.kernels.control.weights import PRIME


def named(
    backend: Backend,
    prompts: list[tuple[list[int], tuple[int, int]]],
    seed: int,
    device: torch.device = CPU,
) -> State:
    """An engine in which these prompts, each with its extras, wait; their keys computed."""
    longest = max(len(tokens) for tokens, _ in prompts)
    sizes = Sizes(5, 3, len(prompts), longest, 9, lanes=4)
    state = new_state(sizes, place_of(backend, device), seed=seed)
    requests = state.arrays.requests
    for row, (tokens, extra) in enumerate(prompts):
        requests.tokens[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        requests.num_tokens[row] = len(tokens)
        requests.extra[row] = torch.tensor(extra)
    look_up(state, ints([*range(len(prompts))], state.device), backend)
    return state


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_keys_are_the_polynomial_at_two_points(backend: Backend, device: torch.device) -> None:
    """The key of a block is the value of its whole content as a polynomial, token by token from
    the definition, for any length and the largest tokens; the points are those of the seed."""
    tokens = [2**31 - 2, 0, 5, 2**31 - 2, 7, 7, 7] + [3] * 20
    state = named(backend, [(tokens, (9, 2**31 - 1))], 4, device)
    powers = state.arrays.weights.inner[:, 1].tolist()
    expected, sums, power = [], [0, 0], [1, 1]
    for block in range(len(tokens) // 3):
        content = [(9, 2**31 - 1)[min(block, 1)], *(t + 1 for t in tokens[3 * block :][:3])]
        for coefficient in content:
            for i in range(2):
                sums[i] = (sums[i] + coefficient * power[i]) % PRIME
                power[i] = power[i] * powers[i] % PRIME
        expected.append([sums[0] + 1, sums[1]])
    known = int(state.arrays.requests.num_keys[0])
    assert known == 9 and state.arrays.requests.keys[0, :known].tolist() == expected


def test_equal_keys_are_equal_contents() -> None:
    """Among all short contents over a few tokens and extras, keys of two blocks are equal exactly
    where everything up to them is equal: tokens, extra, and where the content begins."""
    contents = list(itertools.product([0, 1], repeat=6))
    extras = [(0, 0), (1, 0), (1, 1), (2, 0)]
    prompts = [(list(tokens), extra) for tokens in contents for extra in extras]
    state = named("torch", prompts, seed=5)
    by_key: dict[tuple[int, ...], set[tuple[object, ...]]] = {}
    for row, (tokens, extra) in enumerate(prompts):
        for block in range(2):
            content = (*tokens[: 3 * block + 3], extra[0], extra[1] if block else None)
            key = tuple(state.arrays.requests.keys[row, block].tolist())
            by_key.setdefault(key, set()).add(content)
    assert all(len(found) == 1 for found in by_key.values())
    assert len(by_key) == 8 * 3 + 64 * 4


def test_points_are_drawn_afresh() -> None:
    """Two engines without a seed do not share their points, nor do the two points of one."""
    a, b = (new_state(Sizes(5, 3, 1, 9, 9)).arrays.weights.inner for _ in range(2))
    assert len({*a[:, 1].tolist(), *b[:, 1].tolist()}) == 4
