"""What recording costs: the real vLLM 0.22.1 scheduler, plain and recorded, side by side.

    python benchmarks/bench_recorder.py [--rounds N] [--running N] [--drafts N] [--quick]
                                        [--floor | --control | --own]

needs the real engine (``make oracle``). Both schedulers run the same decode steps in one process,
in turns, step by step, so that whatever else the machine does meets both alike. Counted is all
processor time of the process, ``schedule`` and ``update_from_output``, on every thread: the
recorder's encoding, compressing and writing included, and waited for. A figure is the median of
the rounds' ratios, with its quartiles; and the ratio of the quickest rounds, which others on the
machine disturb least. As vLLM does once an engine is up, the heap is frozen before.

With ``--floor`` a scheduler takes the recorder's place that only looks: it reads each request's
id, tokens, counts, blocks, sampled tokens and output once, in the quickest ways that Python has
for a list, compares nothing and writes nothing. No recorder in Python can cost less. With
``--control`` it is another plain scheduler: what is measured of it is what the measuring is off
by, up to two per cent on a crowded machine. It is of a class of its own, as a recorder is: two
classes that take turns in one process keep the interpreter from knowing either.

With ``--own`` there is one scheduler, which records, and what counts is the time its thread is in
the recorder, with what the writer's thread does, beside the time that is left of its steps. That
leaves out what the recorder does to the caches of the engine, and hardly depends on what else the
machine does.
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STEPS = 40
"""A round: so many steps of each scheduler, and what was recorded of them is written."""
WARM = 20
"""Steps before the first round."""
PROMPT = 100
EOS, STOP = 10**9, 10**9 + 1


class Bench:
    """One scheduler with that many requests running, all of them decoding."""

    def __init__(
        self, kind: Any, running: int, depth: int, turnover: bool, drafts: int, steps: int
    ) -> None:
        """``drafts``: of an EAGLE-like method, of each request; the model agrees with some.
        ``steps``: that it will take, for which there are blocks.
        """
        import setup_engine
        from vllm.v1.core.sched import async_scheduler, scheduler

        scheduler.Scheduler = async_scheduler.AsyncScheduler = kind
        most = PROMPT + (WARM + steps + 1) * (1 + drafts)
        blocks = most // setup_engine.DEFAULTS["block_size"] + 1
        self.config = {
            **setup_engine.DEFAULTS,
            "num_blocks": running * blocks,
            "max_num_seqs": running,
            "max_num_batched_tokens": running * (PROMPT + 1),
            "max_model_len": 100_000,
            "async_scheduling": depth > 1,
            "num_spec_tokens": drafts,
            "spec_method": "eagle" if drafts else "ngram",
        }
        self.scheduler, self.hasher = setup_engine.build(self.config)
        self.flying: deque[Any] = deque()
        self.depth, self.turnover, self.added = depth, turnover, 0
        self.agreed = 0
        for _ in range(running):
            self.add()
        self.steps(WARM)

    def add(self) -> None:
        """A request unlike all others, that ends at its length or not at all."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        i, self.added = self.added, self.added + 1
        length = PROMPT - i % 16
        most = 100 + i * 37 % 1024 if self.turnover else 90_000
        parameters = SamplingParams(max_tokens=most, stop_token_ids=[STOP])
        parameters.update_from_generation_config({}, EOS)
        prompt = list(range(i * PROMPT, i * PROMPT + length))
        request = Request(
            f"request-{i}", prompt, parameters, None, arrival_time=0.0, block_hasher=self.hasher
        )
        self.scheduler.add_request(request)

    def steps(self, many: int) -> None:
        """Decide so many steps, each update as late as the depth allows."""
        from vllm.v1.outputs import ModelRunnerOutput

        for _ in range(many):
            decided = self.scheduler.schedule()
            ids = list(decided.num_scheduled_tokens)
            frames = [[7 + len(name)] for name in ids]
            self.agree(decided, frames)
            places = {name: place for place, name in enumerate(ids)}
            output = ModelRunnerOutput(
                req_ids=ids, req_id_to_index=places, sampled_token_ids=frames
            )
            self.flying.append((decided, output))
            if len(self.flying) >= self.depth:
                self.scheduler.update_from_output(*self.flying.popleft())
                self.propose(ids)
            for _ in range(self.config["max_num_seqs"] - len(self.scheduler.requests)):
                self.add()

    def agree(self, decided: Any, frames: list[list[int]]) -> None:
        """The model agrees with some drafts: each request with another number of them."""
        drafts = decided.scheduled_spec_decode_tokens
        if drafts:
            for i, (name, frame) in enumerate(
                zip(decided.num_scheduled_tokens, frames, strict=True)
            ):
                frame *= 1 + (i + self.agreed) % (1 + len(drafts.get(name, ())))
            self.agreed += 1

    def propose(self, ids: list[str]) -> None:
        """As workers do in step: ahead of the model they keep drafts to themselves."""
        many = self.config["num_spec_tokens"]
        if many and self.depth == 1:
            from vllm.v1.outputs import DraftTokenIds

            drafts = DraftTokenIds(ids, [[9] * many for _ in ids])
            self.scheduler.update_draft_token_ids(drafts)

    def timed(self) -> float:
        """Processor seconds of a step."""
        start = time.process_time()
        self.steps(1)
        return time.process_time() - start

    def written(self) -> float:
        """Processor seconds until everything that was recorded is written."""
        start = time.process_time()
        tape = getattr(self.scheduler, "_tape", None)
        if tape is None:
            return 0.0
        tape._sink._wake.set()
        while tape.waiting:
            time.sleep(0.005)
        return time.process_time() - start


