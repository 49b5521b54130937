"""Prefills that end with a block: what the Mamba mode ``align`` needs to keep a state."""

from nullblock.reference.mamba import keeps_inner
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
        # As it is set: a step may have less, in lines where max_num_batched_tokens bounds it too.
        most = self.scheduler_config.max_num_scheduled_tokens or self.max_num_scheduled_tokens
        if threshold > 0:
            most = min(most, threshold)
        return whole if whole > 0 else 0 if size <= most else num_new_tokens

    def _mamba_block_aligned_split(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        """The tokens of a step, cut so that it ends with a block; perhaps none are left.

        Only the state after a step is kept, so it can be hit only if the step ended with a block.
        The last block's end is never stepped over either: with EAGLE that of the block before it,
        since a hit loses its last block. What is behind it is computed as it comes, and so is a
        decode.

        Args:
            num_new_local_computed_tokens: of an admission, what was hit.
            num_external_computed_tokens: of an admission, what is loaded.
        """
        assert self._cuts_first or not num_external_computed_tokens, "Mamba states are not loaded"
        num_computed_tokens = (
            request.num_computed_tokens
            + num_new_local_computed_tokens
            + num_external_computed_tokens
        )
        prefill_end = max(request.num_prompt_tokens, request.num_tokens - 1)
        if num_computed_tokens >= prefill_end:
            return num_new_tokens
        end = num_computed_tokens + num_new_tokens
        keeps = end >= prefill_end and self._keeps_inner(num_computed_tokens, prefill_end)
        last_end = 0 if keeps else self._last_state(request)
        block_size: int = self.cache_config.block_size
        is_cut = end < (prefill_end if self.semantics.prefills_end_in_blocks else last_end)
        if is_cut:
            num_new_tokens = self._whole_blocks(num_computed_tokens, num_new_tokens, block_size)
            end = num_computed_tokens + num_new_tokens
        stops = [last_end]
        if self.semantics.prefills_end_in_blocks and num_computed_tokens % block_size:
            stops.append((num_computed_tokens // block_size + 1) * block_size)
        if self.semantics.chunks_end_at_junctions:
            stops.append(request.shared_prefix_boundary)
        end = min([stop for stop in stops if num_computed_tokens < stop < end], default=end)
        return end - num_computed_tokens

    def _keeps_inner(self, begin: int, prefill_end: int) -> bool:
        """Whether a step from there on may keep the last state of a prefill within it."""
        size: int = self.cache_config.block_size
        last = (prefill_end - 1) // size * size
        return keeps_inner(begin, last, size, self._inner_alignment)

    def _last_state(self, request: Request) -> int:
        """Where the last state is that can be hit: vLLM 0.22.1 counts that behind the last full
        block, though the last token is always computed.
        """
        block_size: int = self.cache_config.block_size
        num_tokens = request.num_tokens
        if self.use_eagle:
            return max(num_tokens // block_size * block_size - block_size, 0)
        if self.semantics.prefills_end_in_blocks:
            num_tokens = max(num_tokens - 1, 0)
        return num_tokens // block_size * block_size
