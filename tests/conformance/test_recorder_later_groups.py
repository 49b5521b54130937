"""What a recorder has no words for, of the groups of layers that vLLM 0.32.0 has."""

from collections.abc import Iterator
from types import SimpleNamespace as Fake
from typing import Any

from nullblock.conformance.adapters.vllm import groups


class SlidingWindowSpec(Fake):
    """A group's layers, as 0.32.0 describes them."""


def of_groups(layers: list[Any], caching: bool = True, **others: Any) -> Iterator[str]:
    """What the recorder has no words for, of groups of these layers."""
    role = others.pop("role", "default")
    made = [Fake(kv_cache_spec=spec, role=role) for spec in layers]
    cache = Fake(kv_cache_groups=made, **others)
    drops = others.pop("use_eagle_block_drop", False)
    manager = Fake(enable_caching=caching, block_pool=Fake(hash_block_size=4))
    return groups.unsaid(
        Fake(kv_cache_config=cache, kv_cache_manager=manager, use_eagle_block_drop=drops)
    )


def window(**fields: Any) -> SlidingWindowSpec:
    """A group of windows."""
    return SlidingWindowSpec(**{"sliding_window": 6, "block_size": 4} | fields)


def test_what_later_groups_have_is_named() -> None:
    """0.32.0 may keep fewer hits than there are, or more blocks than a window sees."""
    assert list(of_groups([window(), window()], prefix_cache_retention_interval=None)) == []
    sparse = {"prefix_cache_retention_interval": 0}
    assert list(of_groups([window()], **sparse)) == ["prefix_cache_retention_interval"]
    assert list(of_groups([window()], caching=False, **sparse)) == []
    assert list(of_groups([Fake(block_size=4)], **sparse)) == []
    assert list(of_groups([window(extra_retained_tokens=2)])) == ["extra_retained_tokens"]
    assert list(of_groups([window(prefix_cacheable=False)])) == ["bounded_replay"]
    assert list(of_groups([window()], role="hisparse_source")) == ["kv_cache_role"]
    assert list(of_groups([window(), window(head_size=2)])) == ["equal_groups_apart"]
    assert list(of_groups([window(), window(sliding_window=7)])) == []


def test_states_kept_within_steps_are_named_where_no_word_tells_them() -> None:
    """With an EAGLE-like method, without prefix caching, and where hashes are of smaller units."""
    kept = {"mamba_cache_mode": "align", "num_prefill_checkpoint_blocks": 1}
    one = window(**kept, prefill_checkpoint_alignment=1)
    never = window(**kept, prefill_checkpoint_alignment=None)
    named = ["num_prefill_checkpoint_blocks"]
    assert list(of_groups([one])) == [] == list(of_groups([never]))
    assert list(of_groups([window(**vars(one) | {"mamba_cache_mode": "all"})], False)) == []
    assert list(of_groups([one], use_eagle_block_drop=True)) == named
    assert list(of_groups([one], caching=False)) == named
    assert list(of_groups([window(**vars(one) | {"block_size": 8})])) == named
    assert list(of_groups([one, never]))[:1] == named
