"""Groups of a scenario in the classes of several releases."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from nullblock.conformance.adapters.shape_groups import kv_cache_groups
from nullblock.conformance.scenario_format import Config, Group
from nullblock.reference import kv_cache_interface as ours


@dataclass(frozen=True)
class MambaSpec:
    """Mamba layers as vLLM 0.22.1 has them."""

    block_size: int
    shapes: Any
    dtypes: Any
    mamba_cache_mode: str
    num_speculative_blocks: int


FIRST = SimpleNamespace(MambaSpec=MambaSpec, KVCacheGroupSpec=ours.KVCacheGroupSpec)


@pytest.mark.parametrize(("mode", "told"), [("align", (1, 4)), ("all", (0, None))])
def test_states_within_steps_are_told_to_layers_that_have_them(
    mode: Any, told: tuple[int, int | None]
) -> None:
    """In the mode align; layers of a release without words for them are built all the same."""
    group = Group(type="mamba", mamba_cache_mode=mode, prefill_checkpoint_alignment=4)
    config = Config(groups=[group])
    (made,) = kv_cache_groups(ours, "float", config)
    spec = made.kv_cache_spec
    assert (spec.num_prefill_checkpoint_blocks, spec.prefill_checkpoint_alignment) == told
    (first,) = kv_cache_groups(FIRST, "float", config)
    assert first.kv_cache_spec.mamba_cache_mode == mode
