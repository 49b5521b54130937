"""Defects of layers that the specification does not have: listed, so that none is forgotten when a
layer is added. Where a layer that there is can slip in the same way, that is shown.
"""

from nullblock.spec.zoo.entry import Entry

SIZES = "blocks of several sizes"
LATE = "blocks that are freed late"
MAMBA = "mamba state"
REMOTE = "KV connectors"
OFFLOAD = "offloading"
SESSIONS = "resumable sessions"
WORKER = "the worker"
RADIX = "a radix tree"
TIERS = "tiers of memory"
EXTERNAL = "keys of external caches"
CONSUMER = "a consumer of KV events"

BEYOND: tuple[Entry, ...] = (
    Entry(
        "B03",
        "36708",
        "block hash",
        "an image's place within a block is not in its key",
        missing="multimodal inputs",
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
        "B05",
        "42119",
        "external key",
        "embeddings given as prompts all hash as the same placeholder",
        specimen="hash-collides",
        falls="HASH-18",
        changes="HASH-1",
        missing="prompt embeddings",
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
        "B09",
        "kvcached 451, 446",
        "block hash",
        "groups with blocks of different sizes are hashed with one size",
        missing=SIZES,
    ),
    Entry(
        "B10",
        "kvcached 398",
        "block pool",
        "the null block is whichever the allocator gives first, workers take it to be block 0",
        missing="a null block that is chosen",
        note="here block 0 is no member of the pool",
    ),
    Entry(
        "B12",
        "29387",
        "mamba",
        "a second request of the step hits a state that the first is only about to write",
        missing=MAMBA,
    ),
    Entry(
        "B13",
        "57580, 56525",
        "mamba",
        "a checkpoint is published as it is scheduled, and its producer is withdrawn",
        departure="uncomputed-hit",
        changes="PREEMPT-3",
        falls="HASH-6",
        missing=MAMBA,
    ),
    Entry(
        "B20",
        "48489",
        "block pool",
        "blocks are freed late, and no longer each table's last one first",
        specimen="parents-first",
        changes="POOL-12",
        falls="HASH-4",
        missing=LATE,
    ),
    Entry(
        "B21",
        "42948",
        "coordinator",
        "groups of very different block sizes share a pool, and "
        "one's evictions undo the hits of all",
        missing=SIZES,
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
        missing="a confirmed report",
        note="TABLE-11 is what it would break",
    ),
    Entry(
        "B34",
        "48375, 57128, 43559",
        "mamba",
        "a state that holds rejected drafts is reused",
        missing=MAMBA,
    ),
    Entry(
        "B35",
        "54076, 55600",
        "mamba",
        "the least block size of all groups is taken for the state's own",
        missing=MAMBA,
    ),
    Entry(
        "B36",
        "57605",
        "mamba",
        "lookahead tokens are dropped, and a stale table entry is written through",
        missing=MAMBA,
    ),
    Entry(
        "B37",
        "46453",
        "coordinator",
        "groups disagree on a hit once external tokens count",
        missing=REMOTE,
    ),
    Entry(
        "B38",
        "47574, 48481",
        "worker",
        "a page that is used again is read before it is written, or zeroed while it is loaded",
        missing=WORKER,
    ),
    Entry(
        "B41",
        "vllm-ascend 13330",
        "coordinator",
        "a hit's length leaves out the compression: no hit at all",
        missing=SIZES,
    ),
    Entry(
        "B42",
        "vllm-ascend 16270",
        "configuration",
        "a group of tiny blocks makes hits so coarse that short prompts have none",
        missing=SIZES,
    ),
    Entry(
        "B51",
        "45387, 45388, 40968",
        "connector",
        "two requests hold what they have loaded, neither fits whole, nobody runs",
        missing=REMOTE,
    ),
    Entry(
        "B53",
        "45414",
        "mamba",
        "rounding down to whole blocks leaves nothing to schedule, for ever",
        missing=MAMBA,
    ),
    Entry(
        "B55",
        "vllm-ascend 16315, 49675",
        "preemption",
        "blocks come back late, so that one preemption leads to the next until nobody runs",
        mutant="rules.pool._enqueue.skip-5",
        changes="POOL-12",
        falls="QUEUE-4",
        missing="deferred frees",
    ),
    Entry(
        "B57",
        "49439, 52693",
        "sessions",
        "sessions that wait to go on hold every block",
        missing=SESSIONS,
    ),
    Entry(
        "B58",
        "49377, 49449, 53156",
        "sessions",
        "a token is cut off and the hashes are not: blocks are known by what they no longer hold",
        missing=SESSIONS,
    ),
)