class Looking:
    """Put over a scheduler: reads what a recorder has to read, and does nothing with it."""

    def schedule(self) -> Any:
        """What was decided: who, how many tokens, the counts before, the blocks given out."""
        decided = super().schedule()  # type: ignore[misc]
        cached = decided.scheduled_cached_reqs
        counts = array("I")
        counts.fromlist(cached.num_computed_tokens)
        counts.fromlist(cached.num_output_tokens)
        list(decided.num_scheduled_tokens)
        list(decided.num_scheduled_tokens.values())
        list(filter(None, cached.new_block_ids))
        return decided

    def update_from_output(self, decided: Any, sampled: Any) -> Any:
        """What was sampled, and what was passed on to whom."""
        result = super().update_from_output(decided, sampled)  # type: ignore[misc]
        [token for (token,) in sampled.sampled_token_ids]
        for of_client in result.values():
            [output.request_id for output in of_client.outputs]
            [output.new_token_ids for output in of_client.outputs]
        return result


class Clock:
    """The time that a thread is in some methods of an object, clock included."""

    def __init__(self, of: Any, names: tuple[str, ...]) -> None:
        self.spent = 0
        for name in names:
            setattr(of, name, self._timed(getattr(of, name)))

    def _timed(self, method: Any) -> Any:
        def timed(*args: Any) -> Any:
            start = time.thread_time_ns()
            try:
                return method(*args)
            finally:
                self.spent += time.thread_time_ns() - start

        return timed


def own(bench: Bench, rounds: int, turnover: bool) -> None:
    """Measure the recorder from inside, and print a line."""
    names = ("scheduled", "updated", "added", "before_update", "proposed")
    clock = Clock(bench.scheduler._tape, names)
    gc.collect()
    gc.freeze()
    shares = []
    for _ in range(rounds):
        clock.spent, start = 0, time.thread_time_ns()
        for _ in range(STEPS):
            bench.steps(1)
        rest = time.thread_time_ns() - start - clock.spent
        spent = clock.spent + bench.written() * 1e9
        shares.append((spent / rest, rest / STEPS))
    gc.unfreeze()
    assert bench.scheduler._tape.running
    low, middle, high = statistics.quantiles([share for share, _ in shares], n=4)
    bare = statistics.median(rest for _, rest in shares)
    print(
        f"{title(bench, turnover)}: {bare / 1e3:,.0f} us a step, in the recorder {middle:+.1%}"
        f" (half of the rounds {low:+.1%} to {high:+.1%})",
        flush=True,
    )


