"""Drives the real vLLM scheduler with scenarios: no model, no GPU, no network, no torch.

    python drive.py SCENARIO.json... [--dump full|brief|none] [-o OUT.jsonl]
    python drive.py --serve [--dump full|brief|none]

The first form prints JSON lines: a header, a line for each event and each half step, and a
trailer with a digest of the lines before it. The second reads one scenario a line and answers each
with one line: an array of those lines, or an object with an ``error`` where no engine could be
built.

The scenario format is documented in ``tests/oracle/README.md``. Runs in the oracle's environment
(``install.py``), where nullblock is not installed; start it with ``PYTHONHASHSEED=0`` so that
aborting several requests at once has one order.
"""

import argparse
import hashlib
import json
import os
import sys
import traceback
import zlib
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import encoder_side
import setup_engine
import snapshot
import torchless
from drafting import Proposer
from played import encoder
from snapshot import Fields
from surroundings import Surroundings


class Driver:
    """One engine, the steps in flight, and the lines so far."""

    def __init__(self, scenario: dict[str, Any], dump: str = "full") -> None:
        self.config = {**setup_engine.DEFAULTS, **scenario.get("config", {})}
        self.events = scenario["events"]
        self.dump = dump
        self.has_encoder = self.config.get("encoder") is not None
        self.scheduler, self.hasher = setup_engine.build(self.config)
        self.surroundings = Surroundings(self.scheduler, self.config, self.events)
        self.published: list[Any] = []
        self.scheduler.kv_event_publisher = SimpleNamespace(
            publish=lambda batch: self.published.extend(batch.events), shutdown=lambda: None
        )
        self.proposer = Proposer(self.config, self.scheduler)
        self.in_flight: deque[tuple[int, Any, dict[str, bool]]] = deque()
        """Step number, SchedulerOutput, and by id whether more of the prompt is to come."""
        self.num_steps = 0
        self.num_arrivals = 0
        self.eos_at: dict[str, tuple[int, int]] = {}
        """By id, from which position on the model samples which token; outlives the request."""
        self.cycles: dict[str, tuple[int, int]] = {}
        """By id, from which position on the model samples how many tokens over and over."""
        self.pooling: set[str] = set()
        """Ids for which the model makes a vector and samples nothing."""
        self.lines: list[str] = []

    def run(self) -> list[str]:
        """All lines. What the engine raises is one of them, and the last but the trailer."""
        import vllm

        pool = self.scheduler.kv_cache_manager.block_pool
        self.emit(
            {
                "ev": "header",
                "vllm": vllm.__version__,
                "config": self.config,
                "ignored": self.ignored(),
                "hash_block_size": pool.hash_block_size,
                "scheduler_block_size": self.scheduler.block_size,
            }
        )
        try:
            for index, event in enumerate(self.events):
                self.take(event, index)
        except Exception as raised:  # the crash is an observation
            self.emit(_exception(raised))
        digest = hashlib.sha256("\n".join(self.lines).encode()).hexdigest()
        self.emit({"ev": "trailer", "lines": len(self.lines), "sha256": digest})
        return self.lines

    def ignored(self) -> list[str]:
        """Keys that are set and that this release knows nothing of."""
        knows = hasattr(self.scheduler.kv_cache_manager, "watermark_blocks")
        return [] if knows or self.config["watermark"] is None else ["watermark"]

    def emit(self, fields: Fields) -> None:
        """Write a line."""
        self.lines.append(json.dumps(fields, sort_keys=True, separators=(",", ":")))

    def emit_with_state(self, fields: Fields) -> None:
        """Write a line with the state after it."""
        state = snapshot.state(self.scheduler, self.dump)
        if state is not None and self.has_encoder:
            state |= encoder.state(self.scheduler)
        self.emit({**fields, "state": state})

    def take(self, event: dict[str, Any], index: int) -> None:
        """One event."""
        from vllm.v1.core.sched.interface import PauseState

        match event["op"]:
            case "step":
                for _ in range(event.get("n", 1)):
                    self.step()
                return
            case "schedule":
                return self.schedule()
            case "update":
                return self.update()
            case "drain":
                while self.in_flight:
                    self.update()
                return
            case "run":
                return self.run_until_idle(event.get("max_steps", 1000))
            case "abort":
                return self.abort(event, index)
            case "reset_prefix_cache":
                reset_running = event.get("reset_running", False)
                ok = self.scheduler.reset_prefix_cache(reset_running_requests=reset_running)
                return self.emit_with_state({"ev": event["op"], "n": index, "ok": ok})
            case "reset_encoder_cache":
                self.scheduler.reset_encoder_cache()
                return self.emit_with_state({"ev": event["op"], "n": index})
            case "counts":
                counts = snapshot.counts(self.scheduler)
                return self.emit({"ev": event["op"], "n": index, **counts})
            case "add":
                self.add(event)
            case "pause":
                self.scheduler.set_pause_state(PauseState[event["state"]])
            case "evict_blocks":
                self.scheduler.kv_cache_manager.evict_blocks(set(event["ids"]))
            case "kv_done" | "kv_match" | "grammar_ready":
                self.surroundings.take(event)
            case "draft":
                told = self.proposer.told(event["tokens"], event.get("fill_in", False))
                return self.emit_with_state({"ev": event["op"], "n": index, **told})
            case unknown:
                raise ValueError(unknown)
        self.emit({"ev": event["op"], "n": index, "id": event.get("id")})

    def add(self, event: dict[str, Any]) -> None:
        """A request arrives."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        eos = event.get("eos")
        params = SamplingParams(
            max_tokens=event.get("max_tokens", 16),
            min_tokens=event.get("min_tokens", 0),
            stop_token_ids=event.get("stop"),
            ignore_eos=eos is None,
            skip_reading_prefix_cache=event.get("skip_cache_read"),
            structured_outputs=self.surroundings.constraints(event),
            repetition_detection=_repetition(event),
        )
        if eos is not None:
            params.update_from_generation_config({}, eos)
        self.num_arrivals += 1
        tokens = _tokens(event["prompt"])
        request = Request(
            request_id=event["id"],
            **encoder_side.kind_of_request(event, tokens, params),
            client_index=event.get("client_index", 0),
            arrival_time=float(event.get("arrival", self.num_arrivals)),
            lora_request=_lora(event),
            cache_salt=event.get("salt"),
            priority=event.get("priority", 0),
            block_hasher=self.hasher,
            resumable=event.get("resumable", False),
        )
        self.surroundings.add_grammar(request, event)
        if "eos_at" in event:
            self.eos_at[event["id"]] = (request.num_prompt_tokens + event["eos_at"], event["eos"])
        if event.get("cycle"):
            first, period = event["cycle"]
            self.cycles[event["id"]] = (request.num_prompt_tokens + first, period)
        # Of the end of a session workers never hear.
        if event.get("resumable") or event["id"] not in self.scheduler.requests:
            (self.pooling.add if event.get("pooling") else self.pooling.discard)(event["id"])
        self.scheduler.add_request(request)

    def abort(self, event: dict[str, Any], index: int) -> None:
        """Requests are ended from outside."""
        from vllm.v1.request import RequestStatus

        status = RequestStatus[event.get("status", "FINISHED_ABORTED")]
        ended = self.scheduler.finish_requests(event["ids"], status)
        # Pairs of id and client, or in later releases the requests themselves.
        aborted = sorted(e[0] if isinstance(e, tuple) else e.request_id for e in ended)
        self.emit_with_state({"ev": "abort", "n": index, "aborted": aborted})

    def schedule(self) -> None:
        """The first half of a step."""
        self.num_steps += 1
        output = self.scheduler.schedule()
        requests = self.scheduler.requests
        is_chunk = {id: requests[id].is_prefill_chunk for id in output.num_scheduled_tokens}
        self.in_flight.append((self.num_steps, output, is_chunk))
        self.proposer.scheduled(output)
        fields = {"ev": "schedule", "step": self.num_steps, **snapshot.decision(output)}
        if self.surroundings.has_grammars:
            fields["grammar"] = snapshot.grammar(self.scheduler, output)
        if self.has_encoder:
            fields |= encoder.decision(self.scheduler, output)
        self.emit_with_state(fields)

    def update(self) -> None:
        """The second half of the oldest step in flight."""
        from vllm.v1.outputs import ModelRunnerOutput

        step, output, is_chunk = self.in_flight.popleft()
        sampled = {id: self.sample(id, is_chunk[id]) for id in output.num_scheduled_tokens}
        whole = {id for id in sampled if id in self.pooling and not is_chunk[id]}
        model_output = ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={id: index for index, id in enumerate(sampled)},
            sampled_token_ids=[list(tokens) for tokens in sampled.values()],
            kv_connector_output=self.surroundings.take_report(),
            pooler_output=[0 if id in whole else None for id in sampled] if whole else None,
        )
        by_client = self.scheduler.update_from_output(output, model_output)
        drafted = self.proposer.updated(sampled, by_client)
        events = [snapshot.kv_event(event) for event in self.published]
        self.published.clear()
        fields = {
            "ev": "update",
            "step": step,
            "sampled": sampled,
            "outputs": snapshot.outputs(by_client),
            "kv_events": events,
            **drafted,
        }
        if self.config.get("include_finished_set"):
            fields["finished_by_client"] = snapshot.finished_by_client(by_client)
        self.emit_with_state(fields)

    def sample(self, id: str, is_chunk: bool) -> list[int]:
        """What the model samples for a request of a step; nothing once the request is gone."""
        request = self.scheduler.requests.get(id)
        if is_chunk or request is None or id in self.pooling:
            return []
        first, model = request.num_tokens, self.proposer.model
        num_accepted = self.proposer.num_accepted(id)
        if num_accepted is None:
            return []
        end = first + 1 + num_accepted
        start, eos = self.eos_at.get(id, (end, 0))
        begin, period = self.cycles.get(id, (end, 1))
        places = [at if at < begin else begin + (at - begin) % period for at in range(first, end)]
        return [
            eos if at >= start else model.token(id, place)
            for at, place in enumerate(places, start=first)
        ]

    def step(self) -> None:
        """A whole step; asynchronously, a turn of the engine's batch queue."""
        if not self.config["async_scheduling"]:
            self.schedule()
            self.update()
            return
        if self.scheduler.has_requests():
            self.schedule()
            _, output, _ = self.in_flight[-1]
            scheduled = output.total_num_scheduled_tokens
            # A mask that needs tokens in flight makes the engine take their step first.
            waits = output.pending_structured_output_tokens
            if scheduled and not waits and len(self.in_flight) < self.config["queue_depth"]:
                return
        if self.in_flight:
            self.update()

    def run_until_idle(self, max_steps: int) -> None:
        """Steps until nothing is unfinished."""
        for _ in range(max_steps):
            if not self.scheduler.has_unfinished_requests() and not self.in_flight:
                return
            if not self.config["async_scheduling"] and not self.scheduler.has_requests():
                return
            self.step()


