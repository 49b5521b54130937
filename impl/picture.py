"""The whole state of an engine at one moment, in words that every backend shares.

For tests, dumps and whoever is curious: a scheduler needs none of it.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestPicture:
    """One request. Tokens and blocks are counted."""

    is_running: bool
    num_preemptions: int
    num_tokens: int
    """Prompt and output."""
    num_prompt_tokens: int
    num_output_placeholders: int
    """Tokens in flight that it will take, where they are counted (UPD-17)."""
    num_discarded: int = 0
    """Tokens in flight that it will not take (UPD-18)."""
    num_computed_tokens: int = 0
    blocks: list[int] = field(default_factory=list)
    num_cached_blocks: int = 0
    """Leading blocks that were hit or cached."""


@dataclass(slots=True)
class PoolPicture:
    """The pool of blocks."""

    free_queue: list[int]
    """Next one first."""
    ref_cnt: dict[int, int]
    """By block, those held by nobody left out."""
    content: dict[int, str]
    """By cached block, its content with all that comes before: equal strings for equal content,
    at any time, and nothing else is said of their spelling."""
    copies: dict[str, list[int]]
    """By content, the blocks cached under it, first one first (HASH-10)."""


@dataclass(slots=True)
class Picture:
    """Everything that decides what happens next, but for the constants."""

    waiting: list[str]
    """Next one first."""
    running: list[str]
    finished: list[str]
    """Ended, and not yet told to the worker."""
    num_free: int
    """Free blocks, those that cache something included."""
    requests: dict[str, RequestPicture]
    """In order of arrival."""
    pool: PoolPicture | None
