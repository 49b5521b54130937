"""What a request asks of the sampler, as far as the scheduler looks at it."""

import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec


@dataclass
class RepetitionDetectionParams:
    """When is an output a loop: a pattern of so many tokens, at its end, so many times over."""

    max_pattern_size: int = 0
    """Longest pattern looked for, in tokens; 0 turns the detection off."""
    min_pattern_size: int = 0
    """Shortest pattern looked for, in tokens; 0 means 1."""
    min_count: int = 0
    """How often the pattern must appear in a row; at least 2."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_pattern_size <= self.max_pattern_size:
            raise ValueError("expected 0 <= min_pattern_size <= max_pattern_size")
        if self.max_pattern_size > 0 and self.min_count < 2:
            raise ValueError("min_count must be at least 2 when max_pattern_size is set")


@dataclass
class StructuredOutputsParams:
    """The constraint on the outputs; the scheduler asks only whether there is one."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None
    _backend: str | None = field(default=None, init=False)
    _backend_was_auto: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if len(self._constraints()) != 1:
            raise ValueError(f"expected one constraint, got {self._constraints()}")

    def _constraints(self) -> dict[str, object]:
        names = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
        return {name: v for name in names if (v := getattr(self, name)) is not None}

    def all_constraints_none(self) -> bool:
        """Whether nothing is constrained."""
        return not self._constraints()


class RequestOutputKind(Enum):
    """What the front end returns; the scheduler does not look at it."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


class SamplingParams(msgspec.Struct, omit_defaults=True):
    """Sampling parameters, in vLLM's order.

    Only the stop conditions and the cache flag reach a decision here; the rest is carried along.
    """

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    skip_clone: bool = False
    _eos_token_id: int | None = None
    _all_stop_token_ids: set[int] = msgspec.field(default_factory=set)
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None
    skip_reading_prefix_cache: bool | None = None
    repetition_detection: RepetitionDetectionParams | None = None

    def __post_init__(self) -> None:
        """Fill the defaults that depend on other fields; ``ValueError`` for impossible values."""
        if self.stop is None:
            self.stop = []
        elif isinstance(self.stop, str):
            self.stop = [self.stop]
        if self.stop_token_ids is None:
            self.stop_token_ids = []
        self._verify_args(self.stop_token_ids)
        self._all_stop_token_ids.update(self.stop_token_ids)
        if self.skip_reading_prefix_cache is None:
            # Prompt logprobs need every prompt position computed, so no hit may be used.
            self.skip_reading_prefix_cache = self.prompt_logprobs is not None

    def _verify_args(self, stop_token_ids: list[int]) -> None:
        if not isinstance(self.n, int) or self.n < 1:
            raise ValueError(f"n must be an int of at least 1, got {self.n!r}")
        if self.temperature < 0.0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if self.min_tokens < 0:
            raise ValueError(f"min_tokens must not be negative, got {self.min_tokens}")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens must not exceed max_tokens, got {self.min_tokens} and "
                f"{self.max_tokens}"
            )
        if not all(isinstance(token, int) for token in stop_token_ids):
            raise ValueError(f"stop_token_ids must be integers, got {stop_token_ids}")

    def update_from_generation_config(
        self, generation_config: dict[str, Any], eos_token_id: int | None = None
    ) -> None:
        """Take over the model's end tokens: the eos, and further ones as stop tokens."""
        if not self.ignore_eos:
            self._eos_token_id = eos_token_id
        if eos_token_id is not None:
            self._all_stop_token_ids.add(eos_token_id)
        more = generation_config.get("eos_token_id")
        if more is None:
            return
        extra = {more} if isinstance(more, int) else set(more)
        extra.discard(eos_token_id)
        self._all_stop_token_ids |= extra
        if extra and not self.ignore_eos:
            self.stop_token_ids = list(extra.union(self.stop_token_ids or ()))

    @property
    def eos_token_id(self) -> int | None:
        """The end-of-sequence token, or None where it is to be ignored."""
        return self._eos_token_id

    @property
    def all_stop_token_ids(self) -> set[int]:
        """Every token that may end the output, the eos included."""
        return self._all_stop_token_ids

    @property
    def num_logprobs(self) -> int | None:
        """How many log probabilities a sampled token comes with; None for none."""
        return self.logprobs

    def clone(self) -> "SamplingParams":
        """A deep copy; a shallow one where the owner said that it is enough."""
        return copy.copy(self) if self.skip_clone else copy.deepcopy(self)
