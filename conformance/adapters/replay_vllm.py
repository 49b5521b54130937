"""The real vLLM under a workload, in a process of its own environment."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any

import nullblock.conformance
from nullblock.conformance.engine import Fields
from nullblock.conformance.errors import InputError
from nullblock.conformance.replaying.configuration import as_written
from nullblock.conformance.replaying.engine import Pool, ReplayEngine, Request
from nullblock.conformance.scenario_format import Config

SERVER = Path(__file__).parent / "vllm" / "serve.py"
RELEASE = "0.22.1"
"""The release whose scheduler is driven here."""


class VllmError(InputError):
    """The real engine cannot be started, or it ended."""

    exit_code = 3
    kind = "vllm"


def start(config: Config, python: Path, preload: Path | None, trace: Path | None) -> ReplayEngine:
    """A scheduler of the vLLM in the environment of that interpreter. Raises VllmError."""
    engine = _Vllm(config, python, preload, trace)
    try:
        engine.version = str(
            engine.ask({**as_written(config), "hash_algo": config.hash_algo})["version"]
        )
        if engine.version != RELEASE:
            what = f"{python} has vLLM {engine.version}"
            raise VllmError(what, f"vLLM {RELEASE} is driven here", "--python")
    except BaseException:
        engine.close()
        raise
    return engine


def _environment(config: Config, trace: Path | None) -> dict[str, str]:
    """This process's, with the recorder's variables set for the replay alone."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NULLBLOCK_TRACE")}
    kept["PYTHONHASHSEED"] = str(config.hash_seed)
    if trace is not None:
        kept["NULLBLOCK_TRACE"] = str(trace)
        # Steps follow one another faster here than on a device: nothing may be lost for that.
        kept["NULLBLOCK_TRACE_QUEUE_MB"] = "4096"
    return kept


class _Vllm:
    """Implements :class:`nullblock.conformance.replaying.engine.ReplayEngine`."""

    def __init__(
        self, config: Config, python: Path, preload: Path | None, trace: Path | None
    ) -> None:
        self.python = python
        self.usable = config.num_blocks - 1
        self.version = ""
        self._has_requests = False
        self._free, self._evictions = self.usable, 0
        self._chunks: frozenset[str] = frozenset()
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (until it is closed)
        folder = Path(nullblock.conformance.__file__).parents[2]
        command = [str(python), "-B", str(SERVER), str(folder)]
        environment = _environment(config, trace)
        try:
            self._server = subprocess.Popen(
                command if preload is None else [*command, str(preload)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=environment,
                # Ctrl-C is for us: the engine ends when it is told to.
                start_new_session=True,
            )
        except OSError as error:
            self._said.close()
            raise VllmError(f"{python}: {error.strerror or error}", "", "--python") from None

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._has_requests = True
        content = request.content
        fields = {
            "id": request.id,
            "length": content.length,
            "unit": content.unit,
            "runs": content.runs,
            "max_tokens": request.max_tokens,
            "eos": request.eos,
            "arrival": request.arrival,
        }
        self._send(["add", fields])

    def schedule(self) -> Fields:
        """Decide one step."""
        told = self._told(["schedule"])
        self._chunks = frozenset(told["chunks"])
        decided: Fields = told["decided"]
        return decided

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what was sampled for the oldest step in flight."""
        outputs: list[Fields] = self._told(["update", sampled])["outputs"]
        return outputs

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        return id in self._chunks

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self._has_requests

    def num_evictions(self) -> int:
        """Blocks that lost the content they cached, so far."""
        return self._evictions

    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return self._free

    def pool_use(self) -> Pool:
        """How the pool is used."""
        told = self.ask(["pool"])
        return Pool(held=self.usable - told["free"], cached=told["cached"])

    def finish(self) -> None:
        """Seal the recording."""
        self.ask(["close"])

    def close(self) -> None:
        """End the process."""
        if self._server.poll() is None:
            self._server.kill()
        self._server.communicate()
        self._said.close()

    def _told(self, asked: list[Any]) -> Fields:
        told = self.ask(asked)
        self._has_requests, self._free = told["has_requests"], told["free"]
        self._evictions = told["evictions"]
        return told

    def ask(self, asked: Any) -> Fields:
        """Send a line and wait for the answer.

        Raises VllmError, and what the engine raised as a RuntimeError of that name.
        """
        self._send(asked)
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise VllmError(f"vLLM ended: {self._last_words()}", "", "--python")
        answer: Fields = json.loads(line)
        if "error" in answer:
            remedy = "name an interpreter whose environment has vLLM, or see --preload"
            raise VllmError(f"{self.python}: {answer['error']}", remedy, "--python")
        if "raised" in answer:
            raise type(answer["raised"], (RuntimeError,), {})(answer["reason"])
        return answer

    def _send(self, asked: Any) -> None:
        assert self._server.stdin is not None
        try:
            self._server.stdin.write(json.dumps(asked).encode() + b"\n")
            self._server.stdin.flush()
        except BrokenPipeError:
            raise VllmError(f"vLLM ended: {self._last_words()}", "", "--python") from None

    def _last_words(self) -> str:
        self._said.seek(0)
        words = self._said.read()[-2000:].decode(errors="replace").strip()
        return (words.splitlines() or ["without a word"])[-1]
