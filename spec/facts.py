"""What is known of a request from outside and never changes while it lives, and the constants
of a configuration.
"""

from dataclasses import dataclass
from typing import Any

from nullblock.spec.catalogue import clause
from nullblock.spec.profiles import NORMATIVE, Semantics


@dataclass(frozen=True, slots=True)
class Config:
    """The constants that decisions depend on. Tokens, blocks and requests are counted; None of
    them is -1.
    """

    num_blocks: int
    """All blocks, the null block included."""
    block_size: int
    max_num_scheduled_tokens: int
    """Token budget of a step; vLLM takes max_num_batched_tokens where it is not set."""
    max_num_seqs: int
    max_model_len: int
    long_prefill_token_threshold: int = 0
    """0: no threshold."""
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    scheduler_reserve_full_isl: bool = True
    policy: str = "fcfs"
    watermark_blocks: int = 0
    """Kept free when somebody is admitted while others run; 0: none."""
    async_scheduling: bool = False
    """Whether a request is scheduled again before its last token is known."""
    num_spec_tokens: int = 0
    """Drafts that a step may verify of one request; 0: no speculative decoding."""
    spec_method: str = "ngram"
    """What proposes them: `ngram`, `eagle` or `draft_model`."""
    eagle_group: bool = False
    """Whether the layers of an EAGLE-like method share the cache, whatever proposes drafts."""
    drafts_from_outside: bool = False
    """Whether drafts may come though none are configured."""
    semantics: Semantics = NORMATIVE

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots that what proposes drafts needs for them: ngram writes nothing to the cache."""
        return 0 if self.spec_method == "ngram" else self.num_spec_tokens

    @property
    def use_eagle(self) -> bool:
        """Whether the last hit of a lookup is computed again."""
        return self.eagle_group or (self.num_spec_tokens > 0 and self.spec_method == "eagle")


def blocks_of_watermark(share: float | None, num_blocks: int, semantics: Semantics) -> int:
    """Blocks that a watermark keeps free, given as a share of all blocks (WAIT-31)."""
    return int(share * num_blocks) if share and semantics.admission_watermark else 0


@clause("RUN-42")
def token_budget(batched: int, scheduled: int | None, semantics: Semantics) -> int:
    """A step has max_num_scheduled_tokens, and where that is not set max_num_batched_tokens.

    Source: Scheduler.__init__. In vllm-0.32.0 it has the least of both, and 0 is a number too:
    the worker's buffers have max_num_batched_tokens places.
    """
    if not semantics.least_token_budget:
        return scheduled or batched
    return batched if scheduled is None else min(scheduled, batched)


@dataclass(frozen=True, slots=True)
class Request:
    """The facts about one request."""

    id: Any
    prompt_len: int
    max_tokens: int
    min_tokens: int = 0
    priority: int = 0
    arrival: float = 0.0
    skip_reading_prefix_cache: bool = False
