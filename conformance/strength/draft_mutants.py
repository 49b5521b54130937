"""The canaries of speculative decoding: asked only of traces that have drafts."""

from nullblock.conformance.strength.mutants import STATE, Mutant

DRAFTS, READINGS, TAKING = "rules/drafts.py", "drafts.py", "machine/drafts.py"
FLIGHT = "flight.py"
SLOTS = "    return ite(either(s.phase == RUN_PHASE, goes_on), s.k.lookahead, 0)\n"

DRAFT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "rejected-stays-computed",
        "what was computed of a rejected draft counts on",
        (
            (DRAFTS, "        s.comp[r] -= ite(s.old[r] == 0, rejected, 0)\n", ""),
            (DRAFTS, "        s.comp[r] -= ite(s.comp[r] > 0, rejected, 0)\n", ""),
        ),
        rule="DRAFT-8",
        takes="a draft that is rejected",
    ),
    Mutant(
        "rejected-stays-in-flight",
        "a rejected draft still counts as a token in flight",
        (
            (DRAFTS, "            s.pd[r] -= rejected\n", ""),
            (DRAFTS, "        s.pd[r] -= ite(placeholders(s, r) > 0, rejected, 0)\n", ""),
        ),
        rule="DRAFT-8",
        takes="asynchronous scheduling, and a draft that is rejected",
    ),
    Mutant(
        "no-slots-for-drafts",
        "nobody gets slots for the drafts that will be proposed",
        ((READINGS, SLOTS, "    return 0\n"),),
        rule="DRAFT-4",
        takes="a method whose drafts need slots, and a request that comes near the end of a block",
    ),
    Mutant(
        "slots-for-drafts-at-once",
        "a request gets slots for drafts as it is admitted",
        ((READINGS, SLOTS, "    return s.k.lookahead\n"),),
        rule="DRAFT-4",
        takes="a method whose drafts need slots, and a prompt that ends near the end of a block",
    ),
    Mutant(
        "last-hit-kept",
        "with an EAGLE-like method the last hit is used as it is",
        ((STATE, "    if not s.k.eagle:\n        return False\n", "    return False\n"),),
        rule="DRAFT-11",
        takes="an EAGLE-like method, and a prefix hit",
    ),
    Mutant(
        "drafts-not-cut",
        "all drafts are verified, however few tokens are granted",
        ((READINGS, "ite(n > 0, least(s.spec[r], n), 0)", "ite(n > 0, s.spec[r], 0)"),),
        rule="DRAFT-3",
        takes="drafts that the budget, the threshold or max_model_len cuts",
    ),
    Mutant(
        "read-past-the-end",
        "a request that stops on a draft takes what is behind it",
        (
            (TAKING, "        if check_stop(s, r) == CONTINUE:\n", "        if True:\n"),
            (DRAFTS, '    require(check_stop(s, r) == CONTINUE, "it does not stop")\n', ""),
        ),
        rule="DRAFT-10",
        takes="a request that ends on a draft with others behind it",
    ),
    Mutant(
        "drafts-for-a-chunk",
        "drafts are taken for a request whose prompt is not computed",
        ((DRAFTS, "        s.spec[r] = ite(s.chunk[r] == 1, 0, n)\n", "        s.spec[r] = n\n"),),
        rule="DRAFT-7",
        takes="drafts proposed, under vllm-0.22.1, for a request whose last step was a chunk",
    ),
    Mutant(
        "draft-cached",
        "a block is cached though drafts are in it that may be rejected",
        (
            (
                FLIGHT,
                "    return s.comp[r] - placeholders(s, r)\n",
                "    return s.comp[r] - s.ph[r]\n",
            ),
            (
                "slots.py",
                "    return least(s.goal, s.ntok[r])\n",
                "    return s.goal\n",
            ),
        ),
        rule="HASH-12",
        takes="drafts that fill a block, one of them rejected, and the block asked for again",
    ),
)
