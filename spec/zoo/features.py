"""Defects of windows, of several KV-cache groups and of encoder inputs."""

from nullblock.spec.zoo.entry import Entry

FEATURES: tuple[Entry, ...] = (
    Entry(
        "B14",
        "44409, 43884",
        "coordinator",
        "one group takes new blocks before another has touched its hits, and takes those",
        specimen="new-blocks-before-hits",
        changes="POOL-10, POOL-11",
        falls="TABLE-2",
    ),
    Entry(
        "B19",
        "45856, 41282",
        "coordinator",
        "fewer blocks are foreseen than are taken, and the engine dies half-way",
        changes="ALLOC-1",
        falls="guard",
        mutant="hybrid.lacking.condition-4",
    ),
    Entry(
        "B33",
        "46281, 40860",
        "coordinator",
        "the hit is said to be a block longer than the list of its blocks",
        mutant="rules.pool.adopt.skip-5",
        changes="POOL-11",
        falls="TABLE-1",
    ),
    Entry(
        "B39",
        "47728, 47282, vllm-ascend 13501",
        "window",
        "blocks behind the window are freed by what is only expected to be computed",
        changes="GROUP-6",
        falls="GROUP-8",
        departure="window-passes-with-drafts",
    ),
    Entry(
        "B89",
        "31857",
        "encoder",
        "whoever waits takes encoder room and then gets no blocks",
        changes="ENC-14",
        falls="guard",
        mutant="machine.encoder.plan_to_enter.skip-2",
    ),
    Entry(
        "B91",
        "38551, 45347, 39544",
        "encoder",
        "an encoder's output is freed by what is only expected, and then needed",
        changes="ENC-14",
        mutant="encoder.has_passed.conjunct-2",
        note="here whatever is computed, at the next output",
    ),
)
