"""What a replay asks of an engine, and what it tells it."""

import enum
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from nullblock.conformance import scope
from nullblock.conformance.engine import Fields
from nullblock.conformance.engines import features_of
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.workloads.content import Content
from nullblock.spec.profiles import Semantics


class ReplayEngineName(enum.StrEnum):
    """Engines of this project, and the real one."""

    spec = "spec"
    reference = "reference"
    impl = "impl"
    vllm = "vllm"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it reaches the engine: it has no tokens, its content tells what it shares."""

    number: int
    """From 0, in order of arrival."""
    content: Content
    output_length: int
    """Tokens that the model samples."""
    max_tokens: int
    """As many, or more where the model ends it with an eos token."""
    eos: int | None
    arrival: float
    """Seconds on the clock."""

    @property
    def stop(self) -> None:
        """No token stops it but eos."""
        return None

    @property
    def repetition(self) -> None:
        """Nor do tokens that repeat themselves."""
        return None

    @property
    def id(self) -> str:
        """Its id in the engine; ids are in order of arrival, as numbers are."""
        return id_of(self.number)


def id_of(number: int) -> str:
    """The id of a request."""
    return f"r{number:08}"


def number_of(id: str) -> int:
    """The number of a request."""
    return int(id[1:])


@dataclass(frozen=True, slots=True)
class Pool:
    """How the blocks of a pool are used. The null block counts nowhere."""

    held: int
    """Blocks that some request holds."""
    cached: int
    """Free blocks whose content can still be hit."""


class ReplayEngine(Protocol):
    """The part of :class:`nullblock.conformance.engine.Engine` that a replay needs, and more.

    ``schedule`` may be called with other steps in flight.
    """

    def add(self, request: Request) -> None:
        """Queue a request."""
        ...

    def schedule(self) -> Fields:
        """Decide one step: see :class:`nullblock.conformance.engine.Engine`."""
        ...

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what was sampled for the oldest step in flight."""
        ...

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether the step just scheduled leaves tokens of the request uncomputed."""
        ...

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        ...

    def num_evictions(self) -> int:
        """Blocks that lost the content they cached, so far."""
        ...

    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        ...

    def pool_use(self) -> Pool:
        """How the pool is used. Takes time in proportion to its size."""
        ...

    def finish(self) -> None:
        """Complete what the engine records itself; it is not asked for anything after that."""
        ...

    def close(self) -> None:
        """Let go of what the engine holds outside this process."""
        ...


def make_engine(name: ReplayEngineName, config: Config, semantics: Semantics) -> ReplayEngine:
    """A fresh engine of this project.

    Raises OutOfScope where the configuration needs what the engine does not do.
    """
    scope.check_engine(config, name, features_of(name))
    adapter = import_module(f"nullblock.conformance.adapters.replay_{name}")
    return cast(ReplayEngine, adapter.create(config, semantics))


def start_vllm(
    config: Config, python: Path, preload: Path | None, trace: Path | None
) -> ReplayEngine:
    """The real engine in a process of its own; it records itself if ``trace`` is given.

    Raises :class:`nullblock.conformance.errors.InputError` where vLLM cannot be started there.
    """
    from nullblock.conformance.adapters import replay_vllm

    return replay_vllm.start(config, python, preload, trace)