def _tokens(prompt: Any) -> list[int]:
    """The tokens that a scenario's prompt stands for."""
    match prompt:
        case list():
            return list(prompt)
        case {"concat": parts}:
            return [token for part in parts for token in _tokens(part)]
        case {"range": bounds}:
            return list(range(*bounds))
        case _:
            return [prompt["fill"]] * int(prompt["n"])


def _repetition(event: dict[str, Any]) -> Any:
    """What, repeated among its outputs, ends a request; None: nothing."""
    from vllm.sampling_params import RepetitionDetectionParams

    wanted = event.get("repetition_detection")
    return None if wanted is None else RepetitionDetectionParams(**wanted)


def _lora(event: dict[str, Any]) -> SimpleNamespace | None:
    """An adapter; its number, where none is given, follows from its name."""
    name = event.get("lora")
    if not name:
        return None
    number = event.get("lora_id", zlib.crc32(name.encode()) % 1000 + 1)
    # Later releases hash the path too; an adapter's follows from its name.
    return SimpleNamespace(
        lora_name=name,
        name=name,
        lora_int_id=number,
        adapter_id=number,
        lora_path=f"/adapters/{name}",
    )


def _exception(raised: Exception) -> Fields:
    frames = traceback.extract_tb(raised.__traceback__)[-4:]
    return {
        "ev": "EXCEPTION",
        "type": type(raised).__name__,
        "msg": str(raised)[:300],
        "where": [f"{os.path.basename(f.filename)}:{f.lineno}:{f.name}" for f in frames],
        "state": None,
    }


