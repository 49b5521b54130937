"""Which encoder inputs a step over some tokens of a request would need."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class EncoderPlan:
    """What is not decided before the request's slots are allocated. Items are feature indices."""

    budget: int = 0
    """Embeddings that the step may still compute after this request's."""
    inputs: list[int] = field(default_factory=list)
    """Items to compute."""
    loaded: list[int] = field(default_factory=list)
    """Items to load from an encoder connector."""
    repeated: list[int] = field(default_factory=list)
    """Items that are the same as an earlier one of both."""
    identifiers: set[str] = field(default_factory=set)
    """Those of both."""
    num_embeds: int = 0
    """Embeddings of both: the room that they need."""
    shift: int = 0
    """Tokens behind the step's that a drafting head reads, which are reckoned with."""
