"""The canaries: one line of the specification changed, so that every checker can show it would
notice.

A mutant is a set of textual edits of files under `spec/`. Where guard and machine pin a decision
together, both are changed, so that it takes an invariant or another engine, and not just the
guard, to notice.
"""

from dataclasses import dataclass

Edit = tuple[str, str, str]
"""File below `spec/`, the text to change, what it becomes."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A named defect and the edits that plant it."""

    name: str
    defect: str
    edits: tuple[Edit, ...]


POOL, STATE, QUEUES, LOOKUP, STEPS = (
    "rules/pool.py",
    "state.py",
    "rules/queues.py",
    "rules/lookup.py",
    "rules/steps.py",
)
BLOCKS, SCHEDULE, UPDATE, OUTPUT = (
    "machine/blocks.py",
    "machine/schedule.py",
    "state.py",
    "machine/output.py",
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "touch-keeps-queue",
        "a hit on a free block does not take it out of the free queue",
        ((POOL, "        _dequeue(s, b)\n        s.nevict -= 1", "        s.nevict -= 1"),),
    ),
    Mutant(
        "free-forward",
        "a table is released from its first block, so parents are evicted before children",
        (
            (BLOCKS, "pop_block(s, r, s.tab[r, s.tlen[r] - 1])", "pop_block(s, r, s.tab[r, 0])"),
            (POOL, 'require(b == s.tab[r, n - 1], "the last block goes first")', ""),
            (
                POOL,
                "    s.tlen[r] = n - 1\n",
                "    s.tlen[r] = n - 1\n    for j in range(n - 1):\n"
                "        s.tab[r, j] = s.tab[r, j + 1]\n        s.pos[r, s.tab[r, j]] = j\n",
            ),
        ),
    ),
    Mutant(
        "hash-survives-reuse",
        "a block keeps its old hash when it is given to somebody else",
        (
            (
                POOL,
                '"a block from the free queue is unreferenced")\n    _unhash(s, b)',
                '"a block from the free queue is unreferenced")',
            ),
        ),
    ),
    Mutant(
        "admit-after-preemption",
        "waiting requests are admitted in a step that preempted",
        ((STATE, "        s.turned == 0,\n        s.pause", "        s.pause"),),
    ),
    Mutant(
        "budget-off-by-one",
        "a request may exceed the token budget by one",
        ((STATE, "least(cut(s, n), s.budget)", "least(cut(s, n), s.budget + 1)"),),
    ),
    Mutant(
        "hit-without-reference",
        "a hit block gains no reference",
        ((POOL, "    s.ref[b] += 1\n    _append", "    _append"),),
    ),
    Mutant(
        "hit-covers-last-token",
        "a lookup may cover every token, and nothing is left to compute",
        ((STATE, "s.nhit >= s.k.full(s.ntok[r] - 1)", "s.nhit >= s.k.full(s.ntok[r])"),),
    ),
    Mutant(
        "evict-most-recent",
        "the block freed last is given out first",
        (
            (
                STATE,
                "lambda b: in_queue(s, b), lambda b: s.stamp[b], by=",
                'lambda b: in_queue(s, b), lambda b: -s.stamp[b], by="mru" or ',
            ),
            (
                STATE,
                "lambda c: in_queue(s, c), lambda c: s.stamp[c], by=",
                'lambda c: in_queue(s, c), lambda c: -s.stamp[c], by="mru" or ',
            ),
        ),
    ),
    Mutant(
        "preempt-oldest",
        "under FCFS the oldest running request is the victim",
        (
            (STATE, "both(inside, i == s.nr - 1)", "both(inside, i == 0)"),
            (STATE, "        return s.nr - 1\n", "        return 0\n"),
        ),
    ),
    Mutant(
        "victim-to-back",
        "a preempted request queues behind those that wait",
        ((QUEUES, "    s.rank[v] = s.lo\n    s.lo -= 1", "    s.rank[v] = s.hi\n    s.hi += 1"),),
    ),
    Mutant(
        "withdrawn-tokens-lost",
        "the tokens of a victim already scheduled do not return to the budget",
        ((QUEUES, "    s.budget += s.sched[v]\n", ""),),
    ),
    Mutant(
        "withdrawn-hashes-stay",
        "a withdrawn request leaves the hashes of blocks that nobody computed",
        (
            (
                BLOCKS,
                "    if s.k.sem.withdraw_uncaches:\n        for",
                "    if False:\n        for",
            ),
            (POOL, "    if s.k.sem.withdraw_uncaches:\n", "    if False:\n"),
        ),
    ),
    Mutant(
        "victim-freed-late",
        "the blocks of a preempted request are not counted as free before the retry",
        ((POOL, "    s.nfree += 1\n    s.freeset", "    s.freeset"),),
    ),
    Mutant(
        "reserve-ignored",
        "a long prompt is admitted although its whole sequence does not fit",
        ((STATE, "    if not s.k.reserve:\n", "    if True:\n"),),
    ),
    Mutant(
        "hits-not-charged",
        "hits that stand in the free queue are not counted as blocks to take",
        (
            (
                STATE,
                "room(s) - s.tlen[r] - (s.nhit - s.na) + s.nevict <= s.nfree",
                "room(s) - s.tlen[r] - (s.nhit - s.na) <= s.nfree",
            ),
        ),
    ),
    Mutant(
        "half-block-cached",
        "a block is cached before it is full",
        (
            (
                STATE,
                "    return s.k.full(least(s.goal, s.ntok[r]))",
                "    return s.k.blocks(least(s.goal, s.ntok[r]))",
            ),
        ),
    ),
    Mutant(
        "latest-duplicate",
        "of several blocks with one hash the one cached last is found",
        (
            (
                STATE,
                "lambda b: s.hsh[b] == h, lambda b: s.hstamp[b], by=",
                'lambda b: s.hsh[b] == h, lambda b: -s.hstamp[b], by="late" or ',
            ),
            (
                STATE,
                "lambda c: s.hsh[c] == h, lambda c: s.hstamp[c], by=",
                'lambda c: s.hsh[c] == h, lambda c: -s.hstamp[c], by="late" or ',
            ),
        ),
    ),
    Mutant(
        "stop-before-eos",
        "the length limits are looked at before eos and stop ids",
        (
            (
                UPDATE,
                "    kind = s.k.last_token(s, r)\n",
                "    if at_limit:\n        return LENGTH\n    kind = s.k.last_token(s, r)\n",
            ),
        ),
    ),
    Mutant(
        "worker-not-told",
        "a running request's new blocks are not reported",
        (
            (
                OUTPUT,
                "table(s, r, 0 if resumed else s.told[r])",
                "table(s, r, 0 if resumed else s.tlen[r])",
            ),
        ),
    ),
)
BY_NAME = {m.name: m for m in MUTANTS}
