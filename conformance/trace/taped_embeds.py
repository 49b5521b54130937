"""Prompts that are embeddings, of an engine of ours: what a trace numbers their blocks by."""

from nullblock.conformance.engine import NewRequest
from nullblock.conformance.played.encoder import Embeds
from nullblock.spec.keys import embeds_in


class TapedEmbeds:
    """Knows the embeddings of those requests whose prompt has some."""

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {}

    def prompt(self, request: NewRequest) -> list[int]:
        """The tokens of a prompt: where it is embeddings and nothing else, all of them are 0."""
        self.rows.pop(request.id, None)
        if request.prompt_embeds is None:
            return list(request.prompt)
        many = len(request.prompt)
        self.rows[request.id] = Embeds.of(request.prompt_embeds.seed, many).rows
        return list(request.prompt) if request.prompt_embeds.with_tokens else [0] * many

    def keys(self, id: str, start: int, size: int) -> tuple[str, ...]:
        """What tells a block that begins there from another one with the same tokens."""
        found = embeds_in(self.rows.get(id), start, start + size)
        return tuple(digest.hex() for digest in found)
