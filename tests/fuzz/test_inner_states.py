"""States that Mamba layers keep within a step: what the later line decides otherwise for them is
reached by random scenarios, and a reference that gets it wrong parts from the rules.
"""

from dataclasses import replace
from typing import Any

import pytest
from fuzz.inner_states import with_inner
from fuzz.lockstep import difference, features, lines_of
from fuzz.source_defects import planted

from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.reference.mamba import MambaManager
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.spec.profiles import VLLM_0_32_0, Semantics

SCENARIOS = 60
NONE_KEPT = replace(VLLM_0_32_0, inner_states_kept=False)
DEFECTS = {
    "none is kept": (
        MambaManager,
        "_inner_state",
        "        return index\n",
        "        return None\n",
    ),
    "a state for drafts is none that gives way": (
        MambaManager,
        "_inner_state",
        "index if is_beside and",
        "None if is_beside and",
    ),
    "it needs no block": (MambaManager, "get_num_blocks_to_allocate", "(inner is not None)", "0"),
    "a null stands in its place": (MambaManager, "allocate_new_blocks", "- num_inner\n", "\n"),
    "a prefill stops for it": (
        MambaSplit,
        "_mamba_block_aligned_split",
        "0 if keeps else",
        "",
    ),
    "any place will do": (MambaSplit, "_keeps_inner", "size, alignment)", "size, 1)"),
}
"""Lines of the reference, and what is wrong with them."""


def drawn(number: int) -> dict[str, Any]:
    """A scenario of what our engines follow the line in."""
    return with_inner(f"kept {number}", 30, extent(features(("spec", "reference")), VLLM_0_32_0))


def parts(engine: str, document: dict[str, Any], semantics: Semantics = VLLM_0_32_0) -> str:
    """Where an engine parts from the rules of vllm-0.32.0; nowhere if that is not followed."""
    try:
        ours = lines_of("spec", document, VLLM_0_32_0)
        return difference(ours, lines_of(engine, document, semantics), bytewise=False)
    except OutOfScope:
        return ""


def test_keeping_none_is_told_apart() -> None:
    """Some scenario has such a state, in specification and reference."""
    for engine in ("spec", "reference"):
        seeds = range(SCENARIOS)
        assert any(parts(engine, drawn(n), NONE_KEPT) for n in seeds)


def test_the_reference_as_it_stands_is_not() -> None:
    """No scenario shows a difference."""
    assert not [n for n in range(SCENARIOS) if parts("reference", drawn(n))]


@pytest.mark.parametrize("what", DEFECTS)
def test_a_wrong_reference_is_noticed(what: str) -> None:
    """Some scenario shows it."""
    with planted(*DEFECTS[what]):
        assert any(parts("reference", drawn(n)) for n in range(SCENARIOS))
