"""The scopes with several KV-cache groups: small, like the others."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config, Group

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
FULL = Group()
WINDOW = Group(sliding_window=3)
CHUNKS = Group(attention_chunk_size=4)


def _config(blocks: int, budget: int, *groups: Group, **more: object) -> Config:
    """`blocks` usable blocks of two tokens: the null block comes on top."""
    settings = {"max_num_seqs": 2, "max_model_len": 8, "scheduler_reserve_full_isl": False, **more}
    return Config(blocks + 1, 2, budget, groups=groups, **settings)  # type: ignore[arg-type]


_TWO = (Template("a", (A, A, A, A, B), 2), Template("b", (A, A, A), 3))
HYBRID = Scope(
    "hybrid",
    "full attention and a sliding window: hits on which both agree, preemption",
    _config(8, 4, FULL, WINDOW),
    (*_TWO, Template("c", (C, C), 2)),
    frozenset(
        "outlived-freed outlived-freed-in-vain hit-behind-nulls nulls-dropped free-hit "
        "shared-hit same-step-hit hash-evicted preempts-another resume-with-hit".split()
    ),
)
HYBRID_CHUNKS = Scope(
    "hybrid-chunks",
    "chunked local attention before full attention",
    _config(6, 3, CHUNKS, FULL),
    (Template("a", (A, A, A), 4), Template("b", (A, A, A, A, B), 2)),
    frozenset("outlived-freed nulls-dropped free-hit".split()),
    aborts=False,
)
SPLIT_CHUNKS = Scope(
    "split-chunks",
    "chunks that end within a block before full attention: a hit may end where one does not",
    _config(7, 5, Group(attention_chunk_size=3), FULL),
    (Template("a", (A, A, A, A, A), 1), Template("b", (B,), 1)),
    frozenset("outlived-freed nulls-dropped free-hit hash-evicted".split()),
    aborts=False,
)
HYBRID_AHEAD = Scope(
    "hybrid-ahead",
    "two groups, scheduling ahead: cached when tokens come, given back while steps read",
    _config(7, 4, WINDOW, FULL, async_scheduling=True),
    (Template("a", (A, A, A, A), 2), Template("b", (A, A, A), 3)),
    frozenset("outlived-freed runs-ahead cached-at-output".split()),
    halves=True,
    depth=2,
    aborts=False,
)
RULES_HYBRID = Scope(
    "rules-hybrid",
    "the invariants after every single rule, two groups",
    _config(8, 4, FULL, WINDOW),
    (*_TWO, Template("c", (C, C), 2)),
    frozenset("outlived-freed hit-behind-nulls nulls-dropped preempts-another".split()),
    aborts=False,
    resets=(True,),
    every_rule=True,
)
HYBRID_SIZES = Scope(
    "hybrid-sizes",
    "blocks of two sizes: hits of whole blocks of both, blocks that no hit can need",
    _config(6, 4, Group(block_size=4), WINDOW),
    (
        Template("a", (A, A, A, A, B), 2),
        Template("b", (A, A, A, A, B, B), 2),
        Template("c", (C, C), 4),
    ),
    frozenset("left-out hit-of-sizes outlived-freed nulls-dropped preempts-another".split()),
    resets=(True,),
)
RULES_HYBRID_SIZES = Scope(
    "rules-hybrid-sizes",
    "the invariants after every single rule, blocks of two sizes",
    _config(6, 3, Group(block_size=4), WINDOW),
    (Template("a", (A, A, A, A, B), 2), Template("c", (C, C), 4)),
    frozenset("left-out hit-of-sizes outlived-freed".split()),
    every_rule=True,
)
HYBRID_EAGLE = Scope(
    "hybrid-eagle",
    "two groups, and drafts of an EAGLE-like method whose layers are of the window's kind",
    _config(
        *(8, 4, FULL, Group(sliding_window=3, eagle=True)),
        num_spec_tokens=2,
        spec_method="eagle",
    ),
    (Template("a", (A, A, A, A), 3, misses=2), Template("b", (A, A, A, A, A), 1)),
    frozenset("looks-ahead drafts-taken free-hit outlived-freed nulls-dropped".split()),
    resets=(True,),
)
HYBRID_KINDS = Scope(
    "hybrid-kinds",
    "three kinds of layers, one of an EAGLE-like method: they are asked in rounds",
    _config(
        *(12, 4, FULL, Group(sliding_window=3, eagle=True), Group(sliding_window=5)),
        max_num_seqs=1,
    ),
    (
        Template("a", (A, A, A, A, A, A, B), 1),
        Template("b", (A, A, A, A, A, A, B), 1),
        Template("c", (B, B), 1),
    ),
    frozenset("free-hit hit-behind-nulls hash-evicted outlived-freed nulls-dropped".split()),
    aborts=False,
    resets=(True,),
)
HYBRID_EAGLE_SIZES = Scope(
    "hybrid-eagle-sizes",
    "blocks of two sizes, the small ones of an EAGLE-like method's window: short runs of them",
    _config(
        *(13, 8, Group(block_size=4), Group(sliding_window=6, eagle=True)),
        max_model_len=14,
    ),
    (
        Template("a", (A, A, A, A, A, A, A, A, B), 1),
        Template("b", (A, A, A, A, A, A, A, A, A, A, A, A, B), 1),
    ),
    frozenset("cut-twice free-hit hit-of-sizes hash-evicted outlived-freed".split()),
    resets=(True,),
)
HYBRID_SCOPES = (
    HYBRID_EAGLE,
    HYBRID_KINDS,
    HYBRID_EAGLE_SIZES,
    HYBRID,
    HYBRID_SIZES,
    RULES_HYBRID_SIZES,
    HYBRID_CHUNKS,
    SPLIT_CHUNKS,
    HYBRID_AHEAD,
    RULES_HYBRID,
)
