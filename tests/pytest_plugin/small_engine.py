"""An engine of another shape: first come, first served, no prefix cache. It knows no vLLM.

The adapter at the end is all that nullblock asks of it: ``small_engine:create``.
"""

from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.engine import Dump, Feature, Fields, NewRequest
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics


@dataclass
class Job:
    """A request on its way."""

    name: str
    tokens: list[int]
    prompt: int
    most: int
    pages: list[int] = field(default_factory=list)
    done: int = 0
    evictions: int = 0
    is_known: bool = False
    """Whether the worker has heard of it."""


class Batcher:
    """Continuous batching over pages."""

    def __init__(self, config: Config) -> None:
        self.c = config
        self.spare = list(range(1, config.num_blocks))
        self.queue: list[Job] = []
        self.active: list[Job] = []
        self.ended: set[str] = set()
        self.last: set[str] = set()
        self.limit = config.max_num_scheduled_tokens or config.max_num_batched_tokens

    def jobs(self) -> dict[str, Job]:
        """All jobs by name."""
        return {job.name: job for job in self.active + self.queue}

    def pages_for(self, tokens: int) -> int:
        """Pages that so many tokens need."""
        return -(-min(tokens, self.c.max_model_len) // self.c.block_size)

    def cut(self, tokens: int) -> int:
        """At most the threshold, if there is one."""
        threshold = self.c.long_prefill_token_threshold
        return threshold if 0 < threshold < tokens else tokens

    def grow(self, job: Job, tokens: int) -> list[int] | None:
        """New pages so that a job has room for so many tokens; None: there are too few."""
        wanted = self.pages_for(tokens) - len(job.pages)
        if wanted > len(self.spare):
            return None
        new, self.spare = self.spare[: max(0, wanted)], self.spare[max(0, wanted) :]
        job.pages += new
        return new

    def release(self, job: Job) -> None:
        """Give all pages back, the last first."""
        self.spare += reversed(job.pages)
        job.pages, job.done = [], 0

    def evict(self) -> Job:
        """Send somebody back to the queue."""
        job = self.active.pop()
        self.release(job)
        job.evictions += 1
        self.queue.insert(0, job)
        return job

    def plan(self) -> tuple[dict[str, int], list[Fields], list[Fields], list[str]]:
        """One step: tokens by job, what is new, what goes on, and who was evicted."""
        left, granted, evicted = self.limit, {}, []
        new: list[Fields] = []
        cached: list[Fields] = []
        place = 0
        while place < len(self.active) and left:
            job = self.active[place]
            n = min(self.cut(len(job.tokens) - job.done), left)
            n = min(n, self.c.max_model_len - 1 - job.done)
            place += 1
            if n == 0:
                continue
            pages = self.grow(job, job.done + n)
            while pages is None and job in self.active:
                evicted.append(self.evict())
                if job in self.active:
                    pages = self.grow(job, job.done + n)
            if pages is None:
                break
            granted[job.name], left = n, left - n
            cached.append(self.told(job, pages, resumed=False))
        if not evicted:
            self.admit(left, granted, new, cached)
        for job in self.active:
            job.done += granted.get(job.name, 0)
        self.last = set(granted)
        return granted, new, cached, [job.name for job in evicted]

    def admit(
        self, left: int, granted: dict[str, int], new: list[Fields], cached: list[Fields]
    ) -> None:
        """Let the head of the queue in, as long as it fits."""
        while self.queue and left and len(self.active) < self.c.max_num_seqs:
            job = self.queue[0]
            n = self.cut(len(job.tokens))
            if n > left and not self.c.enable_chunked_prefill:
                return
            n = min(n, left)
            whole = self.pages_for(len(job.tokens))
            if self.c.scheduler_reserve_full_isl and whole > len(self.spare):
                return
            if self.grow(job, n) is None:
                return
            self.active.append(self.queue.pop(0))
            granted[job.name], left = n, left - n
            if job.is_known:
                cached.append(self.told(job, job.pages, resumed=True))
            else:
                pages = {"blocks": [list(job.pages)], "prefill_len": None}
                new.append({"id": job.name, "computed": 0, "prompt_len": job.prompt, **pages})
            job.is_known = True

    def told(self, job: Job, pages: list[int], resumed: bool) -> Fields:
        """What the worker is told of a job that it knows."""
        return {
            "id": job.name,
            "new_blocks": [list(pages)] if pages else None,
            "computed": job.done,
            "num_output": len(job.tokens) - job.prompt,
            "resumed": resumed,
            "all_token_ids": None if job.name in self.last else len(job.tokens),
        }


class Adapter:
    """Implements ``nullblock.conformance.engine.Engine`` around a batcher."""

    features = frozenset({Feature.unchunked, Feature.abort})

    def __init__(self, batcher: Batcher) -> None:
        self.b = batcher
        self.chunks: set[str] = set()
        self.flight: dict[str, Job] = {}

    def add(self, request: NewRequest) -> None:
        """Queue a request."""
        tokens = list(request.prompt)
        self.b.queue.append(Job(request.id, tokens, len(tokens), request.max_tokens))

    def schedule(self) -> Fields:
        """Decide one step."""
        granted, new, cached, evicted = self.b.plan()
        jobs = self.b.jobs()
        self.chunks = {name for name in granted if jobs[name].done < len(jobs[name].tokens)}
        self.flight = {name: jobs[name] for name in granted}
        ended, self.b.ended = sorted(self.b.ended), set()
        return {
            "num_scheduled_tokens": granted,
            "order": list(granted),
            "total": sum(granted.values()),
            "new": new,
            "cached": cached,
            "new_token_ids": [],
            "spec": {},
            "preempted": sorted(evicted),
            "finished": ended,
            "num_common_prefix_blocks": [0],
            "new_block_ids_to_zero": None,
        }

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the model sampled."""
        outputs = []
        for name, tokens in sampled.items():
            job = self.b.jobs().get(name)
            if job is None or not tokens:
                continue
            job.tokens += tokens
            full = len(job.tokens) >= self.b.c.max_model_len
            finish = "length" if full or len(job.tokens) - job.prompt >= job.most else None
            if finish:
                self.end(job)
            outputs.append({"id": name, "tokens": tokens, "finish": finish, "stop_reason": None})
        return outputs

    def end(self, job: Job) -> None:
        """A job is over."""
        (self.b.active if job in self.b.active else self.b.queue).remove(job)
        self.b.release(job)
        self.b.ended.add(job.name)

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End jobs from outside."""
        jobs = self.b.jobs()
        ended = [name for name in (jobs if ids is None else ids) if name in jobs]
        for name in ended:
            self.end(jobs[name])
        return ended

    def has_unfinished(self) -> bool:
        """Whether there is work."""
        return bool(self.b.active or self.b.queue)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self.has_unfinished() or bool(self.b.ended)

    def num_tokens(self, id: str) -> int | None:
        """Tokens of a job; None if it is over."""
        job = self.b.jobs().get(id)
        return None if job is None else len(job.tokens)

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the last step left tokens of the job uncomputed."""
        return id in self.chunks

    def state(self, dump: Dump) -> Fields | None:
        """Nothing: what it decides is all that is compared."""
        return None


class SkipsTheHead(Batcher):
    """Lets whoever fits overtake a head that does not."""

    def admit(self, left: int, *told: Any) -> None:
        """Try everybody in turn."""
        before = len(self.active)
        super().admit(left, *told)
        if len(self.active) == before and len(self.queue) > 1:
            self.queue.append(self.queue.pop(0))
            super().admit(left, *told)


def create(config: Config, semantics: Semantics) -> Adapter:
    """An engine under a configuration."""
    return Adapter(Batcher(config))


def create_defective(config: Config, semantics: Semantics) -> Adapter:
    """One with a defect."""
    return Adapter(SkipsTheHead(config))
