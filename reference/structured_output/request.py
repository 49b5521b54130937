"""What a request knows of its grammar: what was asked for, and the grammar once it is compiled."""

import enum
import json
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from nullblock.reference.sampling_params import SamplingParams, StructuredOutputsParams


class StructuredOutputOptions(enum.Enum):
    """What a constraint is written in."""

    JSON = enum.auto()
    JSON_OBJECT = enum.auto()
    REGEX = enum.auto()
    GRAMMAR = enum.auto()
    CHOICE = enum.auto()
    STRUCTURAL_TAG = enum.auto()


StructuredOutputKey = tuple[StructuredOutputOptions, str]
"""What a constraint is written in, and its text."""


class StructuredOutputGrammar(Protocol):
    """A compiled grammar, at some place in an output."""

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Take tokens; False if one of them is not allowed there."""
        ...

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The tokens that are allowed there, from the first on; nothing is taken."""
        ...


@dataclass(slots=True)
class StructuredOutputRequest:
    """A request's grammar. Whoever compiles it sets :attr:`grammar`, at once or to a future."""

    params: StructuredOutputsParams
    compiling: Future[Any] | None = None
    compiled: StructuredOutputGrammar | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None

    @staticmethod
    def from_sampling_params(
        params: SamplingParams | None,
        reasoning_ended: bool | None = None,
        reasoning_parser_kwargs: dict[str, Any] | None = None,
    ) -> "StructuredOutputRequest | None":
        """What those parameters constrain; None if they do not."""
        wanted = None if params is None else params.structured_outputs
        if wanted is None or wanted.all_constraints_none():
            return None
        return StructuredOutputRequest(
            wanted,
            reasoning_ended=reasoning_ended,
            reasoning_parser_kwargs=reasoning_parser_kwargs,
        )

    @property
    def grammar(self) -> StructuredOutputGrammar | None:
        """The grammar, if it is compiled."""
        if self.compiling is not None and self.compiling.done():
            self.compiled, self.compiling = self.compiling.result(), None
        return self.compiled

    @grammar.setter
    def grammar(self, grammar: "StructuredOutputGrammar | Future[Any]") -> None:
        if isinstance(grammar, Future):
            self.compiling = grammar
        else:
            self.compiled, self.compiling = grammar, None

    @property
    def structured_output_key(self) -> StructuredOutputKey:
        """What is compiled: equal keys, equal grammars."""
        return get_structured_output_key(self.params)

    @property
    def is_grammar_ready(self) -> bool:
        """Whether nothing is being compiled any more."""
        return self.compiling is None or self.compiling.done()


def get_structured_output_key(params: StructuredOutputsParams) -> StructuredOutputKey:
    """By what a constraint is known. Raises ``ValueError`` where there is none."""
    options = StructuredOutputOptions
    if params.json is not None:
        return options.JSON, _as_text(params.json)
    if params.json_object:
        return options.JSON_OBJECT, ""
    if params.regex is not None:
        return options.REGEX, params.regex
    if params.choice is not None:
        return options.CHOICE, _as_text(params.choice)
    if params.grammar is not None:
        return options.GRAMMAR, params.grammar
    if params.structural_tag is not None:
        return options.STRUCTURAL_TAG, params.structural_tag
    raise ValueError("nothing is constrained")


def _as_text(given: object) -> str:
    """A schema or a choice as JSON, unless it is text already."""
    return given if isinstance(given, str) else json.dumps(given)
