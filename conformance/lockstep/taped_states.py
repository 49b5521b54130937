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
    whose first blocks are said to be cached, or that have lost theirs since; one that cannot be
    learnt so gets a number that no chain has.
    """

    def __init__(
        self, engine: Engine, scenario: Scenario, write: Callable[[Record], None], **options: Any
    ) -> None:
        super().__init__(engine, scenario, write, **options)
        self.hashes: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.tables: dict[str, list[int]] = {}
        """Blocks by request, as they were shown last."""
        self.has_drafts = scenario.config.num_spec_tokens > 0
        self.chunks: set[str] = set()
        """Whose last step left them short of a token."""

    def schedule(self) -> Fields:
        """Record a step and the state after it."""
        decided = super().schedule()
        if self.has_drafts:
            self.chunks -= set(decided["order"])
            self.chunks |= {id for id in decided["order"] if self.is_prefill_chunk(id)}
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
        self.learn_all(shown["requests"], hashes)
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

    def learn_all(self, requests: dict[str, Fields], hashes: dict[int, str]) -> None:
        """What the tables of requests say about hashes, and those of who has lost his since."""
        tables = {id: request["blocks"][0] for id, request in requests.items()}
        for id, request in requests.items():
            self.learn(id, tables[id][: request["num_cached_block"][0] or 0], hashes)
        for id, table in self.tables.items():
            # Whoever has just ended, or was just preempted, may have cached blocks before.
            if tables.get(id, [])[: len(table)] != table:
                self.learn(id, table, hashes)
        self.tables = tables

    def learn(self, id: str, blocks: list[int], hashes: dict[int, str]) -> None:
        """Which chain a hash stands for: those of a request's first blocks."""
        for block, chain in zip(blocks, self.chain[id], strict=False):
            if block in hashes:
                self.hashes.setdefault(hashes[block], chain)

    def chain_of(self, hash: str) -> int:
        """The chain number that stands for a hash."""
        if hash in self.hashes:
            return self.hashes[hash]
        return 2**20 + self.unknown.setdefault(hash, len(self.unknown))

    def request(self, id: str, shown: Fields) -> RequestState:
        """One request of a state."""
        cached = shown["num_cached_block"]
        return RequestState(
            id=self.number(id),
            status=shown["status"],
            computed=shown["computed"],
            tokens=shown["tokens"],
            blocks=shown["blocks"],
            **self.facts(self.requests[id]),
            num_cached=UNSET if None in cached else cached,
            placeholders=shown["placeholders"],
            discard=shown["discard"],
            preemptions=shown["preemptions"],
            drafts=shown["spec"],
            chunk=id in self.chunks,
        )
