"""Grammars without a language: a scenario says which token they reject, and when they compile."""

from collections.abc import Collection
from typing import Any


class PlayedGrammar:
    """A compiled grammar that accepts every token but those it is told to reject.

    Args:
        scripted: an arrival's ``grammar``. ``rejects`` lists tokens, ``reject_at`` is the number
            of a token (0 is the first that the grammar sees), ``after`` says how many outputs come
            before it applies, as where a model may think first.
    """

    def __init__(self, scripted: dict[str, Any]) -> None:
        self.is_ready = bool(scripted.get("ready", True))
        self.rejects: Collection[int] = scripted.get("rejects", ())
        self.reject_at: int | None = scripted.get("reject_at")
        self.after = int(scripted.get("after", 0))
        self.num_seen = 0

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Take tokens until one is rejected; whether none was."""
        return self._accept(tokens) == len(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The tokens that would be accepted, from the first on; nothing is taken."""
        before = self.num_seen
        accepted = tokens[: self._accept(tokens)]
        self.num_seen = before
        return accepted

    def _accept(self, tokens: list[int]) -> int:
        for number, token in enumerate(tokens):
            if token in self.rejects or self.num_seen == self.reject_at:
                return number
            self.num_seen += 1
        return len(tokens)


class PlayedGrammars:
    """The structured-output manager, as far as a scheduler asks it."""

    def should_advance(self, request: Any) -> bool:
        """Whether the request's grammar is to see its new tokens."""
        structured = request.structured_output_request
        if structured is None:
            return False
        return bool(request.num_output_tokens > structured.grammar.after)

    def accept_tokens(self, request: Any, tokens: list[int]) -> bool:
        """Let the request's grammar see its new tokens; later releases ask this instead."""
        if not self.should_advance(request):
            return True
        structured = request.structured_output_request
        return bool(structured.grammar.accept_tokens(request.request_id, tokens))

    def validate_tokens(self, request: Any, tokens: list[int]) -> list[int]:
        """The drafts that a request's grammar would accept; later releases ask this."""
        if not self.should_advance(request):
            return tokens
        accepted: list[int] = request.structured_output_request.grammar.validate_tokens(tokens)
        return accepted

    def grammar_bitmask(self, requests: Any, ids: list[str], drafts: Any) -> list[str]:
        """For a mask: whom it is made for."""
        return ids
