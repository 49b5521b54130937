"""A process that serves with the real scheduler, recorded, and comes to some end.

Runs where vLLM is.

    python record_process.py HOW FOLDER [CONFIG]

HOW is what happens to it: see the functions whose names begin with ``how_``. What is recorded, and
where, the environment says. Prints how many steps were decided before it ends, if it can.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]

import torchless  # noqa: E402  (found from here on)

torchless.install()

import setup_engine  # noqa: E402
from encoder_side import _feature  # noqa: E402
from played import PlayedGrammar  # noqa: E402
from vllm.sampling_params import SamplingParams, StructuredOutputsParams  # noqa: E402
from vllm.v1.core.sched import async_scheduler, scheduler  # noqa: E402
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

from nullblock.conformance.adapters.vllm import (  # noqa: E402
    RecordingAsyncScheduler,
    RecordingScheduler,
)

PLAIN = scheduler.Scheduler, async_scheduler.AsyncScheduler
SECRET_TOKENS = [1_234_567 + 11 * i for i in range(40)]
SECRET_WORDS = ("request-id-of-mallory", "salt-of-mallory", "adapter-of-mallory", "user-mallory")
SECRET_ITEM, SECRET_GRAMMAR, SECRET_ADAPTER = "image-of-mallory", "grammar-of-mallory", 7_654_321


class Service:
    """A scheduler with a model that samples 7, two steps in flight if it is asynchronous, and
    with drafts agrees with some.
    """

    def __init__(self, config: dict[str, Any], rank: int = 0) -> None:
        scheduler.Scheduler = RecordingScheduler
        async_scheduler.AsyncScheduler = RecordingAsyncScheduler
        plain = setup_engine._vllm_config

        def with_rank(*arguments: Any) -> Any:
            made = plain(*arguments)
            made.parallel_config.data_parallel_index = rank
            return made

        setup_engine._vllm_config = with_rank
        asked = {**setup_engine.DEFAULTS, "num_blocks": 400, "block_size": 4, **config}
        self.engine, self.hasher = setup_engine.build(asked)
        setup_engine._vllm_config = plain
        self.depth = 2 if asked["async_scheduling"] else 1
        self.flying: deque[Any] = deque()
        self.agrees = random.Random(3)
        self.added = 0

    def add(
        self,
        name: str = "",
        prompt: list[int] | None = None,
        min_tokens: int = 0,
        grammar: str | None = None,
        **others: Any,
    ) -> None:
        """A request."""
        self.added += 1
        parameters = SamplingParams(
            max_tokens=40,
            min_tokens=min_tokens,
            stop_token_ids=[SECRET_TOKENS[-1]],
            structured_outputs=None if grammar is None else StructuredOutputsParams(regex=grammar),
        )
        parameters.update_from_generation_config({}, SECRET_TOKENS[-2])
        self.engine.add_request(
            Request(
                name or f"r{self.added}",
                prompt or [self.added] * 9,
                parameters,
                None,
                arrival_time=time.time(),
                block_hasher=self.hasher,
                **others,
            )
        )

    def step(self, token: int = 7) -> None:
        """Keep four requests running, decide, and take in what is due."""
        while len(self.engine.requests) < 4:
            self.add()
        decided = self.engine.schedule()
        ids = list(decided.num_scheduled_tokens)
        drafts = decided.scheduled_spec_decode_tokens
        frames = [
            []
            if self.engine.requests[name].is_prefill_chunk
            else [7] * self.agrees.randint(0, len(drafts.get(name, ()))) + [token]
            for name in ids
        ]
        places = {name: place for place, name in enumerate(ids)}
        output = ModelRunnerOutput(req_ids=ids, req_id_to_index=places, sampled_token_ids=frames)
        self.flying.append((decided, output))
        if len(self.flying) >= self.depth:
            self.engine.update_from_output(*self.flying.popleft())
            if self.engine.num_spec_tokens and self.depth == 1:
                self.propose(ids)

    def propose(self, ids: list[str]) -> None:
        """As the workers of vLLM do: for the whole batch, which has an order of its own."""
        many = self.engine.num_spec_tokens
        drafts = [[8] * self.agrees.randint(many - 1, many) for _ in ids]
        self.engine.update_draft_token_ids(DraftTokenIds(sorted(ids), drafts))

    def steps(self, many: int) -> None:
        """So many."""
        for _ in range(many):
            self.step()


def how_ends(service: Service, folder: Path) -> None:
    """It shuts down."""
    service.steps(100)
    service.engine.shutdown()


def how_just_returns(service: Service, folder: Path) -> None:
    """Nobody shuts anything down."""
    service.steps(100)


def how_killed(service: Service, folder: Path) -> None:
    """SIGKILL, a flush after its steps."""
    service.steps(100)
    time.sleep(0.3)
    print(100, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def how_exits(service: Service, folder: Path) -> None:
    """``os._exit``."""
    service.steps(100)
    time.sleep(0.3)
    print(100, flush=True)
    os._exit(3)


def how_terminated(service: Service, folder: Path) -> None:
    """SIGTERM, handled as vLLM does."""

    def leave(*_: Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, leave)
    service.steps(100)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def how_raises(service: Service, folder: Path) -> None:
    """The scheduler raises."""
    service.steps(100)
    service.engine.running[0].num_computed_tokens += 1_000_000
    service.steps(10)


def how_loses_its_folder(service: Service, folder: Path) -> None:
    """Somebody removes the folder while it runs."""
    import shutil

    service.steps(50)
    time.sleep(0.2)
    shutil.rmtree(folder)
    for _ in range(20):
        service.steps(10)
        time.sleep(0.02)
    print(service.engine._tape.running, flush=True)


def how_fills_the_disk(service: Service, folder: Path) -> None:
    """No file may grow beyond some bytes."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    for _ in range(100):
        service.steps(100)
        time.sleep(0.002)
    print(service.engine._tape.running, flush=True)


