"""How much of what an engine does it does on a line."""

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.spec.profiles import Semantics


def extent(features: frozenset[Feature], semantics: Semantics) -> frozenset[Feature]:
    """Those of an engine's features that it follows a line in.

    A line after vllm-0.22.1 is followed for one full-attention group and nothing beside it: of
    drafts, windows, other groups, encoder inputs and whatever else requests wait for it is not
    written down what that release does.
    """
    return features & CORE_FEATURES if semantics.resumes_await_output else features
