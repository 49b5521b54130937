"""What an example of a decision switch is, and where its scenario lies."""

from dataclasses import dataclass
from pathlib import Path

from nullblock.conformance.engine import Feature

VECTORS = Path(__file__).parents[1] / "vectors"
SECOND = VECTORS / "vllm-0.32.0"
"""What the later release prints."""


@dataclass(frozen=True, slots=True)
class Example:
    """A switch at work."""

    scenario: str
    """A golden scenario whose lines are other with the switch flipped."""
    upstream: str
    """Where vLLM does it, or the report about it."""
    why: str
    """Why the normative value is what it is."""
    feature: Feature | None = None
    """What it decides about. A line that is not followed in it has no value to tell."""
