"""Defects of windows, of several KV-cache groups and sizes, of Mamba layers, of encoder inputs."""

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
        mutant="hybrid.lacks.condition-4",
        changes="ALLOC-1",
        falls="guard",
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
        mutant="encoder.has_passed.conjunct-4",
        changes="ENC-14",
        note="here whatever is computed, at the next output: what is given up too soon is "
        "looked for again with the next chunk, and computed again if it was evicted "
        "meanwhile, so that ENC-24 holds and no statement falls; a scope of sessions no "
        "longer reaches what it is for, and the lockstep notices",
    ),
    Entry(
        "B05",
        "42119",
        "external key",
        "embeddings given as prompts all hash as the same placeholder",
        specimen="hash-collides",
        changes="HASH-23",
        falls="HASH-18",
        note="no mutant changes what a key is made of: the specimen leaves out the "
        "tokens, and so nearly what the embeddings are here",
    ),
    Entry(
        "B09",
        "kvcached 451, 446",
        "block hash",
        "groups with blocks of different sizes are hashed with one size",
        mutant="sizes.full_of.condition-2",
        changes="GROUP-18",
        falls="GROUP-16",
        note="one size for all decides here how many blocks of each group are hashed; "
        "what a hash is made of is given",
    ),
    Entry(
        "B12",
        "29387",
        "mamba",
        "a second request of the step hits a state that the first is only about to write",
        mutant="hybrid.awaits_state.condition-1",
        changes="GROUP-25",
        note="no statement forbids it: what a scope is for no longer comes about, that "
        "somebody waits for a state",
    ),
    Entry(
        "B13",
        "57580, 56525",
        "mamba",
        "a checkpoint is published as it is scheduled, and its producer is withdrawn",
        departure="uncomputed-hit",
        changes="PREEMPT-3",
        falls="HASH-6",
        note="one text withdraws the hashes of layers of every kind; the scope has full attention",
    ),
    Entry(
        "B34",
        "48375, 57128, 43559",
        "mamba",
        "a state that holds rejected drafts is reused",
        departure="state-without-its-past",
        changes="GROUP-36",
        falls="GROUP-15",
        note="of 43559; that a state may hold drafts which are taken back is GROUP-24, "
        "where the lockstep notices mutants",
    ),
    Entry(
        "B35",
        "54076, 55600",
        "mamba",
        "the least block size of all groups is taken for the state's own",
        mutant="sizes.blocks_of.condition-2",
        changes="GROUP-23",
        falls="GROUP-16",
        note="the text is one for all layers, and the table in the scope is a window's; "
        "the size at whose ends steps end (GROUP-29) is given",
    ),
    Entry(
        "B41",
        "vllm-ascend 13330",
        "coordinator",
        "a hit's length leaves out the compression: no hit at all",
        mutant="hybrid.agreed.condition-1",
        changes="GROUP-14",
        note="no statement asks for hits: the scopes no longer reach any; a compressed "
        "group is here one of larger blocks",
    ),
    Entry(
        "B53",
        "45414",
        "mamba",
        "rounding down to whole blocks leaves nothing to schedule, for ever",
        departure="less-than-a-block",
        changes="GROUP-29",
        falls="RUN-20",
    ),
    Entry(
        "B93",
        "32789",
        "encoder",
        "one step tells the worker to keep and to free one thing",
        mutant="machine.output.evicted_items.condition-4",
        changes="OUT-15",
        note="in normative and 0.22.1 it is told so, and workers forget before they compute; a "
        "line after leaves out what is in the cache again, and with the slip does not",
    ),
)
