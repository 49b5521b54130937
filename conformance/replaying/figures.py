"""What a replay is measured by: counts, levels over time, and how long requests took."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from msgspec.json import encode

from nullblock.conformance.engine import Fields
from nullblock.conformance.replaying.engine import Pool, Request
from nullblock.conformance.replaying.seen import Seen
from nullblock.conformance.replaying.series import Distribution, Timeline


@dataclass(slots=True)
class Live:
    """A request that has arrived and has not ended."""

    request: Request
    prompt_len: int
    running: bool = False
    computed: int = 0
    """Tokens that are computed, or are being, as the engine counts them."""
    high: int = 0
    """The most tokens that ever were: what is computed below it is computed again."""
    taken: int = 0
    """Tokens of output so far."""
    first_scheduled: float | None = None
    first_token: float | None = None


@dataclass(slots=True)
class Totals:
    """Counts over the whole replay."""

    arrived: int = 0
    finished: int = 0
    rejected: int = 0
    steps: int = 0
    prefill_tokens: int = 0
    """Prompt tokens computed for the first time."""
    decode_tokens: int = 0
    """Tokens of output computed for the first time."""
    recomputed_tokens: int = 0
    """Tokens that had been computed before and were lost by a preemption."""
    looked_up_tokens: int = 0
    """Prompt tokens of requests when they were admitted first."""
    hit_tokens: int = 0
    """Of them, found in the prefix cache."""
    looked_up_blocks: int = 0
    hit_blocks: int = 0
    seen_tokens: int = 0
    """Prompt tokens that had arrived before: what an unlimited cache could hit."""
    resumed_hit_tokens: int = 0
    """Found again by requests that came back after a preemption."""
    preemptions: int = 0
    resumptions: int = 0
    evictions: int = 0


@dataclass(slots=True)
class Waits:
    """Durations in seconds on the clock."""

    queue: Distribution = field(default_factory=Distribution)
    """From arrival until first scheduled."""
    first_token: Distribution = field(default_factory=Distribution)
    """From arrival until the first token is there."""
    end: Distribution = field(default_factory=Distribution)
    """From arrival until the end."""
    between_tokens: Distribution = field(default_factory=Distribution)
    """A request's mean time from token to token, after its first."""


