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
    rule: str = ""
    """The statement that it breaks."""
    takes: str = ""
    """What has to be in a trace for the defect to show."""
    needs: str = ""
    """A rule that fires wherever the text that it changes decides anything, if there is one: where
    that never fires, nothing can come out otherwise."""


POOL, STATE, GATE, FLIGHT, QUEUES, LOOKUP, STEPS = (
    "rules/pool.py",
    "state.py",
    "gate.py",
    "flight.py",
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
        rule="POOL-11",
        takes="a hit on a block that stands in the free queue",
        needs="POOL-11",
    ),
    Mutant(
        "free-forward",
        "a table is released from its first block, so parents are evicted before children",
        (
            (BLOCKS, "pop_block(s, t, s.tab[t, s.tlen[t] - 1])", "pop_block(s, t, s.tab[t, 0])"),
            (POOL, 'require(b == s.tab[t, n - 1], "the last block goes first")', ""),
            (
                POOL,
                "    s.tlen[t] = n - 1\n",
                "    s.tlen[t] = n - 1\n    for j in range(n - 1):\n"
                "        s.tab[t, j] = s.tab[t, j + 1]\n        s.pos[t, s.tab[t, j]] = j\n",
            ),
        ),
        rule="POOL-12",
        takes="a request of several blocks that leaves, and its blocks given out again",
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
        rule="POOL-10",
        takes="a block of a known prefix that is given to somebody else, and then asked for again",
    ),
    Mutant(
        "admit-after-preemption",
        "waiting requests are admitted in a step that preempted",
        ((STATE, "        s.turned == 0,\n        later.is_open", "        later.is_open"),),
        rule="WAIT-5",
        takes="a preemption that leaves budget, seats and blocks for somebody who waits",
        needs="PREEMPT-2",
    ),
    Mutant(
        "budget-off-by-one",
        "a request may exceed the token budget by one",
        ((STATE, "least(cut(s, n), later.left(s))", "least(cut(s, n), later.left(s) + 1)"),),
        rule="RUN-1",
        takes="a step whose token budget is spent to the last token while somebody wants more",
    ),
    Mutant(
        "hit-without-reference",
        "a hit block gains no reference",
        ((POOL, "    s.ref[b] += 1\n    _append", "    _append"),),
        rule="POOL-11",
        takes="a block shared by two requests, and what becomes of it when one of them leaves",
    ),
    Mutant(
        "hit-covers-last-token",
        "a lookup may cover every token, and nothing is left to compute",
        ((STATE, "s.nhit >= s.k.full(s.ntok[r] - 1)", "s.nhit >= s.k.full(s.ntok[r])"),),
        rule="HASH-11",
        takes="a prompt of whole blocks that are all cached",
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
        rule="QUEUE-10",
        takes="a block given out while several that were used before are free",
    ),
    Mutant(
        "preempt-oldest",
        "under FCFS the oldest running request is the victim",
        (
            (STATE, "both(inside, i == s.nr - 1)", "both(inside, i == 0)"),
            (STATE, "        return s.nr - 1\n", "        return 0\n"),
        ),
        rule="PREEMPT-1",
        takes="a preemption under FCFS while several run",
        needs="PREEMPT-2",
    ),
    Mutant(
        "victim-to-back",
        "a preempted request queues behind those that wait",
        ((QUEUES, "    s.rank[v] = s.lo\n    s.lo -= 1", "    s.rank[v] = s.hi\n    s.hi += 1"),),
        rule="PREEMPT-4",
        takes="a preemption under FCFS while somebody waits",
        needs="PREEMPT-4",
    ),
    Mutant(
        "withdrawn-tokens-lost",
        "the tokens of a victim already scheduled do not return to the budget",
        ((QUEUES, "    s.budget += s.sched[v]\n", ""),),
        rule="PREEMPT-2",
        takes="a victim that was already scheduled in the step, and a budget that then matters",
        needs="PREEMPT-2",
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
        rule="PREEMPT-3",
        takes="under a profile that withdraws hashes, a victim that was already scheduled in the "
        "step, and a prompt like its own",
    ),
    Mutant(
        "victim-freed-late",
        "the blocks of a preempted request are not counted as free before the retry",
        ((POOL, "    s.nfree += 1\n    s.freeset", "    s.freeset"),),
        rule="POOL-12",
        takes="a request that leaves",
    ),
    Mutant(
        "reserve-ignored",
        "a long prompt is admitted although its whole sequence does not fit",
        ((GATE, "    if not s.k.reserve:\n", "    if True:\n"),),
        rule="WAIT-3",
        takes="a prompt at the head of the queue that fits in its first chunk and not as a whole",
    ),
    Mutant(
        "hits-not-charged",
        "hits that stand in the free queue are not counted as blocks to take",
        (("gate.py", "lacking(s, r, slots(s)) + s.nevict + ", "lacking(s, r, slots(s)) + "),),
        rule="ALLOC-1",
        takes="an admission whose hits stand in the free queue while blocks are short",
    ),
    Mutant(
        "half-block-cached",
        "a block is cached before it is full",
        (
            (
                "slots.py",
                "    return cached_of(s, t, filled(s, s.k.owner(t)))",
                "    return needed(s, t, filled(s, s.k.owner(t)))",
            ),
        ),
        rule="HASH-12",
        takes="a prefix that ends inside a block and is asked for again",
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
        rule="HASH-10",
        takes="two blocks of one content, and a third request that hits one of them",
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
        rule="UPD-4",
        takes="a request whose last token allowed is an end token",
    ),
    Mutant(
        "worker-not-told",
        "a running request's new blocks are not reported",
        (
            (
                OUTPUT,
                "blocks(s, r, known=not resumed)",
                "(blocks(s, r) if resumed else ())",
            ),
        ),
        rule="OUT-2",
        takes="a running request that gets another block",
    ),
    Mutant(
        "placeholder-stays",
        "a token that has come is still counted as in flight",
        ((STEPS, "s.ph[r] -= 1\n            s.base", "s.base"),),
        rule="UPD-3",
        takes="asynchronous scheduling",
    ),
    Mutant(
        "stale-token-taken",
        "a reset forgets the tokens in flight of the requests that it preempts",
        ((QUEUES, "s.drop[r] = gone + (s.drop[r] if", "s.drop[r] = 0 * (s.drop[r] if"),),
        rule="LIFE-3",
        takes="asynchronous scheduling, and a reset of running requests with outputs in flight",
        needs="LIFE-3",
    ),
    Mutant(
        "placeholder-cached",
        "a block is cached while its last token is in flight",
        ((FLIGHT, "    return s.comp[r] - placeholders(s, r)\n", "    return s.comp[r]\n"),),
        rule="HASH-20",
        takes="asynchronous scheduling, and a request that fills a block",
    ),
    Mutant(
        "one-step-too-many",
        "a request is scheduled again although its last token is in flight",
        (
            (
                STATE,
                "        return both(s.ph[r] > 0, s.ntok[r] + s.ph[r] >= end)\n",
                "        return False\n",
            ),
        ),
        rule="RUN-25",
        takes="asynchronous scheduling, two steps in flight, and a request that ends by length",
    ),
    Mutant(
        "token-for-a-namesake",
        "an output goes to whoever has the id by then",
        (
            (
                FLIGHT,
                "        return both(goes_on(s, r), s.arr[r] == s.born[i])\n",
                "        return goes_on(s, r)\n",
            ),
        ),
        rule="UPD-16",
        takes="an abort with the output in flight, and the id used again before it comes",
    ),
)
BY_NAME = {m.name: m for m in MUTANTS}
