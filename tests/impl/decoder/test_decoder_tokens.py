"""Scheduling does not change tokens."""

from collections import Counter

from served import Case, differing, prompts

SEEN = (
    *("preemption", "resumption", "resumption with a prefix hit", "prefix hit", "chunk"),
    *("last chunk", "prefill beside decode", "shared block", "three together", "priority"),
    *("reset of running requests", "abort of a running request", "ahead of outputs"),
    "preemption ahead of outputs",
)
CASES = (*range(90), 161, 396, 466)
"""The last ones resume requests whose tokens are still in flight."""


def test_scheduling_does_not_change_tokens() -> None:
    """Whatever the budget, threshold, chunking, pool, block size, policy, cache and company, with
    requests preempted, resumed, reset and aborted, with steps ahead of outputs or without: every
    request gets the very tokens of the unpaged decoder. And all of that has happened, many times.
    """
    seen: Counter[str] = Counter()
    for seed in CASES:
        assert differing(Case(seed), seen) == [], f"case {seed}"
    assert {what: seen[what] for what in SEEN if seen[what] < 10} == {}


def test_the_kernels_give_the_same_tokens() -> None:
    """Not only their twins: interpreted, or on a GPU where TRITON_INTERPRET=0 says so, they serve
    chunks, a shared prefix and decodes side by side.
    """
    case, seen, (first, second) = Case(0), Counter[str](), prompts()[:2]
    case.constants |= {
        "block_size": 4,
        "num_blocks": 30,
        "max_num_scheduled_tokens": 10,
        "max_num_seqs": 4,
        "long_prefill_token_threshold": 0,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": True,
        "async_scheduling": False,
    }
    asked = [(0, "a", first[:12], 3), (0, "b", first[:8] + second[:3], 3), (1, "c", first[:10], 2)]
    case.requests = [
        (step, {"id": id, "prompt": prompt, "max_tokens": n}) for step, id, prompt, n in asked
    ]
    case.events, case.depth = {}, 1
    assert differing(case, seen, backend="triton") == []
    assert seen["chunk"] and seen["prefix hit"] and seen["prefill beside decode"]
