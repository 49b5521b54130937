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


_LEAST_TEMPERATURE = 1e-2
"""What is above 0 and below it is raised to it."""
_GREEDY_BELOW = 1e-5
"""Temperatures below it ask for the likeliest token."""
_NEVER_NONE = {
    "n",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "temperature",
    "top_p",
}
"""Fields for whose default a front end may give None."""


def _require(holds: bool, what: str, got: object) -> None:
    """Raise ``ValueError`` unless a condition on the parameters holds."""
    if not holds:
        raise ValueError(f"{what}, got {got}")


class SamplingParams(msgspec.Struct, omit_defaults=True, dict=True):
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
    output_text_buffer_length: int = 0
    """Characters that are held back while a stop string may begin with them."""
    _eos_token_id: int | None = None
    _all_stop_token_ids: set[int] = msgspec.field(default_factory=set)
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    routed_experts_prompt_start: int = 0
    bad_words: list[str] | None = None
    _bad_words_token_ids: list[list[int]] | None = None
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: RepetitionDetectionParams | None = None

    @classmethod
    def from_optional(cls, **given: Any) -> "SamplingParams":
        """Parameters of a front end: None may stand for a default, and biases are bounded."""
        for name in _NEVER_NONE & given.keys():
            if given[name] is None:
                del given[name]
        if given.get("logit_bias") is not None:
            biases = given["logit_bias"].items()
            given["logit_bias"] = {
                int(token): min(100.0, max(-100.0, bias)) for token, bias in biases
            }
        return cls(**given)

    def __post_init__(self) -> None:
        """Fill the defaults that depend on other fields; ``ValueError`` for impossible values."""
        if 0 < self.temperature < _LEAST_TEMPERATURE:
            self.temperature = _LEAST_TEMPERATURE
        if self.seed == -1:
            self.seed = None
        self.stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        self.stop_token_ids = self.stop_token_ids or []
        self.bad_words = self.bad_words or []
        # True asks for the sampled token's alone.
        self.logprobs = 1 if self.logprobs is True else self.logprobs
        self.prompt_logprobs = 1 if self.prompt_logprobs is True else self.prompt_logprobs
        if self.stop and not self.include_stop_str_in_output:
            self.output_text_buffer_length = max(map(len, self.stop)) - 1
        self._verify_args()
        if self.temperature < _GREEDY_BELOW:
            self.top_p, self.top_k, self.min_p = 1.0, 0, 0.0
            _require(self.n == 1, "n must be 1 where sampling is greedy", self.n)
        self._all_stop_token_ids.update(self.stop_token_ids)
        if self.skip_reading_prefix_cache is None:
            # Prompt logprobs need every prompt position computed, so no hit may be used.
            self.skip_reading_prefix_cache = self.prompt_logprobs is not None

    def _verify_args(self) -> None:
        """Raise ``ValueError`` (of ``top_k``, also ``TypeError``) for what cannot be."""
        n, most, least, top_k = self.n, self.max_tokens, self.min_tokens, self.top_k
        _require(isinstance(n, int) and n >= 1, "n must be an int of at least 1", n)
        for name in ("presence_penalty", "frequency_penalty"):
            penalty = getattr(self, name)
            _require(-2.0 <= penalty <= 2.0, f"{name} must be in [-2, 2]", penalty)
        penalty = self.repetition_penalty
        _require(penalty > 0.0, "repetition_penalty must be above 0", penalty)
        temperature = self.temperature
        _require(temperature >= 0.0, "temperature must not be negative", temperature)
        _require(0.0 < self.top_p <= 1.0, "top_p must be in (0, 1]", self.top_p)
        _require(top_k >= -1, "top_k must be 0, for all, or at least 1", top_k)
        if not isinstance(top_k, int):
            raise TypeError(f"top_k must be an integer, got {top_k!r}")
        _require(0.0 <= self.min_p <= 1.0, "min_p must be in [0, 1]", self.min_p)
        _require(most is None or most >= 1, "max_tokens must be at least 1", most)
        _require(least >= 0, "min_tokens must not be negative", least)
        fits = most is None or least <= most
        _require(fits, "min_tokens must not exceed max_tokens", f"{least} and {most}")
        for name in ("logprobs", "prompt_logprobs"):
            num = getattr(self, name)
            _require(num is None or num >= -1, f"{name} must be -1, for all, or more", num)
        stops = self.stop_token_ids or ()
        are_tokens = all(isinstance(token, int) for token in stops)
        _require(are_tokens, "stop_token_ids must be integers", stops)
        _require(all(self.stop or ()), "stop must not contain an empty string", self.stop)
        is_text = self.detokenize or not self.stop
        _require(is_text, "stop strings need detokenize", self.stop)
        words = self.bad_words
        _require(all(words or ()), "bad_words must not contain an empty string", words)

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
        if self.logprobs is None and self.logprob_token_ids:
            return len(self.logprob_token_ids)
        return self.logprobs

    def clone(self) -> "SamplingParams":
        """A deep copy; a shallow one where the owner said that it is enough."""
        return copy.copy(self) if self.skip_clone else copy.deepcopy(self)
