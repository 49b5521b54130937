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
from nullblock.conformance.lines.extent import check_followed, extent
from nullblock.conformance.scenario_format import Config, Group
from nullblock.reference.mamba import MambaManager
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics

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
    "any place will do": (MambaSplit, "_keeps_inner", "self._inner_alignment)", "1)"),
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


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"enable_prefix_caching": False}, "no prefix caching"),
        ({"num_spec_tokens": 4, "spec_method": "draft_model"}, "drafts that fill a block"),
        ({"num_spec_tokens": 1, "spec_method": "eagle"}, "an EAGLE-like method"),
    ],
)
def test_what_they_are_not_followed_beside_is_named(settings: Any, named: str) -> None:
    """In each line that has them, and in no other; nor is anything without them."""
    states = Group(type="mamba", mamba_cache_mode="align", prefill_checkpoint_alignment=1)
    for semantics in (NORMATIVE, VLLM_0_32_0):
        with pytest.raises(OutOfScope, match=named):
            check_followed(Config(block_size=4, groups=[states], **settings), semantics)
    check_followed(Config(block_size=4, groups=[states], **settings), VLLM_0_22_1)
    without = Group(type="mamba", mamba_cache_mode="align")
    check_followed(Config(block_size=4, groups=[without], **settings), VLLM_0_32_0)
    three = {"num_spec_tokens": 3, "spec_method": "draft_model"}
    check_followed(Config(block_size=4, groups=[states], **three), VLLM_0_32_0)


def test_blocks_of_another_size_than_the_cache_are_not_followed() -> None:
    """Of Mamba layers, where there is prefix caching, though all groups have that size."""
    groups = [Group(type=kind, block_size=6) for kind in ("full", "mamba")]
    with pytest.raises(OutOfScope, match="blocks or hashes of another size"):
        check_followed(Config(block_size=4, groups=groups), VLLM_0_32_0)
    for size, caches in ((6, True), (4, False)):
        cache = {"block_size": size, "enable_prefix_caching": caches}
        check_followed(Config(groups=groups, **cache), VLLM_0_32_0)