def how_starts_late(service: Service, folder: Path) -> None:
    """Recording begins in the middle of a run, with steps in flight."""
    service.steps(60)
    service.engine.start_recording(str(folder / "late.jsonl"))
    service.steps(60)
    service.engine.shutdown()


def how_starts_late_and_crowded(service: Service, folder: Path) -> None:
    """Recording begins where there is everything to tell: preempted requests, and, with steps
    in flight, chunks and outputs to be dropped (a reset, while it waits for steps that it saw).
    """
    begins_in_a_crowd(service, folder, lambda alive: True, reset=True)


def how_starts_late_and_drafted(service: Service, folder: Path) -> None:
    """Recording begins where requests have drafts, and with steps in flight these, too."""

    def drafted(alive: Any) -> bool:
        return any(r.spec_token_ids for r in alive) and any(r.is_prefill_chunk for r in alive)

    begins_in_a_crowd(service, folder, drafted, reset=False)


def begins_in_a_crowd(service: Service, folder: Path, suits: Any, *, reset: bool) -> None:
    """Recording begins among preempted requests, at a moment that suits."""
    dice = random.Random(5)
    engine = service.engine
    service.depth += service.depth > 1

    def arrive() -> None:
        kind = dice.randrange(3)
        prompt = [kind] * dice.randrange(5, 30) + [dice.randrange(9)] * dice.randrange(1, 6)
        others: dict[str, Any] = {"priority": dice.randrange(3)} if dice.random() < 0.7 else {}
        service.add(prompt=prompt, min_tokens=dice.randrange(4), **others)

    def step() -> None:
        while len(engine.requests) < 6:
            arrive()
        service.step(SECRET_TOKENS[-1] if dice.random() < 0.08 else 7)

    def rich() -> bool:
        alive = engine.requests.values()
        chunk = any([] in output.sampled_token_ids for _, output in service.flying)
        preempted = len({r.num_preemptions for r in alive}) > 2
        return preempted and chunk == bool(service.flying) and suits(alive)

    for n in range(3000):
        step()
        if n > 60 and rich():
            break
    else:
        raise SystemExit("no moment at which there is everything to tell")
    engine.start_recording(str(folder / "late.jsonl"))
    if engine.num_spec_tokens and service.depth == 1:
        service.propose([r.request_id for r in engine.running])  # who is in a chunk gets none
    for n in range(60):
        if service.flying and n == 2 and reset:
            engine.reset_prefix_cache(reset_running_requests=True)
        step()
    engine.shutdown()


def how_writes_slowly(service: Service, folder: Path) -> None:
    """The disk stands still for a while, and then goes on."""
    go_on = threading.Event()
    file = service.engine._tape._files.file
    write = file.write

    def wait(lines: Any) -> None:
        go_on.wait(20)
        write(lines)

    file.write = wait
    service.steps(400)
    go_on.set()
    for _ in range(50):  # one gap alone: the queue, small as it is, never fills again
        while service.engine._tape.waiting:
            time.sleep(0.001)
        service.steps(1)
    service.engine.shutdown()


def how_keeps_secrets(service: Service, folder: Path) -> None:
    """Every string and token that a client can bring is known by sight."""
    name, salt, adapter, user = SECRET_WORDS
    lora = SimpleNamespace(
        name=adapter,
        lora_name=adapter,
        adapter_id=SECRET_ADAPTER,
        lora_int_id=SECRET_ADAPTER,
        lora_path=adapter,
    )
    more: dict[str, Any] = {}
    if service.engine.max_num_encoder_input_tokens:
        item = {"hash": SECRET_ITEM, "offset": 2, "length": 4}
        more = {"mm_features": [_feature(item)], "grammar": SECRET_GRAMMAR}
    for copy in range(2):
        service.add(
            f"{name}-{copy}",
            SECRET_TOKENS[:38],
            cache_salt=salt,
            lora_request=lora,
            trace_headers={"user": user},
            **more,
        )
        service.steps(3)
        structured = service.engine.requests[f"{name}-{copy}"].structured_output_request
        if structured is not None:
            structured.grammar = PlayedGrammar({"reject_at": 30})
        service.steps(3)
    for token in SECRET_TOKENS:
        service.step(token)
    for many in (0, 50, 20):  # a session, a chunk that it waits for, one that it does not
        service.add(name, SECRET_TOKENS[many // 2 :][:8], resumable=True, cache_salt=salt)
        service.steps(many)
    sessions = [request for request in service.engine.requests.values() if request.resumable]
    service.add(name, SECRET_TOKENS[:1])
    service.steps(90)
    assert len(sessions) == 1 and sessions[0].is_finished()
    service.engine.finish_requests([f"{name}-0", f"{name}-1"], finished())
    service.engine.reset_prefix_cache(reset_running_requests=True)
    service.steps(30)
    hashes = [hash for r in service.engine.requests.values() for hash in r.block_hashes]
    (folder / "hashes.json").write_text(json.dumps([bytes(hash).hex() for hash in hashes]))
    service.engine.shutdown()


def finished() -> Any:
    """How an abort ends a request."""
    from vllm.v1.request import RequestStatus

    return RequestStatus.FINISHED_ABORTED


def main() -> None:
    """Serve."""
    how, folder = sys.argv[1], Path(sys.argv[2])
    config = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    service = Service(config, rank=int(os.environ.get("RANK", "0")))
    globals()[f"how_{how}"](service, folder)


if __name__ == "__main__":
    main()
