"""The canaries of KV connectors: asked only of traces that have one."""

from nullblock.conformance.strength.mutants import Mutant

READINGS, LOADS = "remote.py", "rules/loads.py"

REMOTE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "loading-blocks-given-away",
        "a request that is aborted while it is loaded gives its blocks back at once",
        (
            (
                READINGS,
                "    return either(is_loading(s, r), s.k.delays_free(r))\n",
                "    return s.k.delays_free(r)\n",
            ),
        ),
        rule="REMOTE-4",
        takes="the end of a request that waits for a load",
    ),
    Mutant(
        "sent-blocks-given-away",
        "whatever the connector says, blocks are given back at the end of their request",
        (
            (
                READINGS,
                "    return either(is_loading(s, r), s.k.delays_free(r))\n",
                "    return is_loading(s, r)\n",
            ),
        ),
        rule="REMOTE-4",
        takes="a request whose blocks are kept until they are sent",
    ),
    Mutant(
        "cached-before-they-come",
        "blocks are cached when their load begins",
        (
            (
                READINGS,
                "    return both(s.k.caching, neg(loads_later(s, r)))\n",
                "    return s.k.caching\n",
            ),
        ),
        rule="REMOTE-12",
        takes="a load over several steps of whole blocks",
    ),
    Mutant(
        "only-whole-blocks-loaded",
        "of what is loaded the last block is computed, unless it is full",
        (
            (
                LOADS,
                "        s.ext = offered(s, r)\n",
                "        s.ext = offered(s, r) // s.k.block_size * s.k.block_size\n",
            ),
        ),
        rule="REMOTE-1",
        takes="a load that ends within a block",
    ),
    Mutant(
        "failed-blocks-trusted",
        "whoever runs goes on with blocks that were not loaded",
        (
            (
                READINGS,
                "    return both(inside, neg(s.k.mem(s.seen, s.run[i])), is_short(s, s.run[i]))\n",
                "    return both(inside, s.k.mem(s.seen, s.run[i]))\n",
            ),
        ),
        rule="REMOTE-24",
        takes="blocks that were not loaded, of a request that runs",
    ),
    Mutant(
        "failed-load-goes-on",
        "whoever waits for a load goes on with all of it, though blocks were not loaded",
        (
            (
                LOADS,
                "    s.comp[r] = s.left\n    if s.stage[r] != KEPT:\n",
                "    if s.stage[r] != KEPT:\n",
            ),
        ),
        rule="REMOTE-26",
        takes="blocks that were not loaded, of a request that waits for its load and goes on",
    ),
)
"""Where there is a KV connector."""
