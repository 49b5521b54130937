"""Encoder inputs used the way vLLM's own code uses them: managers, budgets, placeholders."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nullblock.reference.encoder_cache_manager import (
    EncoderCacheManager,
    EncoderDecoderCacheManager,
    compute_mm_encoder_budget,
)
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.multimodal.encoder_budget import MultiModalBudget, make_encoder_cache
from nullblock.reference.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from nullblock.reference.pooling_params import PoolingParams
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams


class Mask(list[bool]):
    """A mask as a tensor gives it."""

    def tolist(self) -> list[bool]:
        """Its values."""
        return list(self)


def request_of(name: str, *items: tuple[str, int]) -> Request:
    """A request with items of those identifiers and sizes, side by side."""
    features, offset = [], 0
    for identifier, size in items:
        place = PlaceholderRange(offset, size)
        features.append(MultiModalFeatureSpec(None, "image", identifier, place))
        offset += size
    tokens = [0] * (offset + 1)
    return Request(name, tokens, SamplingParams(max_tokens=1), None, mm_features=features)


def test_a_mask_says_which_positions_are_embeddings() -> None:
    """Counts, and ranges of embeddings for ranges of positions, from a list or a tensor."""
    for mask in ([False, True, False, True, True], Mask([False, True, False, True, True])):
        place = PlaceholderRange(2, 5, mask)
        assert place.get_num_embeds() == 3
        assert place.get_embeds_indices_in_range(3, 5) == (1, 3)
        assert place.get_embeds_indices_in_range(0, 1) == (0, 0)
    assert PlaceholderRange(2, 5).get_embeds_indices_in_range(3, 5) == (3, 5)
    assert PlaceholderRange(2, 0, []).get_num_embeds() == 0


def test_an_item_is_kept_until_room_is_needed() -> None:
    """Held, let go, taken up again; the oldest that nobody holds is evicted, and told once."""
    cache = EncoderCacheManager(6)
    first, second = request_of("r1", ("x", 3)), request_of("r2", ("x", 3), ("y", 2), ("z", 4))
    assert cache.can_allocate(first, 0, 10, 0)
    cache.allocate(first, 0)
    assert cache.check_and_update_cache(second, 0) and cache.cached["x"] == {"r1", "r2"}
    cache.free(first)
    assert (cache.num_free_slots, cache.num_freeable_slots) == (3, 3)
    cache.free_encoder_input(second, 0)
    assert list(cache.freeable) == ["x"] and cache.num_freeable_slots == 6
    assert cache.can_allocate(second, 1, 10, 0) and not cache.freed
    cache.allocate(second, 1)
    assert cache.can_allocate(second, 2, 10, 0)
    assert cache.get_freed_mm_hashes() == ["x"] and cache.get_freed_mm_hashes() == []
    assert cache.get_cached_input_ids(second) == {1}
    assert not cache.can_allocate(second, 2, 3, 0), "no budget"
    assert not cache.can_allocate(second, 2, 10, 1), "no room"


def test_what_does_not_fit_is_not_taken() -> None:
    """Room has to be asked for first."""
    cache = EncoderCacheManager(2)
    with pytest.raises(AssertionError, match="no room"):
        cache.allocate(request_of("r", ("x", 3)), 0)


def test_an_encoder_decoder_model_shares_nothing() -> None:
    """An item is never found, and workers forget it one step later."""
    cache = EncoderDecoderCacheManager(4)
    request = request_of("r", ("x", 3))
    cache.allocate(request, 0)
    assert not cache.check_and_update_cache(request, 0) and not cache.can_allocate(
        request, 0, 9, 0
    )
    assert cache.get_freed_mm_hashes() == [] and cache.get_freed_mm_hashes() == ["x"]
    cache.free(request)
    assert cache.num_free_slots == 4
    cache.reset()
    assert cache.get_freed_mm_hashes() == []


def settings(**changed: Any) -> SimpleNamespace:
    """The part of ``scheduler_config`` that budgets are made from."""
    fields = {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 16}
    fields |= {"disable_chunked_mm_input": False, "max_num_batched_tokens": 8}
    return SimpleNamespace(**fields | changed)


def test_budgets_have_room_for_the_largest_item() -> None:
    """Without modalities there are none; an item that must not be cut has to fit a step."""
    assert compute_mm_encoder_budget(settings(), {}) == (0, 0)
    assert compute_mm_encoder_budget(settings(), {"a": 3, "b": 12}) == (12, 16)
    with pytest.raises(ValueError, match="Chunked MM input disabled"):
        compute_mm_encoder_budget(settings(disable_chunked_mm_input=True), {"a": 9})


MODELS: list[dict[str, Any]] = [
    {"supported": ["image"], "allowed": {"image": 2}, "sizes": {"image": 5}, "embeds": False},
    {"supported": ["a", "b"], "allowed": {"a": 0, "b": 1}, "sizes": {"a": 9, "b": 4}},
    {"supported": ["a", "b"], "allowed": {"a": 0}, "sizes": {"a": 9, "b": 4}, "embeds": True},
    {"supported": ["a", "b"], "allowed": {"a": 1, "b": 1}, "sizes": {"b": 20}, "embeds": True},
    {"supported": [], "allowed": {}, "sizes": {}, "embeds": True},
    {"supported": ["a"], "allowed": {}, "sizes": {"a": 5}, "embeds": False},
]
"""What a processor's ``info`` says; ``embeds``: whether embeddings may be sent, or no answer."""

