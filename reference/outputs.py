"""What the model runner returns to the scheduler, as far as this scope reads it."""

from dataclasses import dataclass, field


@dataclass
class KVConnectorOutput:
    """What the workers' side of a KV connector reports with the output of a step."""

    finished_sending: set[str] | None = None
    finished_recving: set[str] | None = None
    kv_connector_stats: object | None = None
    kv_cache_events: object | None = None
    kv_connector_worker_meta: object | None = None
    invalid_block_ids: set[int] = field(default_factory=set)
    """Blocks that were to be loaded and were not."""
    expected_finished_count: int = 0

    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (
            self.finished_sending
            or self.finished_recving
            or self.kv_connector_stats
            or self.kv_cache_events
            or self.invalid_block_ids
            or self.kv_connector_worker_meta
        )


@dataclass
class ModelRunnerOutput:
    """The sampled tokens of one step, one list for each request that was scheduled."""

    req_ids: list[str]
    req_id_to_index: dict[str, int]
    sampled_token_ids: list[list[int]] = field(default_factory=list)
    """A prefill chunk samples nothing: an empty list."""
    logprobs: object | None = None
    prompt_logprobs_dict: dict[str, object] = field(default_factory=dict)
    pooler_output: list[object] | None = None
    kv_connector_output: KVConnectorOutput | None = None
    ec_connector_output: object | None = None
    num_nans_in_logits: dict[str, int] | None = None
    cudagraph_stats: object | None = None
    routed_experts: object | None = None


@dataclass
class DraftTokenIds:
    """Drafts by request, as workers hand them over."""

    req_ids: list[str]
    draft_token_ids: list[list[int]]


EMPTY_MODEL_RUNNER_OUTPUT = ModelRunnerOutput(req_ids=[], req_id_to_index={})
