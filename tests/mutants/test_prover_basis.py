"""What the prover said of a mutant is out of date with what it was asked about, and no sooner."""

import ast
from collections.abc import Iterator

import pytest

from nullblock.spec.kernel import RULES
from nullblock.spec.mutation import proving
from nullblock.spec.mutation.generate import Source, source

CACHED = (proving.uses, proving._written, proving._stated, proving.basis)
EVERYBODY = frozenset(RULES)
EDITS: dict[str, tuple[str, str, str, frozenset[str]]] = {
    "a rule": ("rules/queues.py", "s.npre[v] += 1", "s.npre[v] += 2", frozenset({"requeue"})),
    "what two rules use": (
        *("rules/lookup.py", "s.blocked = 1", "s.blocked = 2"),
        frozenset({"hold_back", "give_up"}),
    ),
    "what statements use": ("state.py", "s.rank[r] != 0", "s.rank[r] > 0", EVERYBODY),
    "a statement": ("invariants/pool.py", "s.ref[b] >= 0", "s.ref[b] > -1", EVERYBODY),
    "the machine": ("machine/blocks.py", "s.tlen[t] == 0", "s.tlen[t] <= 0", frozenset()),
    "a comment": ("rules/pool.py", '"""Blocks:', '"""All blocks:', frozenset()),
}
"""A file, the text in it, what it becomes, and the rules whose results are then stale."""


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Nothing that was read before or after counts."""
    for f in CACHED:
        f.cache_clear()
    yield
    for f in CACHED:
        f.cache_clear()


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_makes_stale_what_it_concerns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of the rules that an edit changes, or that use what it changes, are stale, and no
    others; an edit of a statement, or of what statements use, concerns all.
    """
    file, old, new, stale = EDITS[name]
    before = {rule: proving.basis((rule,)) for rule in RULES}
    text = source(file).text
    assert text.count(old) >= 1
    other = text.replace(old, new, 1)
    edited = Source(file, other, ast.parse(other))
    monkeypatch.setattr(proving, "source", lambda f: edited if f == file else source(f))
    for f in CACHED:
        f.cache_clear()
    after = {rule: proving.basis((rule,)) for rule in RULES}
    assert {rule for rule in RULES if after[rule] != before[rule]} == stale