MAKE_MODEL = """
def make_model(model, settings):
    from types import SimpleNamespace
    info = SimpleNamespace(
        supported_mm_limits=dict.fromkeys(model["supported"]),
        allowed_mm_limits=model["allowed"],
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {
            name: size for name, size in model["sizes"].items() if name in mm_counts
        },
    )
    registry = SimpleNamespace(
        supports_multimodal_inputs=lambda model_config: True,
        processor_only_cache_from_config=lambda vllm_config: None,
        create_processor=lambda model_config, cache: SimpleNamespace(info=info),
    )
    takes = model.get("embeds")
    mm_config = None if takes is None else SimpleNamespace(enable_mm_embeds=takes)
    config = SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=64,
            is_encoder_decoder=False,
            get_multimodal_config=lambda: mm_config,
        ),
        scheduler_config=settings,
    )
    return config, registry
"""
ASK_THE_REAL_ONE = """
import json, sys
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
import torchless
torchless.install()
from vllm.multimodal.encoder_budget import MultiModalBudget
models, fields = json.load(sys.stdin)
for model in models:
    settings = SimpleNamespace(max_num_seqs=4, enable_chunked_prefill=True, **fields)
    made = MultiModalBudget(*make_model(model, settings))
    print(made.encoder_compute_budget, made.encoder_cache_size, sorted(made.mm_max_toks_per_item))
"""


def budgets(model: dict[str, Any]) -> str:
    """What the reference makes of a model."""
    names: dict[str, Any] = {}
    exec(MAKE_MODEL, names)
    made = MultiModalBudget(*names["make_model"](model, settings()))
    sizes = sorted(made.mm_max_toks_per_item)
    return f"{made.encoder_compute_budget} {made.encoder_cache_size} {sizes}"


@pytest.mark.oracle
def test_budgets_are_those_of_the_real_engine(oracle_python: Path) -> None:
    """For models of one modality, of several, limited to none, and with embeddings sent."""
    done = subprocess.run(
        [oracle_python, "-c", MAKE_MODEL + ASK_THE_REAL_ONE, Path(__file__).parents[1] / "oracle"],
        input=json.dumps([MODELS, vars(settings())]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [budgets(model) for model in MODELS]


def test_a_model_with_an_encoder_needs_its_registry() -> None:
    """Without one it is refused by name, unless it takes no such inputs at all."""
    names: dict[str, Any] = {}
    exec(MAKE_MODEL, names)
    config, registry = names["make_model"](MODELS[0], settings())
    config.model_config.is_multimodal_model = True
    with pytest.raises(UnsupportedFeature, match="multimodal model without"):
        make_encoder_cache(config, None)
    cache, budget = make_encoder_cache(config, registry)
    assert (cache.cache_size, budget) == (16, 8)
    registry.supports_multimodal_inputs = lambda model_config: False
    assert make_encoder_cache(config, registry)[1] == 0
    config.model_config.is_encoder_decoder = True
    with pytest.raises(UnsupportedFeature, match="encoder-decoder model without"):
        make_encoder_cache(config, registry)


class Rows(list[int]):
    """Embeddings of one byte each, as far as a request and its hashes look at them."""


def test_a_prompt_is_tokens_or_embeddings_or_both_in_step() -> None:
    """Lengths that differ, and a prompt of nothing, are refused; pooling needs no max_tokens."""
    params, pooling = SamplingParams(max_tokens=3), PoolingParams(skip_reading_prefix_cache=True)
    embeds = Rows([1, 2, 3])
    assert Request("r", None, params, None, prompt_embeds=embeds).num_tokens == 3
    assert Request("r", [7, 8, 9], params, None, prompt_embeds=embeds).all_token_ids[0] == 7
    for tokens, given in (([1], embeds), (None, None)):
        with pytest.raises(ValueError, match="prompt needs"):
            Request("r", tokens, params, None, prompt_embeds=given)
    pooled = Request("r", [1], None, pooling)
    assert pooled.max_tokens == 1 and pooled.skip_reading_prefix_cache
