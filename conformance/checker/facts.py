"""The environment of a replay: what a trace tells about requests, in place of their tokens."""

from typing import Any

from msgspec import UNSET

from nullblock.conformance.trace.records import Add, Header, Output
from nullblock.spec import facts
from nullblock.spec.concrete import MAPS, State
from nullblock.spec.indexed import IndexedEnv
from nullblock.spec.profiles import Semantics
from nullblock.spec.state import EOS, FIELDS, PLAIN, STOP_ID

NO_CHAIN = -1
"""The chain of a block that is not full yet: no block carries it."""
OF_REQUESTS = tuple(f for f in MAPS if FIELDS[f].startswith("R>"))


def constants(header: Header, semantics: Semantics) -> facts.Config:
    """What the rules need of a trace's configuration."""
    c = header.config
    return facts.Config(
        num_blocks=c.num_blocks,
        block_size=c.block_size,
        max_num_scheduled_tokens=c.max_num_scheduled_tokens,
        max_num_seqs=c.max_num_seqs,
        max_model_len=c.max_model_len,
        long_prefill_token_threshold=c.long_prefill_token_threshold,
        enable_chunked_prefill=c.enable_chunked_prefill,
        enable_prefix_caching=c.enable_prefix_caching,
        scheduler_reserve_full_isl=c.scheduler_reserve_full_isl,
        policy=c.policy,
        semantics=semantics,
    )


class Recorded(IndexedEnv):
    """Chains and token kinds as recorded. Memory: the requests alive."""

    def __init__(self, config: facts.Config) -> None:
        super().__init__(config)
        self.chains: dict[int, list[int]] = {}
        self.kinds: dict[int, int] = {}
        self.verdicts: list[tuple[int, Any]] = []
        """Of the update under way: whose token was taken, and what the stop check said."""

    def introduce(self, add: Add) -> None:
        """Learn what an arrival tells."""
        arrival = 0.0 if add.arrival is UNSET else float(add.arrival)
        self.requests[add.id] = facts.Request(
            id=(0.0 if add.tie is UNSET else add.tie, add.id),
            prompt_len=add.prompt,
            max_tokens=add.max_tokens,
            min_tokens=add.min_tokens,
            priority=add.priority,
            arrival=arrival,
            skip_reading_prefix_cache=add.skip_reading_prefix_cache,
        )
        runs = () if add.chain is UNSET else add.chain
        self.chains[add.id] = [n for first, many in runs for n in range(first, first + many)]

    def sampled(self, output: Output) -> None:
        """Learn what a frame tells."""
        self.kinds = {r: EOS for r, _ in output.eos} | {r: STOP_ID for r, _ in output.stop}
        for r, number in () if output.chain is UNSET else output.chain:
            self.chains[r].append(number)
        self.verdicts = []

    def forget(self, s: State) -> None:
        """Drop everything about requests that are gone, between steps."""
        gone = [r for r in self.requests if s.stage[r] == 0 and r not in s.finished]  # type: ignore[attr-defined]
        for r in gone:
            del self.requests[r], self.chains[r]
            for f in OF_REQUESTS:
                getattr(s, f).pop(r, None)
            i = 0
            while s.tab.pop((r, i), None) is not None:  # type: ignore[attr-defined]
                i += 1

    def want(self, r: Any, i: int) -> int:
        chain = self.chains[r]
        return chain[i] if i < len(chain) else NO_CHAIN

    def last_token(self, s: State, r: Any) -> int:
        return self.kinds.get(r, PLAIN)

    def note(self, s: State, r: Any, why: Any) -> None:
        self.verdicts.append((r, why))
