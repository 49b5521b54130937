"""Requests that hold what they have loaded, and wait for the rest."""

from nullblock.spec.explorer.actions import Received
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.zoo import ZOO

A, B = 1001, 1002
CROWDED = Scope(
    "two-loads",
    "two prompts of which a block each is loaded, in a pool that has no room for the rest of one",
    Config(5, 2, 8, 3, 8, connector=True),
    (
        Template("a", (A,) * 7, 1, remote=2, loads_over_steps=True),
        Template("b", (B,) * 5, 1, remote=2, loads_over_steps=True),
    ),
    frozenset(),
    halves=True,
    aborts=False,
)


def test_a_head_that_lacks_what_others_hold_keeps_everybody_waiting() -> None:
    """Entry B51 of the zoo is a defect of this specification too, in both profiles: when both
    loads have ended nobody is ever admitted. Where that is repaired, the entry is to say so.
    """
    (entry,) = (e for e in ZOO if e.id == "B51")
    assert "the specification does so too" in entry.note
    for semantics in (NORMATIVE, VLLM_0_22_1):
        found = explore(CROWDED, semantics, claims=frozenset({"RUN-20"})).counterexample
        assert found is not None and found.breaks == "RUN-20"
        assert {a.id for a in found.actions if isinstance(a, Received)} == {"a", "b"}
