"""The canaries of what is beside the core: asked only of traces that have it."""

from msgspec import UnsetType

from nullblock.conformance.strength.mutants import Mutant
from nullblock.conformance.strength.remote_mutants import REMOTE_MUTANTS
from nullblock.conformance.trace.records import Header

READINGS, HYBRID, WAITING, ENCODER = "groups.py", "hybrid.py", "waiting.py", "encoder.py"
RULES_OF_ENCODER, SESSIONS, TURNS = "rules/encoder.py", "sessions.py", "turns.py"

WINDOW_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "window-one-longer",
        "a token of layers with a window sees one token more",
        (
            (
                READINGS,
                "    unseen = tokens - window(s, t) + 1\n",
                "    unseen = tokens - window(s, t)\n",
            ),
        ),
        rule="GROUP-1",
        takes="layers with a window, and a token that is the first not to see a block",
    ),
    Mutant(
        "nothing-given-back",
        "blocks that no token sees any more are kept until their request ends",
        (
            (
                READINGS,
                "    return is_behind(s, t, i)\n",
                "    return False\n",
            ),
        ),
        rule="GROUP-6",
        takes="a request that is longer than a window, or than a chunk",
    ),
    Mutant(
        "gate-asks-for-all",
        "the gate asks for all blocks of a prompt, whatever layers see of it",
        (
            (
                READINGS,
                "    lacks = least(blocks, cap(s, t)) - s.tlen[t] - hits\n",
                "    lacks = blocks - s.tlen[t] - hits\n",
            ),
        ),
        rule="GROUP-3",
        takes="a prompt that is longer than a window and a step, and a pool that is nearly full",
    ),
)
"""Where layers see a part of the past."""
HYBRID_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "first-group-decides",
        "a prefix hit is what the first group accepts",
        (
            (
                HYBRID,
                "of_all(s, r, lambda t: accepts(s, t, n * unit, 0))",
                "accepts(s, s.k.table(r, 0), n * unit, 0)",
            ),
            (
                "longest_hits.py",  # which asks windows first
                "[t for t in tables if self.window_of(t)]",
                "[]",
            ),
        ),
        rule="GROUP-14",
        takes="a prefix of which groups accept more or less",
    ),
)
"""Where there are several groups."""
ADAPTER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "one-adapter-more",
        "one adapter more than max_loras may run",
        (
            (
                WAITING,
                "    return both(number != 0, num_adapters(s) >= s.k.max_loras, neg(shared))\n",
                "    return both(number != 0, num_adapters(s) > s.k.max_loras, neg(shared))\n",
            ),
        ),
        rule="WAIT-42",
        takes="a request that waits for its adapter's turn",
    ),
)
"""Where adapters are capped."""
ENCODER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "items-never-shared",
        "what is in the encoder cache is computed again",
        ((ENCODER, "    return is_in_cache(s, looked_at(s))\n", "    return False\n"),),
        rule="ENC-7",
        takes="two requests with one item, one after the other",
    ),
    Mutant(
        "budget-without-end",
        "a step computes as many embeddings as it likes",
        (
            (
                ENCODER,
                "    return size(s, s.planner, s.pitem) > s.pbudget - to_compute(s)\n",
                "    return False\n",
            ),
        ),
        rule="ENC-2",
        takes="more embeddings in a step than it may compute",
    ),
    Mutant(
        "newest-evicted-first",
        "of items that nobody refers to the one let go of last is evicted first",
        (
            (
                RULES_OF_ENCODER,
                "            s.unused[n] = s.uback\n",
                "            s.unused[n] = -s.uback\n",
            ),
        ),
        rule="ENC-14",
        takes="an eviction from the encoder cache with two items to choose from",
    ),
)
"""Where there is an encoder."""
SESSION_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "session-keeps-nothing",
        "a session that goes on keeps none of its last turn's output",
        ((SESSIONS, "    return ite(n < 0, 0, n)\n", "    return prompt(s, r)\n"),),
        rule="SESS-3",
        takes="a session that takes a chunk behind an output that was computed",
    ),
    Mutant(
        "turns-count-all-outputs",
        "a turn ends at the first limit of all outputs since the session began",
        (
            (
                SESSIONS,
                "    return n + s.lost[r] if s.k.sessions else n\n",
                "    return s.ntok[r] - s.k.prompt_len(r)\n",
            ),
        ),
        rule="SESS-1",
        takes="a session in its second turn",
    ),
    Mutant(
        "end-overtakes-chunks",
        "a session ends where it stops once its end has arrived, whatever it has not taken",
        (
            (
                TURNS,
                "    return can_take(s, r) if has_chunk(s, r) else s.ended[r] == 0\n",
                "    return s.ended[r] == 0\n",
            ),
        ),
        rule="SESS-12",
        takes="a session whose end arrives while it has chunks to take",
    ),
    Mutant(
        "session-looks-itself-up",
        "a session that has taken a chunk is looked up like a new request",
        (
            (
                SESSIONS,
                "    return both(waits, s.nhit == 0, s.comp[r] != 0)\n",
                "    return False\n",
            ),
        ),
        rule="SESS-9",
        takes="a session that is scheduled again",
    ),
)
"""Where there are sessions, of which no header tells."""
FEATURE_MUTANTS = (
    *(WINDOW_MUTANTS + HYBRID_MUTANTS + ADAPTER_MUTANTS + ENCODER_MUTANTS),
    *(SESSION_MUTANTS + REMOTE_MUTANTS),
)


def of_features(header: Header) -> tuple[Mutant, ...]:
    """Those that a trace with this header is asked about."""
    config = header.config
    found: tuple[Mutant, ...] = ()
    if any(group.is_windowed for group in config.groups):
        found += WINDOW_MUTANTS
    if len(config.groups) > 1:
        found += HYBRID_MUTANTS
    if config.max_loras:
        found += ADAPTER_MUTANTS
    if not isinstance(config.connector, UnsetType):
        found += REMOTE_MUTANTS
    return found + (() if isinstance(config.encoder, UnsetType) else ENCODER_MUTANTS)
