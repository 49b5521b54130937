"""Defects of which the specification lacks the layer, or something of it: listed, so that none is
forgotten when that is added. Where a layer that there is can slip in the same way, that is shown.
"""

from nullblock.spec.zoo.entry import Entry

OFFLOAD = "offloading"
WORKER = "the worker"
RADIX = "a radix tree"
TIERS = "tiers of memory"
EXTERNAL = "keys of external caches"

BEYOND: tuple[Entry, ...] = (
    Entry(
        "B03",
        "36708",
        "block hash",
        "an image's place within a block is not in its key",
        specimen="hash-collides",
        changes="HASH-1",
        falls="HASH-18",
        missing="another reading of an item's place than that of the key",
        note="the scopes read what identifies a block by the same function: a key "
        "without the place would go unseen there; the specimen leaves out the "
        "tokens",
    ),
    Entry(
        "B04",
        "LMCache 4086, 56643",
        "external key",
        "an image's hash is cut to 16 bits; salt and adapter are left out of the key",
        specimen="hash-collides",
        falls="HASH-18",
        changes="HASH-1",
        missing=EXTERNAL,
    ),
    Entry(
        "B06",
        "54342, 51748",
        "external key",
        "the key is the tokens alone: no adapter, no image, no salt",
        departure="one-spelling",
        falls="HASH-18",
        changes="HASH-1",
        missing=EXTERNAL,
    ),
    Entry(
        "B10",
        "kvcached 398",
        "block pool",
        "the null block is whichever the allocator gives first, workers take it to be block 0",
        mutant="groups.is_padding.negate-1",
        changes="GROUP-5",
        falls="GROUP-8",
        missing="a null block that is chosen",
        note="here it is no member of the pool; the slip takes a real block for it, as "
        "those workers did",
    ),
    Entry(
        "B20",
        "48489",
        "block pool",
        "blocks of several groups are freed late as one list, no longer group by group",
        specimen="parents-first",
        changes="POOL-12, REMOTE-54",
        falls="HASH-4",
        missing="a statement of the order between tables",
        note="vllm-0.32.0 has it, and so has its line: blocks that are put off come back as "
        "one, the last table's first (REMOTE-54), and those that are freed at once "
        "table by table; each table's last one still goes first, which is all that "
        "HASH-4 asks, and what the slip is of",
    ),
    Entry(
        "B21",
        "42948",
        "coordinator",
        "groups of very different block sizes share a pool, and "
        "one's evictions undo the hits of all",
        missing="a statement of how often a prefix is hit",
        note="the specification does so too: all groups share one queue, and a hit is "
        "what all of them accept (GROUP-14)",
    ),
    Entry(
        "B25",
        "TensorRT-LLM 12834, 11879",
        "block pool",
        "after a swap a block is put in the wrong free list, and a count goes below zero",
        mutant="rules.pool._enqueue.skip-5",
        changes="POOL-12",
        falls="QUEUE-4",
        missing=TIERS,
    ),
    Entry(
        "B26",
        "TensorRT-LLM 8830, 8813",
        "block pool",
        "reusing an offloaded block takes the contents of another one",
        missing=TIERS,
    ),
    Entry(
        "B27",
        "TensorRT-LLM 17926, 17145",
        "radix tree",
        "publishing a block evicts, and what is evicted is what is being published",
        missing=RADIX,
    ),
    Entry(
        "B30",
        "37076",
        "block pool",
        "a block is said to be used after it was freed, under pressure",
        mutant="rules.pool.release.condition-1",
        changes="POOL-12",
        falls="POOL-3",
        missing="a confirmed report",
        note="the slip frees a block that others hold; of steps in flight TABLE-11 speaks",
    ),
    Entry(
        "B36",
        "57605",
        "mamba",
        "lookahead tokens are dropped, and a stale table entry is written through",
        mutant="rules.aligned.move_state.skip-2",
        changes="GROUP-32",
        falls="TABLE-2",
        missing=WORKER,
        note="the slip leaves a stale entry; an aligned table has no places for drafts "
        "to come here either, and what is written through it is the worker's",
    ),
    Entry(
        "B37",
        "46453",
        "coordinator",
        "groups disagree on a hit once external tokens count",
        mutant="hybrid.agreed.anybody-1",
        changes="GROUP-14",
        falls="GROUP-15",
        missing="a slip that shows where tokens are loaded alone",
        note="the slip makes groups disagree on a hit without any",
    ),
    Entry(
        "B38",
        "47574, 48481",
        "worker",
        "a page that is used again is read before it is written, or zeroed while it is loaded",
        departure="zeroed-while-loaded",
        changes="REMOTE-57",
        falls="REMOTE-58",
        missing=WORKER,
        note="which blocks are zeroed is decided here; when they are read is the worker's",
    ),
    Entry(
        "B42",
        "vllm-ascend 16270",
        "configuration",
        "a group of tiny blocks makes hits so coarse that short prompts have none",
        missing="a statement of how often a prefix is hit",
        note="the specification does so too: a hit is a multiple of the sizes of all "
        "blocks (GROUP-14)",
    ),
)
