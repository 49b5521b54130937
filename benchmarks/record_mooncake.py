"""Records two bundled traces: the real vLLM 0.22.1 scheduler under Mooncake conversations.

    python benchmarks/record_mooncake.py conversation_trace.jsonl.gz
    python benchmarks/record_mooncake.py conversation_trace.jsonl.gz --async

needs the trace file of Mooncake (``FAST25-release/traces`` in kvcache-ai/Mooncake at 3b5a5941) and
the real engine (``make oracle``). The same file gives the same bytes. What is Mooncake's and what
is made up here is said in ``conformance/bundled/README.md``; the numbers are the constants below.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUNDLED = ROOT / "conformance" / "bundled"
OUTPUTS = ("mooncake-conversation.jsonl.zst", "mooncake-async.jsonl.zst")

SCALE = 4
"""Input lengths are divided by this: the pool is a quarter of a real one."""
STEPS = 5000
CONFIG: dict[str, Any] = {
    "block_size": 16,
    "num_blocks": 8192,
    "max_num_batched_tokens": 4096,
    "max_num_seqs": 128,
    "max_model_len": 32768,
    "long_prefill_token_threshold": 2048,
    "policy": "fcfs",
    "hash_algo": "sha256",
    "hash_seed": "0",
}
SECONDS_A_STEP, SECONDS_A_TOKEN = 0.012, 0.00004
"""How long a step takes on the clock that the arrivals are measured by."""
LOAD = 2.0
"""How much faster than in the trace requests arrive."""
EOS, STOP = 10**9, 10**9 + 1
ABORTED_PERCENT, BY_LENGTH_PERCENT, BY_STOP_PERCENT = 3, 25, 10
"""How requests end: the others sample an eos token after as many tokens as in the trace."""
MAX_TOKENS = 2048
WEIGHT_UPDATE_AT = 4000
"""Before this step an operator updates the weights: pause, try to reset the cache, reset it."""
PAUSED_STEPS = 12
DEPTH = 2
"""Steps in flight, scheduling asynchronously: what vLLM does by default."""


def main() -> None:
    """Record in the real engine's environment, then pack and seal in this one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mooncake", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--async", dest="asynchronous", action="store_true")
    parser.add_argument("--python", type=Path, default=ROOT / ".oracle" / "bin" / "python")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        record(arguments.mooncake, arguments.output, arguments.asynchronous)
        return
    output = arguments.output or BUNDLED / OUTPUTS[arguments.asynchronous]
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.jsonl"
        command = [arguments.python, "-B", __file__, arguments.mooncake, "-o", raw, "--inside"]
        command += ["--async"] * arguments.asynchronous
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
        pack(raw, output)


def pack(raw: Path, output: Path) -> None:
    """Compress and seal, without the random name that a recording gets."""
    import msgspec

    from nullblock.conformance.trace.reader import TraceReader
    from nullblock.conformance.trace.records import End, Header
    from nullblock.conformance.trace.writer import write_trace

    records = (located.written for located in TraceReader(raw))
    write_trace(
        output,
        (
            msgspec.structs.replace(record, recording=msgspec.UNSET)
            if isinstance(record, Header)
            else record
            for record in records
            if not isinstance(record, End)
        ),
    )
    print(f"{output}: {output.stat().st_size} bytes")


def record(mooncake: Path, output: Path, asynchronous: bool) -> None:
    """Drive the real scheduler, recorded. Runs where vLLM is and nullblock is not installed."""
    sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]
    os.environ["NULLBLOCK_TRACE"] = str(output)
    os.environ["NULLBLOCK_TRACE_STATE_EVERY"] = "500"
    import setup_engine
    import torchless

    torchless.install()
    from vllm.v1.core.sched import async_scheduler as vllm_async_scheduler
    from vllm.v1.core.sched import scheduler as vllm_scheduler

    from nullblock.conformance.adapters.vllm import RecordingAsyncScheduler, RecordingScheduler
    from nullblock.conformance.workloads.mooncake import read_mooncake

    vllm_scheduler.Scheduler = RecordingScheduler
    vllm_async_scheduler.AsyncScheduler = RecordingAsyncScheduler
    config = {**setup_engine.DEFAULTS, **CONFIG, "async_scheduling": asynchronous}
    scheduler, hasher = setup_engine.build(config)
    depth = DEPTH if asynchronous else 1
    service = Service(scheduler, hasher, deque(read_mooncake(mooncake, SCALE)), depth)
    for step in range(1, STEPS + 1):
        service.weight_update(step)
        service.step()
    scheduler.shutdown()
    print(service.summary(), file=sys.stderr)


