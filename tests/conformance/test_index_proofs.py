"""Where kernels read and write is proved, of the very text that they are compiled from."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install 'nullblock[gpu]'")

from nullblock.conformance.adapters.kernel_index import expressions
from nullblock.conformance.index_proofs.__main__ import CLAIMS, main
from nullblock.conformance.index_proofs.claim import Claim, Problem, decide
from nullblock.conformance.index_proofs.places import slot_in_pool
from nullblock.conformance.index_proofs.tables import HAS_ROOM, IN_TABLE, WRITER
from nullblock.spec.prover.claims import proved_invariants

BY_NAME = {claim.name: claim for claim in CLAIMS}
WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "block_index": ("slot-tells-its-place", lambda n, size: (n + 1) // size),
    "block_offset": ("slot-tells-its-place", lambda n, size: n // size),
    "slot_index": ("slot-in-pool", lambda block, offset, size: (block + 1) * size + offset),
    "row_entry": ("entries-differ", lambda row, stride, column: row * (stride - 1) + column),
    "cache_entry": (
        "head-major",
        lambda block, offset, head, column, blocks, slots, heads: (
            block * blocks + offset * heads + head * slots + column
        ),
    ),
    "head_entry": (
        "heads-in-rows",
        lambda token, head, tokens, heads: token * heads + head * tokens,
    ),
    "first_tile": ("tiles-are-of-one-request", lambda start, request, width: start // width),
    "token_position": ("writes-in-table", lambda computed, token, start: computed + token),
    "blocks_for": ("table-has-column", lambda tokens, size: tokens // size),
    "ring_place": ("ring-places-differ", lambda position, capacity: position % (capacity + 1)),
    "tile_entry": ("tiles-cover", lambda tile, width, lane: tile * width + width - lane),
}
"""For each expression a wrong one, and a claim that must not be proved of it."""


def test_every_claim_is_proved(capsys: pytest.CaptureFixture[str]) -> None:
    """The command proves all claims, each of premises that can be met, and each refuted without
    those that it is said to need. Every expression of the kernels is in a claim; what is said of
    tables rests on invariants that are proved."""
    assert main(["--json"]) == 0
    proofs = json.loads(capsys.readouterr().out)
    assert [proof["name"] for proof in proofs] == [*BY_NAME]
    assert {proof["verdict"] for proof in proofs} == {"proved"}
    assert {name for proof in proofs for name in proof["expressions"]} == set(expressions())
    (writes,) = (proof for proof in proofs if proof["name"] == "writes-differ")
    assert {WRITER, IN_TABLE} <= set(writes["without"]) <= set(writes["rests_on"])
    assert {WRITER, IN_TABLE, HAS_ROOM} <= proved_invariants()


@pytest.mark.parametrize("name", expressions())
def test_a_wrong_expression_is_not_proved(name: str) -> None:
    """With an expression that is wrong in one place, a claim about it fails."""
    claim, wrong = WRONG[name]
    proof = decide(BY_NAME[claim], {**expressions(), name: wrong})
    assert proof.verdict in ("refuted", "unknown"), proof


def test_empty_claims_are_told() -> None:
    """A claim whose premises contradict each other proves nothing, and neither does a premise that
    is said to be needed and is not."""

    def stated(change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
        def state(a: Any) -> Problem:
            problem = slot_in_pool(a)
            premises = change(dict(problem.premises))
            return Problem(premises, problem.goal, tuple(premises), problem.definitions)

        return decide(Claim("c", "c", state), expressions()).verdict

    assert stated(lambda premises: premises | {"impossible": False}) == "vacuous"
    assert stated(lambda premises: premises | {"idle": True}) == "idle premise"
