"""An engine with one request at a time and no blocks: what the driver does shows through."""

from nullblock.conformance.engine import ALL_FEATURES, Dump, Feature, Fields, NewRequest


class FakeEngine:
    """Schedules the only request it knows, one token a step, and stops it at ``max_tokens``.

    ``calls`` notes what the driver asked for that is not a question.
    """

    def __init__(self, raise_on: str = "", features: frozenset[Feature] = ALL_FEATURES) -> None:
        self.does = features
        self.calls: list[tuple[object, ...]] = []
        self.raise_on = raise_on
        self.live: dict[str, int] = {}
        self.left: dict[str, int] = {}
        self.chunk = False

    @property
    def features(self) -> frozenset[Feature]:
        """As the test has set it."""
        return self.does

    def kv_events(self) -> list[Fields]:
        """One for each time it was asked."""
        self._note("kv_events")
        return [{"t": "Asked"}]

    def _note(self, *call: object) -> None:
        self.calls.append(call)
        if call[0] == self.raise_on:
            raise RuntimeError(f"{self.raise_on} on purpose")

    def add(self, request: NewRequest) -> None:
        """Queue a request."""
        self._note("add", request)
        self.live[request.id] = len(request.prompt)
        self.left[request.id] = request.max_tokens

    def schedule(self) -> Fields:
        """One token for whatever is alive."""
        self._note("schedule")
        return {"order": list(self.live), "total": len(self.live)}

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Append, stop and report."""
        self._note("update", {id: list(tokens) for id, tokens in sampled.items()})
        outputs: list[Fields] = []
        for id, tokens in sampled.items():
            self.live[id] += len(tokens)
            self.left[id] -= len(tokens)
            outputs.append({"id": id, "tokens": list(tokens)})
            tokens.clear()
            if self.left[id] <= 0:
                del self.live[id]
        return outputs

    def propose(self, drafts: dict[str, list[int]]) -> None:
        """Drafts, which this engine forgets."""
        self._note("propose", drafts)

    def fill_in(self, drafts: dict[str, list[int]]) -> Fields:
        """Drafts that fit no step, since none has any."""
        self._note("fill_in", drafts)
        return {"spec": {}, "invalid": {}}

    def spec_stats(self) -> Fields | None:
        """Nothing is counted."""
        return None

    def counts(self) -> Fields:
        """All it knows."""
        return {"live": len(self.live)}

    def pool(self, ids: list[str]) -> None:
        """Noted only."""
        self._note("pool", ids)

    def finished_by_client(self) -> dict[int, list[str]]:
        """Nobody is told."""
        return {}

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End requests."""
        self._note("abort", ids, status)
        ended = [id for id in (self.live if ids is None else ids) if id in self.live]
        for id in ended:
            del self.live[id]
        return ended

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Nothing to empty."""
        self._note("reset_prefix_cache", reset_running)
        return False

    def pause(self, state: str) -> None:
        """Noted only."""
        self._note("pause", state)

    def evict_blocks(self, ids: list[int]) -> None:
        """Noted only."""
        self._note("evict_blocks", ids)

    def has_unfinished(self) -> bool:
        """Whether a request is alive."""
        return bool(self.live)

    def has_requests(self) -> bool:
        """Whether a request is alive."""
        return bool(self.live)

    def num_tokens(self, id: str) -> int | None:
        """Tokens of a request that is alive."""
        return self.live.get(id)

    def is_prefill_chunk(self, id: str) -> bool:
        """As the test has set it."""
        return self.chunk

    def state(self, dump: Dump) -> Fields | None:
        """The dump's name."""
        return {"dump": dump}
