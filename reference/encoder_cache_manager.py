"""The encoder cache: whose embeddings are kept for whom. Sizes are counted in embeddings.

Nothing is stored here: workers store, and are told what to forget. An item is known by its
identifier alone, so requests with the same image share its embeddings.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any

from nullblock.reference.request import Request
from nullblock.spec.profiles import VLLM_0_22_1, Semantics


class EncoderCacheManager:
    """Embeddings by item: held by requests, or kept for whoever may come until space is needed.

    Attributes:
        cached: by identifier, the ids of the requests that hold it. Nobody: it may be evicted.
        freeable: what nobody holds and its size, oldest first.
        freed: what was evicted and workers were not told of yet.
        num_free_slots: room for embeddings without evicting anything.
        num_freeable_slots: room if everything that nobody holds were evicted.
        held: by request, for which of its items it holds something; only in lines that ask.
    """

    def __init__(self, cache_size: int, semantics: Semantics = VLLM_0_22_1) -> None:
        self.cache_size = cache_size
        self.semantics = semantics
        self.held: defaultdict[str, set[int]] = defaultdict(set)
        self.cached: dict[str, set[str]] = {}
        self.freeable: OrderedDict[str, int] = OrderedDict()
        self.freed: list[str] = []
        self.num_free_slots = self.num_freeable_slots = cache_size

    def reset(self) -> None:
        """Forget everything, whoever holds it; workers are not told."""
        self.cached.clear()
        self.held.clear()
        self.freeable.clear()
        self.freed.clear()
        self.num_free_slots = self.num_freeable_slots = self.cache_size

    def check_and_update_cache(self, request: Request, input_id: int) -> bool:
        """Whether the item is cached; if so the request holds it from now on."""
        identifier = request.mm_features[input_id].identifier
        holders = self.cached.get(identifier)
        if holders is None:
            return False
        if not holders:
            self.num_freeable_slots -= self.freeable.pop(identifier)
        holders.add(request.request_id)
        self.held[request.request_id].add(input_id)
        return True

    def can_allocate(
        self,
        request: Request,
        input_id: int,
        encoder_compute_budget: int,
        num_embeds_to_schedule: int,
    ) -> bool:
        """Whether the item can be computed and kept; makes the room for it if there is a way.

        What is evicted for it stays evicted, even if the request then is not scheduled at all.

        Args:
            encoder_compute_budget: embeddings that may still be computed in this step.
            num_embeds_to_schedule: embeddings of the request that need room before this item's.
        """
        num_embeds = request.get_num_encoder_embeds(input_id)
        if num_embeds > encoder_compute_budget:
            return False
        num_embeds += num_embeds_to_schedule
        if num_embeds <= self.num_free_slots:
            return True
        if num_embeds > self.num_freeable_slots:
            return False
        while num_embeds > self.num_free_slots:
            identifier, size = self.freeable.popitem(last=False)
            del self.cached[identifier]
            self.freed.append(identifier)
            self.num_free_slots += size
        return True

    def allocate(self, request: Request, input_id: int) -> None:
        """Take the room for an item, which the request holds; there must be enough.

        It counts as cached at once, before it is computed.
        """
        num_embeds = request.get_num_encoder_embeds(input_id)
        assert self.num_free_slots >= num_embeds, "no room for the item's embeddings"
        assert self.num_freeable_slots >= num_embeds, "held by others beyond the cache's size"
        identifier = request.mm_features[input_id].identifier
        self.cached.setdefault(identifier, set()).add(request.request_id)
        self.held[request.request_id].add(input_id)
        self.num_free_slots -= num_embeds
        self.num_freeable_slots -= num_embeds

    def get_cached_input_ids(self, request: Request) -> set[int]:
        """Which of the request's items are cached, whoever holds them; or for which it holds them,
        in lines that ask.
        """
        if self.semantics.items_held_by_place:
            return self.held.get(request.request_id, set())
        return {
            input_id
            for input_id, feature in enumerate(request.mm_features)
            if feature.identifier in self.cached
        }

    def free_encoder_input(self, request: Request, input_id: int) -> None:
        """The request holds the item no longer; if nobody does, it becomes the youngest freeable.

        A request holds an identifier once, however many of its items have it: until the first is
        let go of, or the last in lines that ask for which it is held.
        """
        features, places = request.mm_features, self.held[request.request_id]
        identifier = features[input_id].identifier
        places.discard(input_id)
        if not places:
            # A new set comes in its place, which matters: sets have an order.
            del self.held[request.request_id]
        holders = self.cached.get(identifier)
        if not holders:
            return
        if self.semantics.items_held_by_place and any(
            features[place].identifier == identifier for place in places
        ):
            return
        holders.discard(request.request_id)
        if not holders:
            num_embeds = request.get_num_encoder_embeds(input_id)
            self.freeable[identifier] = num_embeds
            self.num_freeable_slots += num_embeds

    def free(self, request: Request) -> None:
        """The request holds nothing any longer."""
        # In the order of the set, as in vLLM: it decides which item is evicted first.
        for input_id in list(self.get_cached_input_ids(request)):
            self.free_encoder_input(request, input_id)

    def take_back(self, identifier: str) -> bool:
        """Forget an item that nobody holds and nobody will compute; whether nobody holds it."""
        if self.cached.get(identifier, True):
            return False
        del self.cached[identifier]
        self.num_free_slots += self.freeable.pop(identifier)
        return True

    def get_freed_mm_hashes(self) -> list[str]:
        """What was evicted since the last call: workers forget it before the step.

        In some lines not what has been cached again meanwhile.
        """
        freed, self.freed = self.freed, []
        if self.semantics.evictions_told_if_gone:
            return [identifier for identifier in freed if identifier not in self.cached]
        return freed


class EncoderDecoderCacheManager(EncoderCacheManager):
    """For encoder-decoder models, whose cross-attention blocks keep what the encoder made.

    Only a step's room is counted: nothing is shared, and workers forget each item a step later.

    Attributes:
        allocated: identifiers of the step that is being made.
        to_free: those of the step before.
    """

    def __init__(self, cache_size: int, semantics: Semantics = VLLM_0_22_1) -> None:
        super().__init__(cache_size, semantics)
        self.allocated: list[str] = []
        self.to_free: list[str] = []

    def reset(self) -> None:
        """Forget everything."""
        self.num_free_slots = self.cache_size
        self.allocated.clear()
        self.to_free.clear()

    def check_and_update_cache(self, request: Request, input_id: int) -> bool:
        """Never: nothing is shared."""
        return False

    def can_allocate(
        self,
        request: Request,
        input_id: int,
        encoder_compute_budget: int,
        num_embeds_to_schedule: int,
    ) -> bool:
        """Whether the item fits the compute budget, and the room with those before it."""
        num_embeds = request.get_num_encoder_embeds(input_id)
        if num_embeds > encoder_compute_budget:
            return False
        return num_embeds + num_embeds_to_schedule <= self.num_free_slots

    def allocate(self, request: Request, input_id: int) -> None:
        """Take the room for an item."""
        self.num_free_slots -= request.get_num_encoder_embeds(input_id)
        self.allocated.append(request.mm_features[input_id].identifier)

    def get_cached_input_ids(self, request: Request) -> set[int]:
        """All the request's items."""
        return set(range(len(request.mm_features)))

    def free_encoder_input(self, request: Request, input_id: int) -> None:
        """Nothing: the next step has all the room.

        In vLLM the item's room is given back at every call, whether or not it was taken, and
        callers call in every step of a request. The room grows without end (upstream issue 55733).
        """
        if not self.semantics.item_room_returns_once:
            self.num_free_slots += request.get_num_encoder_embeds(input_id)

    def get_freed_mm_hashes(self) -> list[str]:
        """What the step before the last one had computed."""
        if self.semantics.item_room_returns_once:
            self.num_free_slots = self.cache_size
        to_free, self.to_free, self.allocated = self.to_free, self.allocated, []
        return to_free


def compute_mm_encoder_budget(
    scheduler_config: Any, mm_max_toks_per_item: Mapping[str, int]
) -> tuple[int, int]:
    """Embeddings that a step may compute, and that may be kept: at least the largest item's.

    Args:
        mm_max_toks_per_item: the largest item of each modality, in tokens; none: no encoder.

    Raises:
        ValueError: items must not be cut, and the largest does not fit a step.
    """
    if not mm_max_toks_per_item:
        return 0, 0
    largest = max(mm_max_toks_per_item.values())
    if (
        scheduler_config.disable_chunked_mm_input
        and largest > scheduler_config.max_num_batched_tokens
    ):
        raise ValueError(
            f"Chunked MM input disabled but max_tokens_per_mm_item ({largest}) is larger than "
            f"max_num_batched_tokens ({scheduler_config.max_num_batched_tokens})"
        )
    return (
        max(scheduler_config.max_num_encoder_input_tokens, largest),
        max(scheduler_config.encoder_cache_size, largest),
    )
