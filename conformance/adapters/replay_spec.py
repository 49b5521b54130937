"""The specification under a workload: prompts by their chain numbers, without tokens."""

from collections import deque
from typing import Any

from nullblock.conformance.adapters import spec as adapter
from nullblock.conformance.adapters.spec_constants import constants
from nullblock.conformance.adapters.spec_drafts import Drafts
from nullblock.conformance.adapters.spec_remote import RemoteKV
from nullblock.conformance.adapters.spec_tokens import NO_CHAIN, Tokens
from nullblock.conformance.adapters.spec_waits import Grammars
from nullblock.conformance.engine import Fields
from nullblock.conformance.replaying.engine import Pool, ReplayEngine, Request, number_of
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.workloads.content import Numbers, output_number
from nullblock.spec import facts
from nullblock.spec.concrete import MAPS, State
from nullblock.spec.fields import FIELDS
from nullblock.spec.indexes import Hashes
from nullblock.spec.machine import events
from nullblock.spec.profiles import Semantics
from nullblock.spec.rejection import why_unservable

_OF_REQUESTS = tuple(field for field in MAPS if FIELDS[field].startswith(("R>", "T>")))
_KEPT_STEPS = 64
"""Steps after which nothing in flight speaks of a request that has ended."""


def create(config: Config, semantics: Semantics) -> ReplayEngine:
    """The specification under a configuration."""
    return _Spec(constants(config, semantics), config)


class _CountedHashes(Hashes):
    """Counts the blocks that lose their content."""

    def __init__(self) -> None:
        super().__init__()
        self.evictions = 0

    def __setitem__(self, b: Any, h: Any) -> None:
        self.evictions += h is None and b in self
        super().__setitem__(b, h)


class _Numbered(Tokens):
    """An environment that is told chain numbers, and keeps of each request its last token."""

    def __init__(
        self, config: facts.Config, drafts: Drafts, grammars: Grammars, remote: RemoteKV
    ) -> None:
        super().__init__(config, False, drafts, grammars, remote, config.block_size)
        self.numbers_of: dict[str, Numbers] = {}

    def blank(self, field: str) -> Any:
        return _CountedHashes() if field == "hsh" else super().blank(field)

    def introduce(self, r: Any) -> None:
        self.added[r.id] = r
        self.content[r.id] = []
        self.numbers_of[r.id] = r.content.numbers(self.block_size)
        self.requests[r.id] = facts.Request(
            id=r.id,
            prompt_len=r.content.length,
            max_tokens=r.max_tokens,
            arrival=r.arrival,
        )

    def want(self, r: Any, i: int) -> int:
        numbers = self.numbers_of[r]
        if i < len(numbers):
            return numbers[i] + 1  # 0 is NO_CHAIN
        state: Any = self.state
        if (i + 1) * self.block_size > state.ntok[r]:
            return NO_CHAIN
        return output_number(number_of(r), i) + 1

    def on_token(self, s: State, r: Any) -> None:
        # No workload has drafts: a step brings a request one token at most.
        self.content[r] = [self.incoming[r][0]]
        self.taken[r] = 1

    def forget(self, r: str) -> None:
        """Drop everything about a request that is gone for good."""
        s: Any = self.state
        for field in _OF_REQUESTS:
            getattr(s, field).pop(r, None)
        i = 0
        while s.tab.pop((r, i), None) is not None:
            i += 1
        known: dict[str, Any]
        for known in (self.added, self.content, self.numbers_of, self.requests):
            known.pop(r, None)


class _Spec(adapter._Spec):
    """Implements :class:`nullblock.conformance.replaying.engine.ReplayEngine`."""

    def __init__(self, config: facts.Config, scenario: Config) -> None:
        super().__init__(config, scenario)
        self.k: _Numbered = _Numbered(config, self.drafts, self.grammar, self.remote)
        self.s = self.k.start()
        self._gone: deque[tuple[int, str]] = deque()
        self._steps = 0

    def num_evictions(self) -> int:
        """Blocks that lost the content they cached, so far."""
        count: int = self.s.hsh.evictions
        return count

    def add(self, request: Request) -> None:  # type: ignore[override]
        """Queue a request, or note its rejection."""
        self.k.introduce(request)
        if not events.add(self.s, request.id):
            reason = why_unservable(self.config, request.content.length, request.max_tokens)
            assert reason is not None, "a rejection has a reason"
            self.rejected.append((self.k.client(request.id), request.id, reason))

    def schedule(self) -> Fields:
        """Decide one step."""
        self._steps += 1
        while self._gone and self._gone[0][0] + _KEPT_STEPS < self._steps:
            self.k.forget(self._gone.popleft()[1])
        return super().schedule()

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Apply the output of the oldest step in flight."""
        outputs = super().update(sampled)
        ended = (output["id"] for output in outputs if output["finish"] is not None)
        self._gone += [(self._steps, id) for id in ended]
        return outputs

    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        free: int = self.s.nfree
        return free

    def pool_use(self) -> Pool:
        """How the pool is used."""
        s = self.s
        cached = sum(not s.ref[b] for b in s.hsh)
        return Pool(held=self.k.usable - s.nfree, cached=cached)

    def finish(self) -> None:
        """It does not record itself."""

    def close(self) -> None:
        """Nothing is held outside this process."""
