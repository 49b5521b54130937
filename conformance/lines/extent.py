"""How much of what an engine does it does on a line."""

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.spec.profiles import Semantics

FOLLOWED = CORE_FEATURES | {
    *(Feature.drafts, Feature.lora_cap, Feature.structured_output),
    *(Feature.encoder_inputs, Feature.windows, Feature.hybrid, Feature.block_sizes),
}
"""What is written down of a line after vllm-0.22.1."""


def extent(features: frozenset[Feature], semantics: Semantics) -> frozenset[Feature]:
    """Those of an engine's features that it follows a line in.

    Of whatever is not among FOLLOWED it is not written down what a line after vllm-0.22.1 does.
    """
    return features & FOLLOWED if semantics.resumes_await_output else features
