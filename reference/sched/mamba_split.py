"""Prefills that end with a block: what the Mamba mode ``align`` needs to keep a state."""

from nullblock.reference.request import Request
from nullblock.reference.sched.state import SchedulerState


class MambaSplit(SchedulerState):
    """Cuts the tokens of a step, where ``need_mamba_block_aligned_split`` says so."""

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
            return num_new_tokens // block_size * block_size
        if num_computed_tokens < last_end < end:
            return last_end - num_computed_tokens
        return num_new_tokens
