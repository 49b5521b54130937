"""Runs scenarios on the real engine twice, plain and recorded. Runs where vLLM is.

    python record_engine.py SCENARIOS.json FOLDER [EVERY]

For each scenario, by name: ``NAME.plain`` and ``NAME.recorded`` hold the driver's lines, and
``NAME.jsonl`` is the recording, with the whole state after EVERY so many steps: by default never,
and in every second scenario after every third. A recording is called by its scenario's name, not
at random, so that it comes out the same each time. A scenario with a number ``recorded_from`` is
recorded from the event with that number on, counted from 0; one with ``observe``, a text, with
that in ``NULLBLOCK_TRACE_OBSERVE``; one with ``state_every``, a number, with the whole state after
so many. For releases that know of it, ``throttled`` has the numbers of steps that are asked to
hold prefills back, where all others are asked not to, and ``failed_recving`` the ids of which the
update with a number reports that their load has failed, ``failed_grammars`` those whose grammars
do not compile, as the step with a number finds. One that is ``optional`` is left out where the
engine cannot be made for it.
"""

import hashlib
import itertools
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]

import torchless  # noqa: E402  (found from here on)

torchless.install()

import drive  # noqa: E402
from played import EncoderConnector  # noqa: E402
from setup_engine import DEFAULTS  # noqa: E402
from surroundings import connect  # noqa: E402
from vllm.v1.core.sched import async_scheduler, scheduler  # noqa: E402
from vllm.v1.outputs import KVConnectorOutput  # noqa: E402

from nullblock.conformance.adapters.vllm import recorder  # noqa: E402

PLAIN = scheduler.Scheduler, async_scheduler.AsyncScheduler
RECORDED = recorder.RecordingScheduler, recorder.RecordingAsyncScheduler


def connected(kind: Any, config: dict[str, Any]) -> Any:
    """A scheduler of that kind, recorded, which makes itself a scenario's connectors."""

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        kind.__init__(self, *args, **kwargs)
        if config["connector"] is not None:
            connect(self, config)
        if external(config) is not None:
            self.ec_connector = EncoderConnector(external(config))

    body = {"__init__": make, "__module__": kind.__module__}
    return recorder.recording(type(kind.__name__, (kind,), body))


def external(config: dict[str, Any]) -> list[str] | None:
    """What an encoder connector has; None: there is none."""
    found: list[str] | None = (config.get("encoder") or {}).get("external")
    return found


def begin_later(driver: Any, begins: int, where: str) -> None:
    """Recording begins before the event with that number."""
    take = driver.take

    def taken(event: dict[str, Any], index: int) -> None:
        if index == begins:
            driver.scheduler.start_recording(where)
        take(event, index)

    driver.take = taken


def tell_besides(driver: Any, scenario: dict[str, Any]) -> None:
    """What the engine is told with a step, or an output, that scenarios have no words for."""
    held, failing = scenario.get("throttled"), scenario.get("failed_recving", {})
    schedule, report = driver.scheduler.schedule, driver.surroundings.take_report
    updates = itertools.count(1)

    def reported() -> Any:
        found, failed = report(), failing.get(str(next(updates)), ())
        if failed:
            found = found or KVConnectorOutput()
            found.failed_recving = set(failed)
        return found

    driver.surroundings.take_report = reported
    wrong = scenario.get("failed_grammars", {})

    def scheduled() -> Any:
        for id in wrong.get(str(driver.num_steps), ()):
            driver.scheduler.requests[id].structured_output_request.grammar = ValueError(id)
        return schedule(*([driver.num_steps in held] if held is not None else []))

    driver.scheduler.schedule = scheduled


def main() -> None:
    """Run them all."""
    scenarios, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    for number, (name, scenario) in enumerate(scenarios.items()):
        # A state is told with what waits before it: half of the scenarios wait as long as usual.
        every = sys.argv[3] if len(sys.argv) > 3 else "3" if number % 2 else "0"
        every = str(scenario.get("state_every", every))
        os.environ["NULLBLOCK_TRACE_STATE_EVERY"] = every
        os.environ["NULLBLOCK_TRACE_OBSERVE"] = scenario.get("observe", "all")
        called = hashlib.sha256(name.encode()).hexdigest()
        secrets.token_hex = lambda many, called=called: called[: 2 * many]
        config = {**DEFAULTS, **scenario.get("config", {})}
        connects = config["connector"] is not None or external(config) is not None
        kinds_recorded = tuple(connected(k, config) for k in PLAIN) if connects else RECORDED
        for suffix, kinds in (("plain", PLAIN), ("recorded", kinds_recorded)):
            scheduler.Scheduler, async_scheduler.AsyncScheduler = kinds
            where, begins = str(folder / f"{name}.jsonl"), scenario.get("recorded_from", 0)
            os.environ["NULLBLOCK_TRACE"] = "" if begins else where
            try:
                driver = drive.Driver(json.loads(json.dumps(scenario)))
            except Exception:
                if not scenario.get("optional"):
                    raise
                break
            tell_besides(driver, scenario)
            if begins and suffix == "recorded":
                begin_later(driver, begins, where)
            lines = driver.run()
            driver.scheduler.shutdown()
            (folder / f"{name}.{suffix}").write_text("\n".join(lines))


main()
