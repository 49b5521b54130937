"""One replay: a workload, an engine, a configuration; its trace and its figures."""

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.replaying import configuration
from nullblock.conformance.replaying.arrivals import Arrivals, Pace
from nullblock.conformance.replaying.clock import Clock, StepTime
from nullblock.conformance.replaying.engine import (
    ReplayEngine,
    ReplayEngineName,
    make_engine,
    start_vllm,
)
from nullblock.conformance.replaying.figures import Figures
from nullblock.conformance.replaying.play import EngineRaised, Play, Stuck
from nullblock.conformance.replaying.recorder import NoRecorder, Recorder
from nullblock.conformance.scenario_format import Config
from nullblock.conformance.workloads.formats import Format, open_workload
from nullblock.spec.profiles import Semantics

_LEVEL = 6
"""Of compression: a long replay writes a gigabyte of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be replayed, and how."""

    workload: Path
    format: Format | None
    scale: int
    shared_prefix: int
    pace: Pace
    step_time: StepTime
    engine: ReplayEngineName
    config: Config
    config_text: str = configuration.DEFAULT
    """How it was written."""
    label: str = ""
    """What tells this run from others of one command."""
    semantics: Semantics
    profile: str
    python: Path | None = None
    preload: Path | None = None
    trace: Path | None = None
    """Where the trace goes; None: nowhere."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of it."""

    plan: Plan
    format: Format
    notes: list[str]
    figures: Figures
    too_long: int = 0
    shortened: int = 0
    unfinished: int = 0
    interrupted: bool = False
    stuck: bool = False
    """The engine has requests left and will never serve them."""
    raised: str | None = None
    """What the engine raised."""
    wall_seconds: float = 0.0


Progress = Callable[[Figures], None]


def replay(plan: Plan, progress: Progress) -> Result:
    """Play the workload.

    Ctrl-C ends it between two steps; what there is then is a result, and a trace.

    Raises:
        InputError: the workload is damaged, or the engine cannot run under that configuration.
        OSError: a file cannot be read or written.
    """
    workload = open_workload(
        plan.workload, plan.format, scale=plan.scale, shared_prefix=plan.shared_prefix
    )
    figures = Figures(plan.config.block_size, plan.config.num_blocks - 1)
    room = configuration.room(plan.config)
    arrivals = Arrivals(workload.sessions, plan.pace, room)
    result = Result(plan=plan, format=workload.format, notes=list(workload.notes), figures=figures)
    with ExitStack() as stack:
        engine, recorder = stack.enter_context(_engine(plan))
        play = Play(
            engine,
            arrivals,
            Clock(plan.step_time),
            figures,
            recorder,
            plan.config.queue_depth if plan.config.async_scheduling else 1,
        )
        interrupted = stack.enter_context(_interrupts())
        began = time.monotonic()
        try:
            for _ in play.run():
                progress(figures)
                if interrupted.is_set():
                    result.interrupted = True
                    break
        except Stuck:
            result.stuck = True
        except EngineRaised as raised:
            result.raised = f"{type(raised.__cause__).__name__}: {raised.__cause__}"[:300]
        result.wall_seconds = time.monotonic() - began
        figures.until(play.clock.now)
        figures.totals.evictions = engine.num_evictions()
        result.too_long, result.shortened = arrivals.too_long, arrivals.shortened
        result.unfinished = len(figures.live)
    return result


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second one interrupts as ever."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def _engine(plan: Plan) -> AbstractContextManager[tuple[ReplayEngine, NoRecorder]]:
    return _real(plan) if plan.engine == ReplayEngineName.vllm else _ours(plan)


@contextmanager
def _ours(plan: Plan) -> Iterator[tuple[ReplayEngine, NoRecorder]]:
    """An engine of this project, and the trace that is written here."""
    from nullblock.conformance.trace.configured import header
    from nullblock.conformance.trace.writer import trace_file

    engine = make_engine(plan.engine, plan.config, plan.semantics)
    if plan.trace is None:
        yield engine, NoRecorder()
        return
    with trace_file(plan.trace, level=_LEVEL) as writer:
        told = plan.engine.value, version("nullblock"), plan.profile, plan.semantics
        writer.write(header(plan.config, *told))
        yield engine, Recorder(plan.config, writer.write)


@contextmanager
def _real(plan: Plan) -> Iterator[tuple[ReplayEngine, NoRecorder]]:
    """The real engine, which records itself; its trace is packed here."""
    assert plan.python is not None
    with tempfile.TemporaryDirectory(dir=plan.trace.parent if plan.trace else None) as folder:
        raw = Path(folder) / "raw.jsonl"
        engine = start_vllm(
            plan.config, plan.python, plan.preload, None if plan.trace is None else raw
        )
        try:
            yield engine, NoRecorder()
            if plan.trace is not None:
                engine.finish()
        finally:
            engine.close()
        if plan.trace is not None:
            _pack(raw, plan.trace)


def _pack(raw: Path, trace: Path) -> None:
    """Compress and seal a recording, without the random name that it got."""
    from nullblock.conformance.trace.reader import TraceReader
    from nullblock.conformance.trace.records import End, Header
    from nullblock.conformance.trace.writer import trace_file

    with trace_file(trace, level=_LEVEL) as writer:
        for located in TraceReader(raw):
            record: Any = located.written
            if isinstance(record, Header):
                record = msgspec.structs.replace(record, recording=msgspec.UNSET)
            if not isinstance(record, End):
                writer.write(record)
