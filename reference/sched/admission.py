"""Which requests can never be served, under any schedule: the profiles that refuse them ask here.

vLLM 0.22.1 queues them all. Such a request then waits, or preempts itself, for ever, and under
FCFS everything behind it waits too (upstream issue 39734).
"""

from nullblock.reference.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    CrossAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)
from nullblock.reference.request import Request
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.utils import cdiv
from nullblock.spec.facts import blocks_held

_WINDOWED = SlidingWindowSpec | ChunkedLocalAttentionSpec | MambaSpec
_KNOWN = FullAttentionSpec | CrossAttentionSpec | _WINDOWED

NOBODY = ""
"""No request has this id: all blocks count, though a session holds some of them already."""


class Admission(EncoderInputs):
    """Judges a request on arrival by the longest life it may have."""

    def _unservable_reason(self, request: Request) -> str | None:
        """Why the request cannot be served to its end; None if it can."""
        prompt, outputs = request.num_prompt_tokens, request.max_tokens
        return self._unservable_length(request, prompt, outputs) or (
            self._unencodable_reason(request) if request.mm_features else None
        )

    def _unservable_length(
        self, request: Request, num_prompt_tokens: int, max_tokens: int
    ) -> str | None:
        """Why it could not with so many tokens in its prompt, and at most so many outputs."""
        if num_prompt_tokens == 0:
            return "the prompt is empty"
        if num_prompt_tokens >= self.max_model_len:
            return (
                f"a prompt of {num_prompt_tokens} tokens leaves no room for output: "
                f"max_model_len is {self.max_model_len}"
            )
        # The last token that is sampled ends the request and is never computed.
        num_slots = min(num_prompt_tokens + max_tokens, self.max_model_len) - 1
        manager, reach = self.kv_cache_manager, self._with_drafts(num_slots)
        attended = self._num_tokens_to_attend_to(request)
        num_blocks = self._most_blocks_held(reach, attended)
        if num_blocks is None:
            num_blocks = manager.coordinator.get_num_blocks_to_allocate(
                NOBODY,
                reach,
                manager.empty_kv_cache_blocks.blocks,
                num_encoder_tokens=attended,
                total_computed_tokens=0,
                num_tokens_main_model=reach,
                apply_admission_cap=True,
            )
        usable = manager.block_pool.num_gpu_blocks - 1 - self._num_sink_blocks()
        if num_blocks > usable:
            return f"{reach} tokens may need {num_blocks} blocks, the pool has {usable}"
        budget = self.max_num_scheduled_tokens
        threshold = self.scheduler_config.long_prefill_token_threshold
        in_chunks = self.scheduler_config.enable_chunked_prefill or 0 < threshold <= budget
        if num_slots > budget and not in_chunks:
            # After a preemption prompt and outputs are computed again, in one step.
            return f"{num_slots} tokens may have to be computed in one step of at most {budget}"
        return None

    def _most_blocks_held(self, num_slots: int, attended: int) -> int | None:
        """What a request of so many slots, that attends to so many tokens of an encoder, holds at
        once at most, or is taken to hold, of groups some of which see only a part of the past.

        None where the cap that vLLM admits by has to do: it knows no drafts.
        """
        layers = [group.kv_cache_spec for group in self.kv_cache_config.kv_cache_groups]
        if not any(isinstance(layer, _WINDOWED) for layer in layers):
            return None
        if not all(isinstance(layer, _KNOWN) for layer in layers):
            return None
        return sum(
            cdiv(attended, layer.block_size)
            if isinstance(layer, CrossAttentionSpec)
            else self._most_blocks_of(layer, num_slots)
            for layer in layers
        )

    def _most_blocks_of(self, layer: KVCacheSpec, num_slots: int) -> int:
        """The same of one group."""
        whole = cdiv(num_slots, layer.block_size)
        if isinstance(layer, MambaSpec):
            return self._most_states_of(layer, whole)
        if self.num_spec_tokens and self.async_scheduling:
            # How much is kept for drafts in flight depends on how many steps are.
            return whole
        if isinstance(layer, SlidingWindowSpec):
            seen = layer.sliding_window
        elif isinstance(layer, ChunkedLocalAttentionSpec):
            seen = layer.attention_chunk_size
        else:
            return whole
        num_computed = (
            self.max_num_scheduled_tokens + self.num_spec_tokens + self.num_lookahead_tokens
        )
        batched = self.scheduler_config.max_num_batched_tokens
        cap = layer.max_admission_blocks_per_request(batched, self.max_model_len)
        return min(whole, max(blocks_held(seen, num_computed, layer.block_size), cap))

    def _num_sink_blocks(self) -> int:
        """Blocks that no request ever gets."""
        layers = [group.kv_cache_spec for group in self.kv_cache_config.kv_cache_groups]
        sinks = [layer for layer in layers if isinstance(layer, SinkFullAttentionSpec)]
        return sum((layer.sink_len or 0) // layer.block_size for layer in sinks)

    def _most_states_of(self, layer: MambaSpec, whole: int) -> int:
        """The same of Mamba layers: the state at hand and the one before, those that a step makes,
        and those beside, which are given back as much later.
        """
        beside, aligns = layer.num_speculative_blocks, layer.mamba_cache_mode == "align"
        if aligns and not beside and not self.num_spec_tokens:
            inner = layer.num_prefill_checkpoint_blocks if self.semantics.inner_states_kept else 0
            return min(whole, 2 + inner)
        if aligns or (self.num_spec_tokens and self.async_scheduling):
            return whole + beside
        num_computed = (
            self.max_num_scheduled_tokens + self.num_spec_tokens + self.num_lookahead_tokens
        )
        return beside + min(whole, blocks_held(2 + beside, num_computed, layer.block_size))

    def _with_drafts(self, num_slots: int) -> int:
        """How many slots a request may need that computes so many tokens, its drafts included.

        Ahead, drafts may be scheduled behind drafts.
        """
        if self.num_spec_tokens and self.async_scheduling:
            return self.max_model_len
        return min(
            num_slots + self.num_spec_tokens + self.num_lookahead_tokens, self.max_model_len
        )
