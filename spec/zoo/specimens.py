"""Defects of the zoo that take more than one of the systematic mutants: a few edits each."""

import ast
from dataclasses import dataclass

from nullblock.spec.mutation.generate import source

Edit = tuple[str, str, str]
"""File below `spec/`, the text to change, what it becomes."""
POOL, QUEUES, STATE = "rules/pool.py", "rules/queues.py", "state.py"
SLOTS = "slots.py"
LOOKUP, BLOCKS, MODEL = "rules/lookup.py", "machine/blocks.py", "explorer/model.py"


class Stale(Exception):
    """The text that a specimen changes is no longer in the specification."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A defect, and the edits that plant it."""

    name: str
    what: str
    functions: frozenset[str]
    edits: tuple[Edit, ...]

    @property
    def id(self) -> str:
        """What `nullblock mutate` calls it."""
        return f"zoo.{self.name}"

    def texts(self) -> dict[str, str]:
        """The files that are other with the defect in them. Raises Stale."""
        found: dict[str, str] = {}
        for file, old, new in self.edits:
            text = found.get(file, source(file).text)
            if old not in text:
                raise Stale(f"{self.id}: {file} no longer contains {old!r}")
            found[file] = text.replace(old, new, 1)
        for file, text in found.items():
            ast.parse(text, file)
        return found


SPECIMENS: tuple[Specimen, ...] = (
    Specimen(
        "hash-collides",
        "a block's hash tells how many tokens it has, and not which",
        frozenset({"want"}),
        ((MODEL, "key = (parent, (tokens, ", "key = (parent, (len(tokens), "),),
    ),
    Specimen(
        "new-blocks-before-hits",
        "new blocks are taken before the hits are touched, which may be the very same",
        frozenset({"allocate_slots", "push_new", "adopt"}),
        (
            (
                POOL,
                '    require(s.na == s.nhit, "hits are adopted before new blocks are taken")\n',
                "",
            ),
            (
                BLOCKS,
                "        if is_padding(s):\n",
                "        if s.tlen[t] + s.nhit - s.na < room(s, t):\n"
                "            push_new(s, t, lru(s))\n"
                "        if is_padding(s):\n",
            ),
        ),
    ),
    Specimen(
        "parents-first",
        "a table's blocks queue in the order of the table: parents are evicted before children",
        frozenset({"_enqueue"}),
        (
            (
                POOL,
                "        s.stamp[b] = s.back\n        s.back += 1\n",
                "        s.stamp[b] = s.front\n        s.front -= 1\n",
            ),
        ),
    ),
    Specimen(
        "last-block-never-cached",
        "the block that holds a request's last token is not cached",
        frozenset({"filled"}),
        (
            (
                SLOTS,
                "    return least(s.goal, s.ntok[r])\n",
                "    return least(s.goal, s.ntok[r] - 1)\n",
            ),
        ),
    ),
    Specimen(
        "proposed-drafts-count",
        "as many tokens are left out of what is cached as drafts are proposed, scheduled or not",
        frozenset({"filled"}),
        (
            (
                SLOTS,
                "    return least(s.goal, s.ntok[r])\n",
                "    return least(s.goal - s.spec[r], s.ntok[r])\n",
            ),
        ),
    ),
    Specimen(
        "drafts-not-charged",
        "drafts are granted beside the budget",
        frozenset({"_grant"}),
        ((LOOKUP, "s.budget -= s.asked\n", "s.budget -= s.asked - s.drafted[r]\n"),),
    ),
    Specimen(
        "hit-resets-block",
        "a hit on a free block takes its hash away",
        frozenset({"adopt"}),
        (
            (
                POOL,
                "        _dequeue(s, b)\n        s.nevict -= 1",
                "        _dequeue(s, b)\n        _unhash(s, b)\n        s.nevict -= 1",
            ),
        ),
    ),
    Specimen(
        "victim-to-back",
        "a preempted request queues behind those that wait",
        frozenset({"requeue"}),
        ((QUEUES, "    s.rank[v] = s.lo\n    s.lo -= 1", "    s.rank[v] = s.hi\n    s.hi += 1"),),
    ),
    Specimen(
        "arrivals-first",
        "a request that arrives queues before those that wait",
        frozenset({"add_request"}),
        ((QUEUES, "    s.rank[r] = s.hi\n    s.hi += 1", "    s.rank[r] = s.lo\n    s.lo -= 1"),),
    ),
    Specimen(
        "hits-forgotten",
        "an admitted request gets the tokens that hits cover as well",
        frozenset({"tokens_to_admit"}),
        ((STATE, "chunk(s, to_enter(s, r))", "chunk(s, s.ntok[r])"),),
    ),
    Specimen(
        "preemption-forgets-flight",
        "a preempted request forgets its outputs in flight",
        frozenset({"requeue"}),
        (
            (
                QUEUES,
                "    s.comp[v] = 0\n    stop_l",
                "    s.comp[v] = 0\n    s.ph[v] = 0\n    stop_l",
            ),
        ),
    ),
)
BY_NAME = {s.name: s for s in SPECIMENS}
