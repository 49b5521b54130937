"""Where vllm-0.22.1 goes wrong with the gate of windows, blocks of sinks, and Mamba layers.

`nullblock.spec.departures` makes departures of these.
"""

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import Template
from nullblock.spec.facts import Config, Group

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""

STATE_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "gate-forgets-hits",
        "gate_asks_behind_hits",
        "none known",
        "GROUP-37",
        "a request that hits a long prefix behind a window is admitted with no room for its rest",
        Config(5, 1, 2, 3, 8, groups=(Group(sliding_window=2),)),
        (
            Template("a", (A, A, A), 1),
            Template("b", (A, A, A, B, B, B), 1),
            Template("c", (B,), 2),
        ),
        "hit-behind-nulls",
        {"every_rule": True},
    ),
    DraftDefect(
        "sinks-are-held",
        "sinks_are_nobodys",
        "53696",
        "GROUP-35",
        "the blocks of a sink count as held, so that the prefix cache is never reset",
        Config(4, 2, 4, 3, 8, groups=(Group(sink_len=2),)),
        (Template("a", (A, A), 1),),
        "reset",
        {"resets": (False,)},
    ),
    DraftDefect(
        "less-than-a-block",
        "short_chunks_go_on",
        "45414",
        "RUN-20",
        "a step has no room for a block of Mamba layers, so that a prefill computes nothing",
        Config(4, 4, 3, 3, 8, groups=(Group(mamba=True, aligned=True),), mamba_split=4),
        (Template("a", (A,) * 5, 1),),
        "budget-cut stop-length",
        {"depth": 1},
    ),
    DraftDefect(
        "state-without-its-past",
        "states_stay_within",
        "43559, 45614, 46281",
        "GROUP-15",
        "under an EAGLE-like method a state is hit that stands a block behind what full attention "
        "hits, and that block is taken for computed",
        Config(
            *(10, 2, 5, 2, 8),
            groups=(Group(eagle=True), Group(eagle=True, mamba=True)),
            eagle_group=True,
        ),
        (Template("a", (A,) * 5, 1),),
        "free-hit",
        {"depth": 1, "every_rule": True},
    ),
    DraftDefect(
        "chunk-that-nobody-looked-for",
        "chunks_asked_again",
        "none known",
        "GROUP-11",
        "a hit ends before a block in which a chunk ends, and the blocks of that chunk, which its "
        "next token sees, were not looked for",
        Config(
            *(8, 2, 5, 2, 8),
            groups=(Group(attention_chunk_size=3), Group()),
            scheduler_reserve_full_isl=False,
        ),
        (Template("a", (A,) * 5, 1), Template("b", (B,), 1)),
        "free-hit",
        {"depth": 1, "every_rule": True},
    ),
    DraftDefect(
        "second-kind-reaches-on",
        "hits_cut_alike",
        "none known",
        "GROUP-15",
        "of two kinds of full attention the second keeps hits beyond what all kinds agree on, and "
        "writes to blocks that it shares",
        Config(
            *(12, 2, 5, 2, 8),
            groups=(Group(sliding_window=2), Group(), Group(sink_len=2)),
            scheduler_reserve_full_isl=False,
        ),
        (Template("a", (A,) * 5, 1), Template("b", (B,), 1)),
        "free-hit",
        {"depth": 1, "every_rule": True},
    ),
)