def answer(line: str, dump: str) -> list[str] | dict[str, str]:
    """What the server says to one line: it survives whatever a scenario does to its engine."""
    try:
        return Driver(json.loads(line), dump).run()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def serve(answers: TextIO, dump: str) -> None:
    """Answer scenarios until the input ends."""
    for line in sys.stdin:
        if line.strip():
            print(json.dumps(answer(line, dump)), file=answers, flush=True)


def private_stdout() -> TextIO:
    """Standard output for the answers alone: what vLLM prints goes to standard error."""
    kept = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return kept


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", type=Path, metavar="SCENARIO.json")
    parser.add_argument("--serve", action="store_true", help="answer scenarios from stdin")
    parser.add_argument("--dump", default="full", choices=["full", "brief", "none"])
    parser.add_argument("-o", "--out", type=Path, help="write there instead of to stdout")
    options = parser.parse_args()
    if bool(options.scenarios) == options.serve:
        parser.error("give scenario files or --serve")
    torchless.install()
    if options.serve:
        serve(private_stdout(), options.dump)
        return
    sink = options.out.open("w") if options.out else sys.stdout
    with sink:
        for path in options.scenarios:
            for line in Driver(json.loads(path.read_text()), options.dump).run():
                print(line, file=sink)


if __name__ == "__main__":
    main()
