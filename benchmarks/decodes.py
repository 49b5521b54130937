"""Plays decodes on the real vLLM 0.22.1 and prints how long its scheduler took, in seconds.

    python benchmarks/decodes.py RUNNING STEPS DEPTH [TRACE] [--connector|--failures|--drafts|…]

Runs where vLLM is. RUNNING requests decode side by side; one that ends is followed by a new one
at once, as in a service that is kept busy. DEPTH steps are in flight: scheduling is in step with
one, ahead with more. With TRACE the recorder writes along. The engine's own calls are timed,
nothing else: no arrivals, no sampling.

With --connector the engine has a KV connector, as where prefills and decodes are apart: of every
four requests two are loaded over some steps, one within its first, and the fourth computes its
prompt; the blocks of every second one are kept after its end, until they are sent. With
--failures the last block of every third load turns out not to be loaded.

With --drafts a method like EAGLE's proposes some for each request in every step, of which one is
taken. With --documents prompts begin with one of some that have thousands of tokens; with
--adapters requests have adapters, not all of which run at once. With --groups the model has
windows beside full attention, with --states Mamba layers of which the states at ends of steps are
kept, with --sizes a window whose blocks are larger.
"""

import argparse
import json
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK_SIZE = 16
PROMPT_TOKENS = 100
OUTPUTS = (64, 1024)
"""The shortest and the longest answer, in tokens."""
DOCUMENTS, DOCUMENT_TOKENS = 16, 4000
"""How many documents are asked about, and the tokens of each."""
SHORT_OUTPUTS = (16, 128)
"""Tokens of an answer about one."""
ADAPTERS, PLACES = 24, 16
"""How many adapters there are, and how many may run at once."""
TRANSFER = 3
"""Steps that a load takes, or a send."""
FAILING = 3
"""One of so many loads fails."""
DRAFTS = 3
"""Of a request in a step; the first is what the model samples."""
FULL: dict[str, Any] = {"type": "full"}
WINDOW: dict[str, Any] = {"type": "sliding_window", "sliding_window": 64}
STATES = {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 0}
GROUPS = {
    "groups": (FULL, WINDOW, WINDOW, WINDOW),
    "states": (FULL, STATES),
    "sizes": (FULL, {**WINDOW, "block_size": 2 * BLOCK_SIZE}),
}
"""By option, the KV-cache groups of the model."""


class Remote:
    """A KV connector and the workers behind it."""

    def __init__(self, fails: bool) -> None:
        from played import make_connector

        self.connector = make_connector({"async": [], "delay_free": []})
        self.connector.loads_async, self.connector.delays_free = set(), set()
        self.ends: dict[int, tuple[set[str], set[str]]] = {}
        """By step, whose loads end then, and whose sends."""
        self.fails, self.failed, self.loaded = fails, dict[int, set[int]](), 0
        """By step, blocks that turn out not to be loaded; how many loads have begun."""
        self.step = 0
        begun, ended = self.connector.update_state_after_alloc, self.connector.request_finished
        self.connector.update_state_after_alloc = lambda *call: begun(*self.loads(*call))
        self.connector.request_finished = lambda *call: ended(*self.sends(*call))

    def arrives(self, name: str, number: int, length: int) -> None:
        """What the remote side holds of a request, and what becomes of its blocks."""
        if number % 4:
            self.connector.matched[name] = length
        if number % 4 > 1:
            self.connector.loads_async.add(name)
        if number % 2:
            self.connector.delays_free.add(name)

    def loads(self, request: Any, blocks: Any, num_external: int) -> tuple[Any, Any, int]:
        """A load begins, if there is anything to load; if it takes steps, its end is noted."""
        takes_steps = request.request_id in self.connector.loads_async
        if num_external and takes_steps:
            self.end(0, request.request_id)
        self.loaded += bool(num_external)
        if self.fails and num_external and self.loaded % FAILING == 0:
            ends = self.step + (TRANSFER if takes_steps else 1)
            self.failed.setdefault(ends, set()).add(blocks.get_block_ids()[0][-1])
        return request, blocks, num_external

    def sends(self, request: Any, block_ids: Any) -> tuple[Any, Any]:
        """A request has ended."""
        if request.request_id in self.connector.delays_free:
            self.end(1, request.request_id)
        return request, block_ids

    def end(self, way: int, name: str) -> None:
        """Note when a transfer ends."""
        self.ends.setdefault(self.step + TRANSFER, (set(), set()))[way].add(name)

    def report(self) -> Any:
        """What workers report with the output of a step."""
        from vllm.v1.outputs import KVConnectorOutput

        self.step += 1
        received, sent = self.ends.pop(self.step, (None, None))
        lacking = self.failed.pop(self.step, set())
        return KVConnectorOutput(
            finished_recving=received, finished_sending=sent, invalid_block_ids=lacking
        )


