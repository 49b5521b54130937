"""Where vllm-0.22.1 goes wrong with the blocks of sinks, and with Mamba layers.

`nullblock.spec.departures` makes departures of these.
"""

from nullblock.spec.draft_departures import DraftDefect
from nullblock.spec.explorer.model import Template
from nullblock.spec.facts import Config, Group

A = 1001
"""A prompt token. The tokens that are sampled in a replay are below 1000."""

STATE_DEFECTS: tuple[DraftDefect, ...] = (
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
)
