"""Records an engine beside the rules together with its whole states, as far as it shows them."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from nullblock.conformance.engine import Engine, Fields
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.trace.records import Record, RequestState, State
from nullblock.conformance.trace.tape import Tape


class StateTape(Tape):
    """A tape that writes a ``state`` record after everything that decides.

    A hash is the chain number of the block that carries it, learnt from the tables of requests
    whose first blocks are said to be cached; one that cannot be learnt so gets a number that no
    chain has.
    """

    def __init__(
        self, engine: Engine, scenario: Scenario, write: Callable[[Record], None], **options: Any
    ) -> None:
        super().__init__(engine, scenario, write, **options)
        self.hashes: dict[str, int] = {}
        self.unknown: dict[str, int] = {}

    def schedule(self) -> Fields:
        """Record a step and the state after it."""
        decided = super().schedule()
        self.write_state()
        return decided

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Record an update and the state after it."""
        outputs = super().update(sampled)
        self.write_state()
        return outputs

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """Record an abort and the state after it."""
        aborted = super().abort(ids, status)
        self.write_state()
        return aborted

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Record a reset and the state after it."""
        ok = super().reset_prefix_cache(reset_running)
        self.write_state()
        return ok

    def write_state(self) -> None:
        """What the engine shows of its state, if it shows its pool."""
        shown = self.engine.state("full")
        if shown is None or "free_queue" not in shown:
            return
        hashes = {int(block): hash for block, hash in shown["block_hash"].items()}
        for id, request in shown["requests"].items():
            self.learn(id, request, hashes)
        self.write(
            State(
                step=self.steps,
                running=self.all(shown["running"]),
                waiting=self.all([*shown["skipped_waiting"], *shown["waiting"]]),
                requests=[self.request(id, one) for id, one in shown["requests"].items()],
                free_queue=shown["free_queue"],
                ref_cnt=[(int(block), n) for block, n in shown["ref_cnt"].items()],
                chains=[(block, self.chain_of(hash)) for block, hash in hashes.items()]
                if self.caching
                else UNSET,
            )
        )

    def learn(self, id: str, request: Fields, hashes: dict[int, str]) -> None:
        """Which chain a hash stands for."""
        cached = request["num_cached_block"][0] or 0
        for block, chain in zip(request["blocks"][0][:cached], self.chain[id], strict=False):
            if block in hashes:
                self.hashes.setdefault(hashes[block], chain)

    def chain_of(self, hash: str) -> int:
        """The chain number that stands for a hash."""
        if hash in self.hashes:
            return self.hashes[hash]
        return 2**20 + self.unknown.setdefault(hash, len(self.unknown))

    def request(self, id: str, shown: Fields) -> RequestState:
        """One request of a state."""
        return RequestState(
            id=self.number(id),
            status=shown["status"],
            computed=shown["computed"],
            tokens=shown["tokens"],
            blocks=shown["blocks"],
            prompt=len(self.requests[id].prompt),
            max_tokens=self.requests[id].max_tokens,
            placeholders=shown["placeholders"],
            discard=shown["discard"],
            preemptions=shown["preemptions"],
        )