def title(bench: Bench, turnover: bool) -> str:
    """What is measured."""
    mode = "sync" if bench.depth == 1 else f"async, depth {bench.depth}"
    what = "ends and arrivals" if turnover else "decodes"
    many = bench.config["num_spec_tokens"]
    what += f" with {many} drafts" if many else ""
    return f"{mode}, {len(bench.scheduler.running)} {what}"


def inside(rounds: int, running: int, drafts: int, other: str) -> None:
    """Measure. Runs where vLLM is."""
    sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]
    import torchless

    torchless.install()
    from vllm.v1.core.sched import async_scheduler, scheduler

    from nullblock.conformance.adapters.vllm import RecordingAsyncScheduler, RecordingScheduler

    plain = scheduler.Scheduler, async_scheduler.AsyncScheduler
    kinds: dict[str, tuple[Any, ...]] = {
        "recording": (RecordingScheduler, RecordingAsyncScheduler),
        "own": (RecordingScheduler, RecordingAsyncScheduler),
        "looking": tuple(type(kind.__name__, (Looking, kind), {}) for kind in plain),
        "doing nothing": tuple(type(kind.__name__, (kind,), {}) for kind in plain),
    }
    steps = rounds * STEPS
    for turnover in (False, True):
        for depth in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                os.environ.pop("NULLBLOCK_TRACE", None)
                if other != "own":
                    one = Bench(plain[depth - 1], running, depth, turnover, drafts, steps)
                os.environ["NULLBLOCK_TRACE"] = folder
                os.environ["NULLBLOCK_TRACE_FLUSH_SECONDS"] = "3600"  # a round ends with one
                two = Bench(kinds[other][depth - 1], running, depth, turnover, drafts, steps)
                if other == "own":
                    own(two, rounds, turnover)
                else:
                    compare(one, two, rounds, turnover, other)
                two.scheduler.shutdown()


def compare(one: Bench, other: Bench, rounds: int, turnover: bool, doing: str) -> None:
    """Take turns, and print a line."""
    gc.collect()
    gc.freeze()
    pairs = []
    for _ in range(rounds):
        plain = recorded = 0.0
        for _ in range(STEPS // 2):  # each is first as often as second
            plain += one.timed()
            recorded += other.timed() + other.timed()
            plain += one.timed()
        pairs.append((plain / STEPS, (recorded + other.written()) / STEPS))
    gc.unfreeze()
    assert doing != "recording" or other.scheduler._tape.running
    bare = statistics.median(a for a, _ in pairs)
    low, middle, high = statistics.quantiles([b / a - 1 for a, b in pairs], n=4)
    quickest = min(b for _, b in pairs) / min(a for a, _ in pairs) - 1
    print(
        f"{title(one, turnover)}: {bare * 1e6:,.0f} us a step, {doing} {middle:+.1%}"
        f" (half of the rounds {low:+.1%} to {high:+.1%}; the quickest {quickest:+.1%})",
        flush=True,
    )


def main() -> None:
    """Start the measuring in the real engine's environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--drafts", type=int, default=0, help="of each request; default: none")
    parser.add_argument("--python", type=Path, default=ROOT / ".oracle" / "bin" / "python")
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, no figures")
    instead = parser.add_mutually_exclusive_group()
    for flag, does, text in (
        ("--floor", "looking", "only look: the least there is"),
        ("--control", "doing nothing", "a plain scheduler in its place: what is off"),
        ("--own", "own", "the recorder alone, from inside: its own time beside the rest"),
    ):
        instead.add_argument(flag, dest="other", action="store_const", const=does, help=text)
    parser.set_defaults(other="recording")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        rounds = 4 if arguments.quick else arguments.rounds
        inside(rounds, arguments.running, arguments.drafts, arguments.other)
        return
    if not arguments.python.exists():
        sys.exit(f"no real vLLM at {arguments.python}: make oracle")
    command = [str(arguments.python), "-B", __file__, "--inside", *sys.argv[1:]]
    sys.exit(subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "0"}).returncode)


if __name__ == "__main__":
    main()
