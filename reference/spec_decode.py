"""Speculative decoding as it is configured, and how well it does."""

from dataclasses import dataclass, field
from typing import Any, Self


def draft_sizes(speculative_config: Any) -> tuple[int, int, bool]:
    """Of vLLM's configuration, or None: how many drafts a request gets, how many slots beyond a
    step's tokens they need, and whether EAGLE, or a head like it, makes them.

    A draft model, or a head, has KV of its own for what it proposes. What is looked up in the
    text so far needs none.
    """
    if not speculative_config:
        return 0, 0, False
    num_spec_tokens = int(speculative_config.num_speculative_tokens)
    use_eagle = bool(speculative_config.use_eagle())
    has_kv = use_eagle or speculative_config.uses_draft_model()
    return num_spec_tokens, num_spec_tokens if has_kv else 0, use_eagle


@dataclass
class SpecDecodingStats:
    """The drafts that one update verified: for the front end's logger, and read by no decision."""

    num_spec_tokens: int
    """The most that are proposed to one request."""
    num_drafts: int = 0
    """Requests that had some."""
    num_draft_tokens: int = 0
    """Tokens proposed, padding left out."""
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)
    """By place in the proposal, how often a token was accepted."""

    @classmethod
    def new(cls, num_spec_tokens: int) -> Self:
        """Nothing counted yet."""
        return cls(num_spec_tokens, num_accepted_tokens_per_pos=[0] * num_spec_tokens)

    def observe_draft(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one request's drafts, the first so many of which were accepted."""
        self.num_drafts += 1
        self.num_draft_tokens += num_draft_tokens
        self.num_accepted_tokens += num_accepted_tokens
        assert num_accepted_tokens <= self.num_spec_tokens
        for position in range(num_accepted_tokens):
            self.num_accepted_tokens_per_pos[position] += 1


@dataclass
class PlacedSpecDecodingStats(SpecDecodingStats):
    """The same in lines that count what is proposed by its place, too."""

    num_draft_tokens_per_pos: list[int] = field(default_factory=list)
    """By place in the proposal, how often there was one."""

    @classmethod
    def new(cls, num_spec_tokens: int) -> Self:
        """Nothing counted yet."""
        stats = super().new(num_spec_tokens)
        stats.num_draft_tokens_per_pos = [0] * num_spec_tokens
        return stats

    def observe_draft(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one request's drafts, the first so many of which were accepted."""
        super().observe_draft(num_draft_tokens, num_accepted_tokens)
        for position in range(num_draft_tokens):
            self.num_draft_tokens_per_pos[position] += 1
