"""What holds of the integer helpers of rules and reference, as CrossHair is asked about it.

Each function begins with what it takes and goes on with what holds; ``assert`` says both.

PYTEST_DONT_REWRITE: an assertion that pytest rewrites has paths of its own.
"""

from types import SimpleNamespace
from typing import Any

from nullblock.conformance.adapters.arithmetic_pairs import (
    environment,
    fits_by_the_rules,
    running_by_the_rules,
    stop_by_the_rules,
)
from nullblock.reference.utils import cdiv
from nullblock.spec import fields, state

# ---- what holds --------------------------------------------------------------


def blocks_cover(tokens: int, size: int) -> None:
    """The blocks that tokens need hold them, and one block fewer does not."""
    assert tokens >= 0 and 1 <= size <= 16
    blocks = environment(size).blocks(tokens)
    assert size * blocks >= tokens > size * (blocks - 1) or tokens == blocks == 0


def full_blocks_are_filled(tokens: int, size: int) -> None:
    """The blocks that tokens fill are filled, and one more is not."""
    assert tokens >= 0 and 1 <= size <= 16
    k = environment(size)
    assert k.tokens(k.full(tokens)) <= tokens < k.tokens(k.full(tokens) + 1)


def cdiv_rounds_up(a: int, b: int) -> None:
    """The reference's division rounds up, for negative numbers too."""
    assert 1 <= b <= 16
    assert b * (cdiv(a, b) - 1) < a <= b * cdiv(a, b)


def a_hit_leaves_a_token(tokens: int, size: int) -> None:
    """However much is cached, the last token is computed, and less than a block beyond it."""
    assert tokens >= 1 and 1 <= size <= 16
    k = environment(size)
    usable = k.tokens(k.full(tokens - 1))
    assert 1 <= tokens - usable <= size


def a_chunk_fits(n: int, budget: int, threshold: int) -> None:
    """A chunk is positive, no more than was asked, than the budget and than a threshold."""
    assert n >= 1 and budget >= 1
    s: Any = SimpleNamespace(k=environment(1, threshold=threshold), budget=budget)
    got = state.chunk(s, n)
    assert 1 <= got <= n and got <= budget and not 0 < threshold < got


def a_running_request_stays_in_range(
    tokens: int, computed: int, budget: int, threshold: int, max_len: int
) -> None:
    """A request of a legal length is granted nothing beyond its tokens and max_model_len - 1."""
    assert 0 <= computed <= tokens <= max_len and computed < max_len and budget >= 1
    got = running_by_the_rules(tokens, computed, budget, threshold, max_len)
    assert 0 <= got <= budget and computed + got <= tokens and computed + got <= max_len - 1


def slots_are_exact(held: int, goal: int, free: int, size: int, max_len: int) -> None:
    """If slots fit, taking them leaves no fewer than no free block, and room for the goal."""
    assert held >= 0 and free >= 0 and 1 <= size <= 16 and 1 <= goal <= max_len
    if fits_by_the_rules(held, goal, free, size, max_len):
        new = max(0, environment(size).blocks(goal) - held)
        assert free - new >= 0 and (held + new) * size >= goal


def a_request_stops_in_time(
    prompt: int, output: int, max_tokens: int, min_tokens: int, max_len: int, kind: int
) -> None:
    """Normatively a request at a limit stops, and none stops on a token below min_tokens."""
    assert prompt >= 1 and 1 <= output <= max_tokens and 0 <= min_tokens <= max_tokens
    why = stop_by_the_rules(prompt, output, max_tokens, min_tokens, max_len, kind, True)
    at_limit = prompt + output >= max_len or output >= max_tokens
    assert (
        why != fields.CONTINUE
        if at_limit
        else why in (fields.CONTINUE, fields.STOPPED, fields.STOPPED_BY_ID)
    )
    assert output >= min_tokens or why in (fields.CONTINUE, fields.LENGTH)


# ---- wrong on purpose --------------------------------------------------------


def rounding_down_covers(tokens: int, size: int) -> None:
    """A canary: too few blocks where the last one is not full."""
    assert tokens >= 0 and 1 <= size <= 16
    assert environment(size).full(tokens) * size >= tokens


def chunk_without_budget(n: int, budget: int, threshold: int) -> None:
    """A canary: the threshold alone does not keep a chunk within the budget."""
    assert n >= 1 and budget >= 1
    s: Any = SimpleNamespace(k=environment(1, threshold=threshold), budget=budget)
    assert state.cut(s, n) <= budget
