"""What one call of ``schedule()`` tells the workers."""

from dataclasses import dataclass, field

from nullblock.reference.multimodal.inputs import MultiModalFeatureSpec
from nullblock.reference.pooling_params import PoolingParams
from nullblock.reference.request import LoRARequest, Request
from nullblock.reference.sampling_params import SamplingParams


@dataclass
class NewRequestData:
    """A request that workers do not know yet: everything about it."""

    req_id: str
    prompt_token_ids: list[int] | None
    mm_features: list[MultiModalFeatureSpec]
    sampling_params: SamplingParams | None
    pooling_params: PoolingParams | None
    block_ids: tuple[list[int], ...]
    num_computed_tokens: int
    """Tokens that need no computing any more, as this step begins."""
    lora_request: LoRARequest | None
    prompt_embeds: object | None = None
    prompt_is_token_ids: list[bool] | None = None
    prefill_token_ids: list[int] | None = None
    """All tokens, for the second model runner, which learns resumed requests anew."""

    @classmethod
    def from_request(
        cls,
        request: Request,
        block_ids: tuple[list[int], ...],
        prefill_token_ids: list[int] | None = None,
    ) -> "NewRequestData":
        """What there is to tell about ``request``."""
        return cls(
            req_id=request.request_id,
            prompt_token_ids=request.prompt_token_ids,
            mm_features=request.mm_features,
            sampling_params=request.sampling_params,
            pooling_params=request.pooling_params,
            block_ids=block_ids,
            num_computed_tokens=request.num_computed_tokens,
            lora_request=request.lora_request,
            prompt_embeds=request.prompt_embeds,
            prompt_is_token_ids=request.prompt_is_token_ids,
            prefill_token_ids=prefill_token_ids,
        )

    def __repr__(self) -> str:
        return self._told(
            prompt_token_ids=self.prompt_token_ids, prefill_token_ids=self.prefill_token_ids
        )

    def anon_repr(self) -> str:
        """The same without the prompt: of its tokens, how many they are."""
        return self._told(
            prompt_token_ids_len=_length(self.prompt_token_ids),
            prefill_token_ids_len=_length(self.prefill_token_ids),
        )

    def _told(self, **tokens: object) -> str:
        """All about the request in one line, with that about its tokens."""
        return _line(
            "NewRequestData",
            req_id=self.req_id,
            **tokens,
            mm_features=self.mm_features,
            sampling_params=self.sampling_params,
            block_ids=self.block_ids,
            num_computed_tokens=self.num_computed_tokens,
            lora_request=self.lora_request,
            prompt_embeds_shape=getattr(self.prompt_embeds, "shape", None),
        )


@dataclass
class CachedRequestData:
    """Requests that workers know: only what changed. The lists run in step."""

    req_ids: list[str]
    resumed_req_ids: set[str]
    """Those that come back after a preemption: their block ids replace the old ones."""
    new_token_ids: list[list[int]]
    """Sampled tokens, for pipeline stages that did not sample them; else empty."""
    all_token_ids: dict[str, list[int]]
    """All tokens of those that were not part of the previous step."""
    new_block_ids: list[tuple[list[int], ...] | None]
    """Blocks to append (to a resumed request: all its blocks); None for none."""
    num_computed_tokens: list[int]
    """Computed tokens as this step begins."""
    num_output_tokens: list[int]

    def __repr__(self) -> str:
        return self.anon_repr()

    def anon_repr(self) -> str:
        """All of it in one line; of tokens, how many they are."""
        all_lens = {req_id: len(tokens) for req_id, tokens in self.all_token_ids.items()}
        return _line(
            "CachedRequestData",
            req_ids=self.req_ids,
            resumed_req_ids=self.resumed_req_ids,
            new_token_ids_lens=[len(tokens) for tokens in self.new_token_ids],
            all_token_ids_lens=all_lens,
            new_block_ids=self.new_block_ids,
            num_computed_tokens=self.num_computed_tokens,
            num_output_tokens=self.num_output_tokens,
        )

    @property
    def num_reqs(self) -> int:
        """How many requests."""
        return len(self.req_ids)

    def is_context_phase(self, req_id: str) -> bool:
        """Whether that request is here and has no output yet."""
        return req_id in self.req_ids and not self.num_output_tokens[self.req_ids.index(req_id)]

    @classmethod
    def make_empty(cls) -> "CachedRequestData":
        """No requests."""
        return cls(
            req_ids=[],
            resumed_req_ids=set(),
            new_token_ids=[],
            all_token_ids={},
            new_block_ids=[],
            num_computed_tokens=[],
            num_output_tokens=[],
        )


@dataclass
class SchedulerOutput:
    """One step."""

    scheduled_new_reqs: list[NewRequestData]
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict[str, int]
    """Tokens to compute by request, in the order in which they were scheduled."""
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict[str, list[int]]
    scheduled_encoder_inputs: dict[str, list[int]]
    """Items to compute by request, as indices into its features."""
    num_common_prefix_blocks: list[int]
    """By group, the leading blocks that all owners of blocks share."""
    finished_req_ids: set[str]
    """Requests that ended since the previous step: workers forget them."""
    free_encoder_mm_hashes: list[str]
    """Items whose embeddings workers forget before this step."""
    preempted_req_ids: set[str] | None = None
    """Requests that lost their blocks in this step."""
    has_structured_output_requests: bool = False
    pending_structured_output_tokens: bool = False
    num_invalid_spec_tokens: dict[str, int] | None = None
    kv_connector_metadata: object | None = None
    ec_connector_metadata: object | None = None
    new_block_ids_to_zero: list[int] | None = None
    scheduled_requests: dict[str, Request] = field(default_factory=dict, repr=False)
    """Not vLLM's: who was scheduled, where a profile matches frames to requests and not to ids."""
    owed_req_ids: set[str] | None = field(default=None, repr=False)
    """Not vLLM's: for whom a token is sampled, where a profile asks what a step without it is."""
    runs: dict[str, int] = field(default_factory=dict, repr=False)
    """Not vLLM's: how often whoever is owed a vector had been preempted."""

    @classmethod
    def make_empty(cls) -> "SchedulerOutput":
        """A step that does nothing."""
        return cls(
            scheduled_new_reqs=[],
            scheduled_cached_reqs=CachedRequestData.make_empty(),
            num_scheduled_tokens={},
            total_num_scheduled_tokens=0,
            scheduled_spec_decode_tokens={},
            scheduled_encoder_inputs={},
            num_common_prefix_blocks=[],
            finished_req_ids=set(),
            free_encoder_mm_hashes=[],
        )


@dataclass
class GrammarOutput:
    """The mask of allowed tokens, a row for each of the requests."""

    structured_output_request_ids: list[str]
    grammar_bitmask: object


def _length(token_ids: list[int] | None) -> int | None:
    """How many tokens; None where there are none to count."""
    return None if token_ids is None else len(token_ids)


def _line(name: str, **told: object) -> str:
    """An object's representation for logs, as vLLM writes it: no space behind commas."""
    return f"{name}({','.join(f'{key}={value}' for key, value in told.items())})"
