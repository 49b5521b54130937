"""Where vllm-0.22.1 goes wrong with a KV connector.

`nullblock.spec.departures` makes departures of these.

Of loads that hold what others lack (`loads-hold-the-pool`) there are two ways out. A load may
begin only where the pool can hold all that is promised to others besides, as vllm-0.32.0 has it
(REMOTE-40). That binds loads alone: whoever needs no load, and is tried first, lacks what was
loaded for others all the same, unless these are tried before whoever is more urgent (WAIT-60);
and it keeps loads from beginning that would have found room. Or blocks come back: that is
normative (REMOTE-46). Who runs takes blocks from whoever comes last of those that run; where
nobody else runs, and no load or send is under way that may free some, the last of those who wait
with loaded blocks gives them back, until the one who lacks them has its slots. So nobody loses a
load as long as anybody else runs, or may soon find room. It ends: each time one fewer holds
blocks, and at last the one who lacks them finds all the pool, which it fits (LIFE-2). And it does
not come round: what the remote side holds of a request is offered once (REMOTE-1), so that
whoever has given back holds no blocks again until it runs. A session is let alone: its blocks are
its past, which no remote side has offered.
"""

from dataclasses import replace

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import Template
from nullblock.spec.explorer.search import GUARD
from nullblock.spec.facts import Config, Group

A, B = 1001, 1002
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""
_CONFIG = Config(5, 2, 4, 3, 8, scheduler_reserve_full_isl=False, connector=True)

REMOTE_DEFECTS: tuple[DraftDefect, ...] = (
    DraftDefect(
        "lacks-and-goes-on",
        "failed_loads_start_over",
        "49250",
        "HASH-5",
        "blocks that were not loaded stay in the prefix cache, and who shares them goes on with "
        "what is not there",
        _CONFIG,
        (Template("a", (A, A, A), 2, remote=2), Template("b", (A, A, A), 2)),
        "load-within-a-step starts-over",
        {"lossy": True},
    ),
    DraftDefect(
        "cached-before-its-end",
        "last_block_cached_last",
        "none known",
        "HASH-5",
        "of a prompt that was loaded as a whole the last block is cached before its last token is "
        "computed again, which writes to it",
        replace(_CONFIG, max_loras=1),
        (
            Template("a", (A, A), 2, adapter=1, remote=2, loads_over_steps=True),
            Template("b", (A,), 2, adapter=2),
        ),
        "load-begins load-ended no-place",
    ),
    DraftDefect(
        "nothing-left-to-compute",
        "failed_loads_leave_a_token",
        "37827",
        GUARD,
        "two requests wait for loads, and share a block that was not loaded: one computes it "
        "again, the other has no token to compute, and the step that would admit it raises",
        _CONFIG,
        (
            Template("a", (A, A, A), 1, remote=2),
            Template("b", (A, A, B, B), 1, remote=4, loads_over_steps=True),
            Template("c", (A, A, B, B), 1, remote=4, loads_over_steps=True),
        ),
        "load-within-a-step load-begins load-ended starts-over",
        {"lossy": True},
        ("failed_loads_start_over", "withdraw_uncaches"),
    ),
    DraftDefect(
        "window-behind-the-prompt",
        "last_token_sees_back",
        "none known",
        "GROUP-8",
        "of a prompt that is loaded as a whole the last token, which is computed again, lacks a "
        "block that its window shows: the null block stands there",
        replace(_CONFIG, groups=(Group(sliding_window=3),)),
        (Template("a", (A,) * 4, 1, remote=4, loads_over_steps=True),),
        "load-begins load-ended left-behind",
        {"every_rule": True},
    ),
    DraftDefect(
        "hit-given-away",
        "hits_precede_loads",
        "33775",
        "GROUP-17",
        "a group takes a block to load into that a later group hits, so that one block is in "
        "tables of two groups",
        Config(
            *(7, 2, 5, 3, 8),
            scheduler_reserve_full_isl=False,
            connector=True,
            groups=(Group(), Group(sliding_window=3)),
        ),
        (Template("a", (A,) * 4, 1, remote=3), Template("b", (A, A), 1)),
        "load-within-a-step loads-apart free-hit",
    ),
    DraftDefect(
        "zeroed-while-loaded",
        "loads_not_zeroed",
        "48481",
        "REMOTE-58",
        "beside Mamba layers workers are told to zero blocks into which a load writes meanwhile: "
        "what has come is wiped, and the request goes on from zeros",
        Config(
            *(6, 2, 4, 3, 8),
            scheduler_reserve_full_isl=False,
            connector=True,
            groups=(Group(), Group(mamba=True)),
        ),
        (Template("a", (A, A, A), 1, remote=2, loads_over_steps=True),),
        "load-begins load-ended zeroed",
        {"every_rule": True},
    ),
    DraftDefect(
        "loads-hold-the-pool",
        "loaded_blocks_come_back",
        "45387",
        "RUN-20",
        "two requests wait with loaded blocks, each lacks what the other holds, and nobody runs",
        replace(_CONFIG, num_blocks=3),
        (
            Template("a", (A, A, A), 1, remote=2, loads_over_steps=True),
            Template("b", (B, B, B), 1, remote=2, loads_over_steps=True),
        ),
        "load-begins load-ended reclaims-for-head",
    ),
    DraftDefect(
        "sent-after-its-end",
        "transfers_end_apart",
        "46240",
        "REMOTE-38",
        "blocks that are still to be sent are let go of when the load has ended that their "
        "request did not wait for",
        _CONFIG,
        (Template("a", (A, A), 1, remote=2, loads_over_steps=True, delays_free=True),),
        "kept kept-for-both",
        {"aborts": True},
    ),
)
"""In the order of a request's way through the engine."""