class Figures:
    """Collects while a replay goes on. Memory: the live requests."""

    def __init__(self, block_size: int, usable_blocks: int) -> None:
        self.block_size, self.usable = block_size, usable_blocks
        self.totals, self.waits, self.timeline = Totals(), Waits(), Timeline()
        self.live: dict[str, Live] = {}
        self.running = 0
        self.seen = Seen()
        self._digest = blake2b(digest_size=16)
        self.clock = 0.0
        """Until when the levels are known."""
        self._levels: dict[str, float] = dict.fromkeys(("running", "waiting", "held", "cached"), 0)
        self._empty = usable_blocks
        """Free blocks that cache nothing, as far as known: they change slowly."""
        self._looked: tuple[float, int] | None = None
        self._sums = dict.fromkeys(self._levels, 0.0)
        self.peaks = dict.fromkeys(self._levels, 0.0)

    def arrive(self, request: Request) -> None:
        """A request reaches the engine."""
        self.live[request.id] = Live(request, request.content.length)
        self.totals.arrived += 1
        self.totals.seen_tokens += self.seen.arrive(request.content)

    def scheduled(self, decided: Fields, now: float) -> None:
        """A step is decided."""
        totals, here = self.totals, self.timeline.at(now).counts
        totals.steps += 1
        self._digest.update(_decisions(decided))
        for new in decided["new"]:
            self._admitted(new, now)
        for known in decided["cached"]:
            if known["resumed"]:
                one = self.live[known["id"]]
                one.running, one.computed = True, known["computed"]
                self.running += 1
                totals.resumptions += 1
                totals.resumed_hit_tokens += known["computed"]
        lost = self._preempted(decided["preempted"])
        prefill, decode, again = self._tokens(decided["num_scheduled_tokens"])
        totals.prefill_tokens += prefill
        totals.decode_tokens += decode
        totals.recomputed_tokens += again
        happened = {"prefill": prefill, "decode": decode, "again": again, "preemptions": lost}
        happened["steps"] = int(decided["total"] > 0)
        for name, value in happened.items():
            if value:
                here[name] = here.get(name, 0.0) + value

    def _admitted(self, new: dict[str, Any], now: float) -> None:
        one, hit = self.live[new["id"]], new["computed"]
        one.running, one.computed, one.high = True, hit, hit
        one.first_scheduled = now
        self.running += 1
        totals = self.totals
        totals.looked_up_tokens += one.prompt_len
        totals.hit_tokens += hit
        totals.looked_up_blocks += one.prompt_len // self.block_size
        totals.hit_blocks += hit // self.block_size
        self.waits.queue.add(now - one.request.arrival)
        here = self.timeline.at(now).counts
        here["looked_up"] = here.get("looked_up", 0.0) + one.prompt_len
        here["hit"] = here.get("hit", 0.0) + hit

    def _preempted(self, ids: list[str]) -> int:
        for id in ids:
            if id in self.live and self.live[id].running:
                self.live[id].running = False
                self.live[id].computed = 0
                self.running -= 1
        self.totals.preemptions += len(ids)
        return len(ids)

    def _tokens(self, scheduled: dict[str, int]) -> tuple[int, int, int]:
        """Tokens of a step: of prompts, of outputs, and computed again."""
        prefill = decode = again = 0
        live = self.live
        for id, many in scheduled.items():
            one = live[id]
            begin = one.computed
            end = one.computed = begin + many
            if begin < one.high:
                again += min(one.high, end) - begin
                begin = one.high
            if end > begin:
                prompt = max(0, min(end, one.prompt_len) - begin)
                prefill += prompt
                decode += end - begin - prompt
                one.high = end
        return prefill, decode, again

    def updated(self, outputs: Iterable[Fields], now: float) -> list[int]:
        """Tokens have come; the numbers of the requests that ended."""
        ended = []
        for output in outputs:
            one = self.live.get(output["id"])
            if one is None:
                continue
            if output["tokens"]:
                one.taken += len(output["tokens"])
                if one.first_token is None:
                    one.first_token = now
                    self.waits.first_token.add(now - one.request.arrival)
            if output["finish"] is not None:
                self._ended(one, output["finish"], now)
                ended.append(one.request.number)
        return ended

    def _ended(self, one: Live, why: str, now: float) -> None:
        del self.live[one.request.id]
        self.running -= one.running
        if why == "rejected":
            self.totals.rejected += 1
            return
        self.totals.finished += 1
        self.waits.end.add(now - one.request.arrival)
        if one.first_token is not None and one.taken > 1:
            self.waits.between_tokens.add((now - one.first_token) / (one.taken - 1))

    def decisions(self) -> str:
        """A digest of who was scheduled with how many tokens, hit how many, and was preempted, in
        every step: equal for engines that decided the same.
        """
        return self._digest.hexdigest()

    def needs_pool(self, now: float) -> bool:
        """Whether these are the first levels in their stretch of time: the pool is looked through
        once in each.
        """
        stretch = (self.timeline.width, int(now / self.timeline.width))
        first, self._looked = stretch != self._looked, stretch
        return first

    def stand(self, now: float, num_free: int, pool: Pool | None) -> None:
        """The levels from now on, until they are told again."""
        self.until(now)
        levels = self._levels
        levels["running"] = self.running
        levels["waiting"] = len(self.live) - self.running
        levels["held"] = self.usable - num_free
        if pool is not None:
            self._empty = num_free - pool.cached
        levels["cached"] = max(0, num_free - self._empty)
        for name, value in levels.items():
            self.peaks[name] = max(self.peaks[name], value)

    def until(self, now: float) -> None:
        """The levels have stood until now."""
        if now > self.clock:
            self.timeline.hold(self.clock, now, self._levels)
            for name, value in self._levels.items():
                self._sums[name] += value * (now - self.clock)
            self.clock = now

    def mean(self, level: str) -> float:
        """A level's mean over all time."""
        return self._sums[level] / self.clock if self.clock else 0.0


def _decisions(decided: Fields) -> bytes:
    """What every engine tells of a step."""
    entered = [(new["id"], new["computed"]) for new in decided["new"]]
    entered += [(one["id"], one["computed"]) for one in decided["cached"] if one["resumed"]]
    return encode((list(decided["num_scheduled_tokens"].items()), entered, decided["preempted"]))
