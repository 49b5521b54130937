"""Encoder inputs of a step: which items are computed, and how many tokens fit with them.

An item's embeddings are needed as soon as a step computes a token that the item stands for. Where
they cannot be had, the request gets the tokens before the item, or none.

The phases call ``_plan_encoder_inputs`` when a request's tokens are counted, and
``_take_encoder_inputs`` once its slots are allocated; updates ``_free_encoder_inputs``.
"""

from nullblock.reference.request import Request
from nullblock.reference.sched.encoder_plan import EncoderPlan
from nullblock.reference.sched.state import SchedulerState, Step


class EncoderInputs(SchedulerState):
    """Decides on encoder inputs; requests without any never come here."""

    _repeated_inputs: list[int]
    """Items of the last decision that are the same as an earlier one of theirs."""

    def _plan_encoder_inputs(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int, step: Step
    ) -> int:
        """Note which items a step over those tokens computes; the tokens that are left of it."""
        self._repeated_inputs = []
        inputs, num_left, budget, loaded = self._try_schedule_encoder_inputs(
            request,
            num_computed_tokens,
            num_new_tokens,
            step.encoder_budget,
            shift_computed_tokens=self._encoder_shift,
        )
        step.encoder_plan = EncoderPlan(budget, inputs, loaded, self._repeated_inputs)
        return num_left

    def _try_schedule_encoder_inputs(
        self,
        request: Request,
        num_computed_tokens: int,
        num_new_tokens: int,
        encoder_compute_budget: int,
        shift_computed_tokens: int = 0,
    ) -> tuple[list[int], int, int, list[int]]:
        """Decide on the items of a step over those tokens.

        Args:
            shift_computed_tokens: how many tokens further a drafting head reads.

        Returns:
            The items to compute, the tokens that are left of the step, what is left of the budget,
            and the items to load.
        """
        plan = EncoderPlan(encoder_compute_budget, shift=shift_computed_tokens)
        if num_new_tokens != 0:
            num_new_tokens = self._plan_items(request, num_computed_tokens, num_new_tokens, plan)
        self._repeated_inputs = plan.repeated
        return plan.inputs, num_new_tokens, plan.budget, plan.loaded

    def _plan_items(
        self, request: Request, num_computed_tokens: int, num_new_tokens: int, plan: EncoderPlan
    ) -> int:
        """Plan which items a step over those tokens computes; the tokens that are left of it.

        Looking is not free of effects: a cached item is held for the request from now on, and room
        that is made for an item stays made, even if the request is not scheduled.
        """
        shift = plan.shift
        # What EAGLE's head reads beyond the chunk is not counted in 0.22.1: an item that begins
        # there is not computed in time (upstream pull request 46315).
        read = num_computed_tokens + num_new_tokens
        read += shift if self.semantics.items_behind_counted else 0
        for index, feature in enumerate(request.mm_features):
            start = feature.mm_position.offset
            end = start + feature.mm_position.length
            if start >= num_computed_tokens + num_new_tokens + shift:
                break
            if self._is_behind(start, end, num_computed_tokens):
                continue
            if self._must_be_whole(request, index, num_computed_tokens, num_new_tokens):
                return self._tokens_before(request, index, num_computed_tokens, plan)
            if self._is_at_hand(request, index, plan):
                continue
            cut = self._cut_before(request, index, num_computed_tokens, num_new_tokens, plan)
            if cut is not None:
                return cut
            first, last = feature.mm_position.get_embeds_indices_in_range(
                max(0, num_computed_tokens - start), min(end, read) - start
            )
            if first != last:
                self._plan_item(request, index, plan)
        return num_new_tokens

    @property
    def _encoder_shift(self) -> int:
        """Tokens behind a chunk that EAGLE's head reads, which vLLM reckons with."""
        return int(self.use_eagle and not self.semantics.chunks_end_at_items)

    def _is_behind(self, start: int, end: int, num_computed_tokens: int) -> bool:
        """Whether an item is not needed any more.

        A decoder's cross-attention needs its encoder's output once, with the first token.
        """
        if self.is_encoder_decoder and num_computed_tokens > 0:
            assert start == 0, "an encoder-decoder model's input must stand at the beginning"
            return True
        return end <= num_computed_tokens

    def _is_at_hand(self, request: Request, index: int, plan: EncoderPlan) -> bool:
        """Whether the item is planned already, or cached; if cached the request holds it."""
        if self.is_encoder_decoder:
            return False
        if request.mm_features[index].identifier in plan.identifiers:
            plan.repeated.append(index)
            return True
        return self.encoder_cache_manager.check_and_update_cache(request, index)

    def _cut_before(
        self,
        request: Request,
        index: int,
        num_computed_tokens: int,
        num_new_tokens: int,
        plan: EncoderPlan,
    ) -> int | None:
        """The tokens that are left if the step must end before an item; None if it need not.

        It must where items are not cut and this one would be, and where there is no budget or no
        room for it. Behind the item's start, where a prefix hit may end, nothing is left. EAGLE's
        head reads one token ahead, so it must not reach the item either: the chunk ends one token
        sooner, from where, in vLLM, a request may wait for ever. An item as large as a step never
        fits when it must not be cut; an item in front of it is held, for it is not behind yet.
        """
        if not self._would_be_cut(
            request, index, num_computed_tokens, num_new_tokens
        ) and self.encoder_cache_manager.can_allocate(
            request, index, plan.budget, plan.num_embeds
        ):
            return None
        return self._tokens_before(request, index, num_computed_tokens, plan)

    def _tokens_before(
        self, request: Request, index: int, num_computed_tokens: int, plan: EncoderPlan
    ) -> int:
        """What is left of a step that ends before an item."""
        start = request.mm_features[index].mm_position.offset
        return max(0, start - (num_computed_tokens + plan.shift))

    def _would_be_cut(
        self, request: Request, index: int, num_computed_tokens: int, num_new_tokens: int
    ) -> bool:
        """Whether the step would end within an item, and must not."""
        if not self.scheduler_config.disable_chunked_mm_input:
            return False
        position = request.mm_features[index].mm_position
        start, end = position.offset, position.offset + position.length
        return num_computed_tokens < start and num_computed_tokens + num_new_tokens < end

    def _must_be_whole(
        self, request: Request, index: int, num_computed_tokens: int, num_new_tokens: int
    ) -> bool:
        """Whether the step would end within an item, and must not wherever its embeddings are."""
        return self.semantics.whole_items_if_kept and self._would_be_cut(
            request, index, num_computed_tokens, num_new_tokens
        )

    def _plan_item(self, request: Request, index: int, plan: EncoderPlan) -> None:
        """Have the item loaded, if a connector has it, or computed, which costs budget."""
        num_embeds = request.get_num_encoder_embeds(index)
        identifier = request.mm_features[index].identifier
        plan.num_embeds += num_embeds
        plan.identifiers.add(identifier)
        if self.ec_connector is not None and self.ec_connector.has_cache_item(identifier):
            plan.loaded.append(index)
        else:
            plan.budget -= num_embeds
            plan.inputs.append(index)

    def _unencodable_reason(self, request: Request) -> str | None:
        """Why one of the request's items can never be computed; None if each can, by itself."""
        sizes = [request.get_num_encoder_embeds(i) for i in range(len(request.mm_features))]
        largest = max(sizes)
        budget, room = self.max_num_encoder_input_tokens, self.encoder_cache_manager.cache_size
        if self.is_encoder_decoder:
            if sum(sizes) <= min(budget, room):
                return None
            return (
                f"items of {sum(sizes)} embeddings, all for one step: it computes {budget}, "
                f"and {room} are kept"
            )
        if largest > min(budget, room):
            return (
                f"an item of {largest} embeddings: a step computes {budget}, and {room} are kept"
            )
        longest = max(feature.mm_position.length for feature in request.mm_features)
        most, threshold = self.max_num_scheduled_tokens, self._long_prefill_token_threshold
        if 0 < threshold < most:
            most = threshold
        if self.scheduler_config.disable_chunked_mm_input and longest > most:
            return (
                f"an item of {longest} tokens, which must not be cut, in steps of at most {most}"
            )
        return None

    def _num_tokens_to_attend_to(self, request: Request) -> int:
        """Tokens that cross-attention blocks hold for the request, all its life."""
        if not self.is_encoder_decoder:
            return 0
        return sum(map(request.get_num_encoder_embeds, range(len(request.mm_features))))

    def _num_encoder_tokens(self, request: Request, step: Step) -> int:
        """Tokens that cross-attention blocks are needed for: none in other models."""
        if not self.is_encoder_decoder:
            return 0
        return sum(request.get_num_encoder_embeds(index) for index in step.encoder_plan.inputs)

    def _take_encoder_inputs(self, request: Request, step: Step) -> None:
        """The request is scheduled: its plan becomes part of the step."""
        plan = step.encoder_plan
        if plan.inputs:
            before = step.encoder_budget
            step.encoder_inputs[request.request_id] = plan.inputs
            # Inherited from vLLM: the budget is what it was when the plan was made, so what a
            # victim has given back since is lost.
            step.encoder_budget = plan.budget
            if self.semantics.encoder_budget_comes_back:
                spent = sum(request.get_num_encoder_embeds(index) for index in plan.inputs)
                step.encoder_budget = before - spent
        for index in (*plan.inputs, *plan.loaded):
            self.encoder_cache_manager.allocate(request, index)
            if self.ec_connector is not None:
                self.ec_connector.update_state_after_alloc(request, index)
        if self.semantics.items_held_by_place:
            for index in plan.repeated:
                self.encoder_cache_manager.check_and_update_cache(request, index)

    def _withdraw_encoder_inputs(self, victim: Request, step: Step) -> None:
        """Take out of the step what a victim, which holds nothing any more, was to compute.

        What somebody else holds is computed all the same, and what nobody does is not cached. In
        vLLM the victim's inputs alone leave the step, and all stay cached, though nobody computes
        them.
        """
        if self.is_encoder_decoder or not self.semantics.inputs_taken_back:
            for index in step.encoder_inputs.pop(victim.request_id, ()):
                step.encoder_budget += victim.get_num_encoder_embeds(index)
            return
        for request_id, inputs in list(step.encoder_inputs.items()):
            request = self.requests[request_id]
            for index in inputs.copy():
                if self.encoder_cache_manager.take_back(request.mm_features[index].identifier):
                    step.encoder_budget += request.get_num_encoder_embeds(index)
                    inputs.remove(index)
            if not inputs:
                del step.encoder_inputs[request_id]

    def _free_encoder_inputs(self, request: Request) -> None:
        """Let go of the items that are behind the request: its KV cache holds what came of them.

        Scheduling asynchronously, what is computed counts steps in flight, which workers execute
        before they are told to forget anything.
        """
        manager, num_computed_tokens = self.encoder_cache_manager, request.num_computed_tokens
        if self.semantics.passed_items_known:
            # Not what may turn out wrong, nor what EAGLE's head still reads.
            num_computed_tokens -= request.num_output_placeholders + int(self.use_eagle)
        for index in list(manager.get_cached_input_ids(request)):
            position = request.mm_features[index].mm_position
            done = self.is_encoder_decoder and request.num_computed_tokens > 0
            if done or position.offset + position.length <= num_computed_tokens:
                manager.free_encoder_input(request, index)

    def reset_encoder_cache(self) -> None:
        """Forget all embeddings: the encoder's weights changed. Workers are told otherwise."""
        self.encoder_cache_manager.reset()
