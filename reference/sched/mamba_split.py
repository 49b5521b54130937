"""Prefills that end with a block: what the Mamba mode ``align`` needs to keep a state."""

from nullblock.reference.request import Request
from nullblock.reference.sched.state import SchedulerState


class MambaSplit(SchedulerState):
    """Cuts the tokens of a step, where ``need_mamba_block_aligned_split`` says so."""

    def _whole_blocks(self, num_computed_tokens: int, num_new_tokens: int, size: int) -> int:
        """Of so many tokens those up to the last end of a block.

        vLLM 0.22.1 leaves none where there is no such end, though no step may ever have room for
        more (upstream issue 45414).
        """
        if not self.semantics.short_chunks_go_on:
            return num_new_tokens // size * size
        end = num_computed_tokens + num_new_tokens
        whole = end // size * size - num_computed_tokens
        threshold = self.scheduler_config.long_prefill_token_threshold
        most = self.max_num_scheduled_tokens
        if threshold > 0:
            most = min(most, threshold)
        return whole if whole > 0 else 0 if size <= most else num_new_tokens

    def _mamba_block_aligned_split(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int
    ) -> int:
        """The tokens of a step, cut so that it ends with a block; perhaps none are left.

        Only the state after a step is kept, so it can be hit only if the step ended with a block.
        The last block's end is never stepped over either: with EAGLE that of the block before it,
        since a hit loses its last block. What is behind it is computed as it comes, and so is a
        decode.
        """
        num_tokens = request.num_tokens
        if num_computed_tokens >= max(request.num_prompt_tokens, num_tokens - 1):
            return num_new_tokens
        block_size: int = self.cache_config.block_size
        last_end = num_tokens // block_size * block_size
        if self.use_eagle:
            last_end = max(last_end - block_size, 0)
        end = num_computed_tokens + num_new_tokens
        if end < last_end:
            return self._whole_blocks(num_computed_tokens, num_new_tokens, block_size)
        if num_computed_tokens < last_end < end:
            return last_end - num_computed_tokens
        return num_new_tokens
