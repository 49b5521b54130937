"""What a pooling request asks for: one vector, and no token."""

from dataclasses import dataclass


@dataclass(slots=True)
class PoolingParams:
    """Parameters of a pooling request, as far as a scheduler looks at them."""

    task: str | None = None
    skip_reading_prefix_cache: bool | None = None
    """Whether cached prefixes are ignored: some poolers need every token's hidden state."""
