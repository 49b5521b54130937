"""What is asked of an engine that is recorded, and not recorded itself: it decides nothing."""

from typing import cast

from nullblock.conformance.drafting import Drafted, Drafting
from nullblock.conformance.engine import Dump, Engine, Fields, FullEngine, Waits


class PassedOn:
    """Those methods of :class:`nullblock.conformance.engine.Engine`, around another engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pooled: frozenset[str] = frozenset()
        """Whose vectors the next update brings."""

    def pool(self, ids: list[str]) -> None:
        """Passed on: a vector is told with the output that brings it."""
        cast(FullEngine, self.engine).pool(ids)
        self.pooled = frozenset(ids)

    def grammars(self) -> Fields:
        """As the engine says: what workers mask decides nothing."""
        return cast(Waits, self.engine).grammars()

    def match_remote(self, matched: dict[str, int | None]) -> None:
        """Passed on: what is told is what the connector answers when it is asked."""
        cast(Waits, self.engine).match_remote(matched)

    def fill_in(self, drafts: Drafted) -> Fields:
        """As the engine does it: which drafts a step has decides nothing, and is not told."""
        return cast(Drafting, self.engine).fill_in(drafts)

    def spec_stats(self) -> Fields | None:
        """As the engine says."""
        return cast(Drafting, self.engine).spec_stats()

    def has_unfinished(self) -> bool:
        """As the engine says; so are the others."""
        return self.engine.has_unfinished()

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self.engine.has_requests()

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a request."""
        return self.engine.num_tokens(id)

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return self.engine.is_prefill_chunk(id)

    def state(self, dump: Dump) -> Fields | None:
        """The state of a line."""
        return self.engine.state(dump)