class Service:
    """Clients, a model and an operator around a scheduler, all of them deterministic."""

    def __init__(self, scheduler: Any, hasher: Any, arrivals: Any, depth: int) -> None:
        self.scheduler, self.hasher, self.arrivals = scheduler, hasher, arrivals
        self.depth = depth
        self.in_flight: deque[tuple[Any, dict[str, bool]]] = deque()
        """Steps whose output has not come; whether each request samples nothing in it."""
        self.clock = 0.0
        self.count = self.preempted = self.aborted = self.hits = self.chunks = 0
        self.ends: dict[str, tuple[int, int]] = {}
        """For each live request, after how many tokens it samples which one."""
        self.patience: dict[str, int] = {}
        """For each client that will give up, after how many tokens."""

    def step(self) -> None:
        """Requests that have arrived, clients that give up, and one step of the engine."""
        while self.arrivals and self.arrivals[0].arrival / LOAD <= self.clock:
            self.add(self.arrivals.popleft())
        decided = self.scheduler.schedule()
        self.clock += SECONDS_A_STEP + SECONDS_A_TOKEN * decided.total_num_scheduled_tokens
        self.preempted += len(decided.preempted_req_ids)
        self.hits += sum(new.num_computed_tokens > 0 for new in decided.scheduled_new_reqs)
        chunks = {
            r: self.scheduler.requests[r].is_prefill_chunk for r in decided.num_scheduled_tokens
        }
        self.chunks += sum(chunks.values())
        self.in_flight.append((decided, chunks))
        if len(self.in_flight) == self.depth or not chunks:
            oldest, chunks = self.in_flight.popleft()
            self.scheduler.update_from_output(oldest, self.sampled(chunks))
        self.abort()

    def add(self, asked: Any) -> None:
        """One request of the trace."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        self.count += 1
        name = f"r{self.count}"
        draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100
        length = min(asked.output_length, MAX_TOKENS)
        by_length = draw < BY_LENGTH_PERCENT
        parameters = SamplingParams(
            max_tokens=length if by_length else MAX_TOKENS, stop_token_ids=[STOP]
        )
        parameters.update_from_generation_config({}, EOS)
        by_stop = BY_LENGTH_PERCENT <= draw < BY_LENGTH_PERCENT + BY_STOP_PERCENT
        self.ends[name] = (length, STOP if by_stop else EOS)
        if draw >= 100 - ABORTED_PERCENT:
            self.patience[name] = length // 2
        self.scheduler.add_request(
            Request(
                request_id=name,
                prompt_token_ids=asked.prompt(),
                sampling_params=parameters,
                pooling_params=None,
                arrival_time=asked.arrival / LOAD,
                block_hasher=self.hasher,
            )
        )

    def sampled(self, chunks: dict[str, bool]) -> Any:
        """What the model samples: nothing for a chunk of a prompt, else one token."""
        from vllm.v1.outputs import ModelRunnerOutput

        ids = list(chunks)
        frames = [
            [] if chunks[name] else [self.token(name, self.scheduler.requests.get(name))]
            for name in ids
        ]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: index for index, name in enumerate(ids)},
            sampled_token_ids=frames,
        )

    def token(self, name: str, request: Any) -> int:
        """The end of the request if it is due, else a token that nobody else samples."""
        length, end = self.ends[name]
        if request is None:
            return -1  # it has ended, and the model does not know yet
        if request.num_output_tokens + 1 >= length and request.max_tokens > length:
            return end
        return -(int(name[1:]) * 2**20 + request.num_tokens)

    def abort(self) -> None:
        """Clients whose patience is over."""
        from vllm.v1.request import RequestStatus

        for name in list(self.patience):
            request = self.scheduler.requests.get(name)
            if request is None:
                del self.patience[name]
            elif request.num_output_tokens >= self.patience[name]:
                self.scheduler.finish_requests([name], RequestStatus.FINISHED_ABORTED)
                self.aborted += 1

    def weight_update(self, step: int) -> None:
        """New requests wait; a reset is refused while some run, then forced; service goes on."""
        from vllm.v1.core.sched.interface import PauseState

        if step == WEIGHT_UPDATE_AT:
            self.scheduler.set_pause_state(PauseState.PAUSED_NEW)
        elif step == WEIGHT_UPDATE_AT + PAUSED_STEPS:
            assert not self.scheduler.reset_prefix_cache()
            assert self.scheduler.reset_prefix_cache(reset_running_requests=True)
            self.scheduler.set_pause_state(PauseState.UNPAUSED)

    def summary(self) -> str:
        """What the recording contains."""
        return (
            f"{self.count} requests, {self.preempted} preemptions, {self.hits} admitted with a "
            f"prefix hit, {self.chunks} chunks, {self.aborted} aborts, "
            f"{len(self.scheduler.running)} running and {len(self.scheduler.waiting)} waiting "
            f"at the end, {self.clock:.0f} s"
        )


if __name__ == "__main__":
    main()
