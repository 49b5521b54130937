"""The trace of a replay on an engine of this project.

A prompt is told by its chain numbers, counted as they appear. Memory: the live requests, and what
the pool may still cache.
"""

from collections.abc import Callable, Iterable

from msgspec import UNSET, UnsetType

from nullblock.conformance.engine import Fields
from nullblock.conformance.replaying.engine import Request, number_of
from nullblock.conformance.replaying.figures import Live
from nullblock.conformance.replaying.numbering import Numbering
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.trace import records
from nullblock.conformance.trace.records import PostState, Record


class NoRecorder:
    """Records nothing; an engine that records itself needs no other."""

    def add(self, request: Request) -> None:
        """A request arrives."""

    def schedule(self, decided: Fields, num_free: int) -> None:
        """A step is decided."""

    def update(
        self,
        frame: dict[str, list[int]],
        outputs: list[Fields],
        live: dict[str, Live],
        num_free: int,
    ) -> None:
        """Tokens have come; ``live`` is still as it was before."""

    def raised(self, during: str, type: str) -> None:
        """The engine raised an exception of that class."""


class Recorder(NoRecorder):
    """Writes records as the engine's decisions pass."""

    def __init__(self, config: Config, write: Callable[[Record], None]) -> None:
        self.write = write
        self.block_size, self.caching = config.block_size, config.enable_prefix_caching
        self.by_priority = config.policy == "priority"
        self.chains = Numbering(config.num_blocks)
        self.steps = self.updates = 0

    def add(self, request: Request) -> None:
        """A request arrives."""
        chain: list[records.Chain] | UnsetType = UNSET
        if self.caching:
            chain = self.chains.add(request.id, request.content.numbers(self.block_size))
        self.write(
            records.Add(
                id=request.number,
                prompt=request.content.length,
                max_tokens=request.max_tokens,
                arrival=request.arrival if self.by_priority else UNSET,
                tie=float(request.number) if self.by_priority else UNSET,
                chain=chain,
            )
        )

    def schedule(self, decided: Fields, num_free: int) -> None:
        """A step is decided."""
        self.steps += 1
        self._count_given_out(decided)
        scheduled = decided["num_scheduled_tokens"]
        self.write(
            records.Schedule(
                step=self.steps,
                ids=_numbers(scheduled),
                tokens=list(scheduled.values()),
                new=[
                    records.NewRequest(
                        id=number_of(new["id"]), computed=new["computed"], blocks=new["blocks"]
                    )
                    for new in decided["new"]
                ],
                cached=_cached(decided["cached"]) if decided["cached"] else UNSET,
                preempted=sorted(_numbers(decided["preempted"])),
                finished=sorted(_numbers(decided["finished"])),
                common_prefix=decided["num_common_prefix_blocks"],
                state=PostState(num_free=num_free),
            )
        )

    def _count_given_out(self, decided: Fields) -> None:
        """How many blocks left the free queue for new content."""
        for new in decided["new"]:
            blocks = sum(map(len, new["blocks"]))
            self.chains.given_out += blocks - new["computed"] // self.block_size
        for known in decided["cached"]:
            if known["new_blocks"] is not None:
                hits = known["computed"] // self.block_size if known["resumed"] else 0
                self.chains.given_out += sum(map(len, known["new_blocks"])) - hits

    def update(
        self,
        frame: dict[str, list[int]],
        outputs: list[Fields],
        live: dict[str, Live],
        num_free: int,
    ) -> None:
        """Tokens have come."""
        self.updates += 1
        ends = [id for id, tokens in frame.items() if tokens and _is_end(live[id], tokens)]
        filled = self._filled(outputs, live) if self.caching else UNSET
        self.write(
            records.Output(
                step=self.updates,
                ids=_numbers(frame),
                counts=[len(tokens) for tokens in frame.values()],
                eos=[(number_of(id), 0) for id in ends],
                chain=filled,
            )
        )
        self.write(
            records.Update(
                step=self.updates,
                ids=_numbers(output["id"] for output in outputs),
                tokens=[len(output["tokens"]) for output in outputs],
                finish=[_finish(output) for output in outputs if output["finish"] is not None],
                state=PostState(num_free=num_free),
            )
        )
        for output in outputs:
            if output["finish"] is not None:
                self.chains.remove(output["id"])

    def raised(self, during: str, type: str) -> None:
        """The engine raised: nothing after that can be explained."""
        self.write(records.Error(during=during, type=type))

    def _filled(self, outputs: list[Fields], live: dict[str, Live]) -> list[tuple[int, int]]:
        """The chain numbers of the blocks that these tokens fill."""
        size = self.block_size
        filled = []
        for output in outputs:
            one = live.get(output["id"])
            if one is None:
                continue
            tokens = one.prompt_len + one.taken
            number = one.request.number
            for _ in range(tokens // size, (tokens + len(output["tokens"])) // size):
                filled.append((number, self.chains.fresh()))
        return filled


def _numbers(ids: Iterable[str]) -> list[int]:
    return [number_of(id) for id in ids]


def _is_end(one: Live, tokens: list[int]) -> bool:
    return one.request.eos is not None and tokens[0] == one.request.eos


def _finish(output: Fields) -> records.Finish:
    id, reason = number_of(output["id"]), output["finish"]
    if reason == "rejected":
        return records.Finish(id=id, reason=reason, why=output["stop_reason"])
    return records.Finish(id=id, reason=reason)


def _cached(cached: list[Fields]) -> records.CachedRequests:
    return records.CachedRequests(
        ids=[number_of(one["id"]) for one in cached],
        computed=[one["computed"] for one in cached],
        num_output=[one["num_output"] for one in cached],
        blocks=[
            (number_of(one["id"]), one["new_blocks"])
            for one in cached
            if one["new_blocks"] is not None
        ],
        resumed=[number_of(one["id"]) for one in cached if one["resumed"]],
        all_tokens=[
            (number_of(one["id"]), one["all_token_ids"])
            for one in cached
            if one["all_token_ids"] is not None
        ],
    )