class Service:
    """Clients and a model around a scheduler, all of them deterministic."""

    def __init__(
        self, scheduler: Any, hasher: Any, options: argparse.Namespace, remote: Remote | None
    ) -> None:
        self.scheduler, self.hasher, self.options = scheduler, hasher, options
        self.remote = remote
        self.proposes = bool(scheduler.num_spec_tokens) and options.depth == 1
        self.in_flight: deque[tuple[Any, Any]] = deque()
        self.count = 0
        self.seconds = self.request_steps = 0.0

    def add(self) -> None:
        """A prompt that shares nothing with any other, or a document with some, and an answer of
        some length.
        """
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        number = self.count
        self.count += 1
        first, length = number * PROMPT_TOKENS, PROMPT_TOKENS - number % BLOCK_SIZE
        prompt = list(range(first, first + length))
        if self.options.documents:
            prompt = [number % DOCUMENTS] * DOCUMENT_TOKENS + prompt
        adapter = 1 + number % ADAPTERS
        lora = LoRARequest(f"adapter-{adapter}", adapter, "/") if self.options.adapters else None
        shortest, longest = SHORT_OUTPUTS if self.options.documents else OUTPUTS
        answer = shortest + number * 2654435761 % (longest - shortest)
        parameters = SamplingParams(max_tokens=answer, ignore_eos=True)
        if self.remote is not None:
            self.remote.arrives(f"request-{number}", number, length)
        self.scheduler.add_request(
            Request(
                request_id=f"request-{number}",
                prompt_token_ids=prompt,
                sampling_params=parameters,
                pooling_params=None,
                arrival_time=float(number),
                lora_request=lora,
                block_hasher=self.hasher,
            )
        )

    def step(self) -> None:
        """One step more in flight, and the output of the oldest when there are enough: timed."""
        from vllm.v1.outputs import ModelRunnerOutput

        start = time.process_time()
        decided = self.scheduler.schedule()
        scheduled = time.process_time()
        ids, requests = list(decided.num_scheduled_tokens), self.scheduler.requests
        drafted = decided.scheduled_spec_decode_tokens
        sampled = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=[
                [] if requests[name].is_prefill_chunk else [7, 7] if name in drafted else [7]
                for name in ids
            ],
        )
        self.in_flight.append((decided, sampled))
        self.seconds += scheduled - start
        self.request_steps += len(ids)
        if len(self.in_flight) == self.options.depth:
            self.update()

    def update(self) -> None:
        """The output of the oldest step in flight, and drafts for the next one, timed."""
        from vllm.v1.outputs import DraftTokenIds

        decided, sampled = self.in_flight.popleft()
        if self.remote is not None:
            sampled.kv_connector_output = self.remote.report()
        drafts = DraftTokenIds(sampled.req_ids, [[7] * DRAFTS for _ in sampled.req_ids])
        start = time.process_time()
        self.scheduler.update_from_output(decided, sampled)
        if self.proposes:
            self.scheduler.update_draft_token_ids(drafts)
        self.seconds += time.process_time() - start


def connected(kind: type, remote: Remote | None) -> type:
    """A scheduler of that kind which has that connector from the start, so that a recorder sees
    it.
    """
    if remote is None:
        return kind

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        kind.__init__(self, *args, **kwargs)  # type: ignore[misc]
        self.connector = remote.connector

    return type(kind.__name__, (kind,), {"__init__": make, "__module__": kind.__module__})


def play(options: argparse.Namespace) -> Service:
    """Play to the end."""
    import setup_engine
    from vllm.v1.core.sched import async_scheduler, scheduler

    remote = Remote(options.failures) if options.connector or options.failures else None
    kind = async_scheduler.AsyncScheduler if options.depth > 1 else scheduler.Scheduler
    kind = connected(kind, remote)
    if options.trace is not None:
        os.environ["NULLBLOCK_TRACE"] = options.trace
        from nullblock.conformance.adapters.vllm import recorder

        kind = recorder.recording(kind)
    scheduler.Scheduler = async_scheduler.AsyncScheduler = kind
    config: dict[str, Any] = {
        "block_size": BLOCK_SIZE,
        "num_blocks": 1 + options.running * (2 + (PROMPT_TOKENS + OUTPUTS[1]) // BLOCK_SIZE),
        "max_num_batched_tokens": max(2048, 2 * options.running),
        "max_num_seqs": options.running,
        "max_model_len": 8192,
        "async_scheduling": options.depth > 1,
    }
    if options.drafts:
        config |= {"num_spec_tokens": DRAFTS, "spec_method": "eagle"}
        config["max_num_batched_tokens"] = max(2048, (2 + DRAFTS) * options.running)
    if options.documents:
        config["num_blocks"] += (options.running + DOCUMENTS) * DOCUMENT_TOKENS // BLOCK_SIZE
    if options.adapters:
        config["max_loras"] = PLACES
    for groups in (made for option, made in GROUPS.items() if getattr(options, option)):
        config |= {"groups": list(groups), "num_blocks": len(groups) * config["num_blocks"]}
    made, hasher = setup_engine.build({**setup_engine.DEFAULTS, **config})
    service = Service(made, hasher, options, remote)
    for _ in range(options.steps):
        while made.get_num_unfinished_requests() < options.running:
            service.add()
        service.step()
    while service.in_flight:
        service.update()
    made.shutdown()
    return service


def main() -> None:
    """Play, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("running", "steps", "depth"):
        parser.add_argument(name, type=int)
    parser.add_argument("trace", nargs="?")
    for kind in ("connector", "failures", "drafts", "documents", "adapters", *GROUPS):
        parser.add_argument(f"--{kind}", action="store_true")
    options = parser.parse_intermixed_args()
    sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]
    import torchless

    torchless.install()
    service = play(options)
    json.dump({"seconds": service.seconds, "request_steps": service.request_steps}, sys.stdout)


if __name__ == "__main__":
    main()
