"""Scheduling does not change tokens."""

from collections import Counter

from served import Case, differing

SEEN = (
    *("preemption", "resumption", "resumption with a prefix hit", "prefix hit", "chunk"),
    *("last chunk", "prefill beside decode", "shared block", "three together", "priority"),
    *("reset of running requests", "abort of a running request"),
)
CASES = 90


def test_scheduling_does_not_change_tokens() -> None:
    """Whatever the budget, threshold, chunking, pool, block size, policy, cache and company, with
    requests preempted, resumed, reset and aborted: every request gets the very tokens of the
    unpaged decoder. And all of that has happened, many times.
    """
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        assert differing(Case(seed), seen) == [], f"case {seed}"
    assert {what: seen[what] for what in SEEN if seen[what] < 10} == {}
