"""The one screen of `make check`: invariants, what shows them, a verdict, departures.

Runs the commands that a user would run, two at a time, and reads their `--json`.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from nullblock.conformance import bundled
from nullblock.conformance.console import Screen
from nullblock.spec.catalogue import catalogue

MAIN = "import sys; from nullblock.conformance.cli import main; sys.exit(main())"


@dataclass(frozen=True, slots=True)
class Job:
    """One command and what it said."""

    arguments: tuple[str, ...]
    code: int
    document: Any
    seconds: float
    complaint: str

    @property
    def command(self) -> str:
        """As a user would type it."""
        return " ".join(("nullblock", *self.arguments))


def run(arguments: tuple[str, ...]) -> Job:
    """Run one nullblock command with --json."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    return Job(arguments, done.returncode, document, time.monotonic() - begun, done.stderr.strip())


def jobs() -> list[tuple[str, ...]]:
    """What `make check` runs, longest first."""
    traces = tuple(str(p) for p in bundled.traces())
    return [("explore", "--compiled"), ("prove",), ("check", *traces), ("explore", "--departures")]


def main() -> int:
    """Run everything and print the screen. Returns 0 if every claim was shown, 1 otherwise."""
    # A pipe has no width; a table of sentences needs some.
    console = Screen() if sys.stdout.isatty() else Screen(width=120)
    say: Callable[[str], None] = console.log if console.is_terminal else (lambda text: None)
    with ThreadPoolExecutor(2) as pool:
        futures = {pool.submit(run, arguments): arguments for arguments in jobs()}
        done = []
        for future in futures:
            job = future.result()
            say(f"{job.command}: {job.seconds:.0f} s, exit {job.code}")
            done.append(job)
    explore, prove, check, departures = done
    broken = [job for job in done if job.code != 0 or job.document is None]
    if explore.document and prove.document:
        console.print(_invariants(explore.document, prove.document, console.width))
        console.print(_engines(explore, prove))
        for line in _readable(explore.document):
            console.print(Text(line))
    if departures.document:
        console.print(_departures(departures.document))
    if check.document:
        console.print(_verdict(check))
    for job in broken:
        last = (job.complaint or "no JSON").splitlines()[-1]
        console.print(Text(f"FAILED  {job.command}: exit {job.code}: {last}", style="bold red"))
    if not broken:
        console.print(Text(_summary(explore, prove, departures, check), style="bold green"))
    return 1 if broken else 0


def _invariants(explore: Any, prove: Any, width: int) -> Table:
    """Every invariant, and what this run showed of it."""
    proved = _proved(prove)
    scopes = len(explore["scopes"])
    table = Table(
        title="Invariants, profile normative. Proved: by Z3, for any size. Exhaustive: in every "
        f"state of {scopes} scopes",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("ID", min_width=9, no_wrap=True)
    table.add_column("sentence", max_width=width - 40, overflow="ellipsis", no_wrap=True)
    table.add_column("shown", min_width=18, no_wrap=True)
    for s in catalogue():
        if s.kind == "invariant":
            shown = "proved, exhaustive" if s.id in proved else "exhaustive"
            table.add_row(s.id, Text(s.sentence), shown)
    return table


def _proved(prove: Any) -> set[str]:
    """IDs of what holds for any size: kept by every rule, or by a theorem that Z3 proves."""
    return set(prove["invariants"]) | {
        t["id"]
        for t in prove["theorems"]
        if t["engine"].startswith("Z3") and all(c["status"] == "proved" for c in t["checked"])
    }


def _obligations(prove: Any) -> int:
    """Obligations that were discharged."""
    found = [c for t in prove["theorems"] for c in t["checked"]]
    times: list[int] = [c["times"] for c in found if c["status"] == "proved"]
    return int(prove["proved"]) + sum(times)


def _engines(explore: Job, prove: Job) -> Table:
    table = Table(title="Engines", title_justify="left", box=SIMPLE_HEAD)
    for column in ("engine", "what", "seconds"):
        table.add_column(column)
    for scope in explore.document["scopes"]:
        table.add_row(
            f"explorer {scope['name']}, {scope['form']}",
            f"{scope['states']:,} states, {scope['transitions']:,} transitions, "
            f"{len(scope['witnesses'])} witnesses",
            f"{scope['seconds']:.1f}",
        )
    report = prove.document
    table.add_row(
        "Z3",
        f"{_obligations(report):,} obligations",
        f"{prove.seconds:.1f}",
    )
    return table


def _readable(explore: Any) -> list[str]:
    """Why scopes were searched slowly, if some were, a line each reason."""
    scopes: dict[str, list[str]] = {}
    for scope in explore["scopes"]:
        if scope["readable_because"]:
            scopes.setdefault(scope["readable_because"], []).append(scope["name"])
    return [
        f"searched by the readable form: {', '.join(names)}: {why}"
        for why, names in scopes.items()
    ]


def _departures(document: Any) -> Table:
    table = Table(
        title="Departures of vLLM 0.22.1, rediscovered from the rules (nullblock explore "
        "--departures NAME tells the story)",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("departure", no_wrap=True)
    table.add_column("what happens", ratio=1)
    table.add_column("upstream")
    table.add_column("breaks", no_wrap=True)
    table.add_column("actions", justify="right")
    table.add_column("normative", no_wrap=True)
    for d in document["departures"]:
        found = str(len(d["trace"])) if d["trace"] else "not found"
        table.add_row(
            d["name"], Text(d["sentence"]), d["upstream"], d["breaks"], found, d["normative"]
        )
    return table


def _verdict(check: Job) -> Table:
    table = Table(
        title="Runs of the real vLLM 0.22.1: production workloads, and a pool too small",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for column in ("trace", "verdict", "profile", "steps", "decisions", "rules exercised"):
        table.add_column(column)
    found = check.document if isinstance(check.document, list) else [check.document]
    for trace, v in zip(check.arguments[1:], found, strict=False):
        table.add_row(
            Path(trace).name,
            v["verdict"],
            v["profile"],
            f"{v['steps']:,}",
            f"{v['decisions']:,}",
            str(len(v["rules"])),
        )
    return table


def _summary(explore: Job, prove: Job, departures: Job, check: Job) -> str:
    """What all of it comes to, in a few lines."""
    scopes = explore.document["scopes"]
    invariants = [s for s in catalogue() if s.kind == "invariant"]
    verdicts = check.document if isinstance(check.document, list) else [check.document]
    proved = _proved(prove.document)
    theorems = len(proved - {s.id for s in invariants})
    return (
        f"{len(invariants)} invariants hold in every one of "
        f"{sum(s['states'] for s in scopes):,} states; {len(proved) - theorems} of them, and "
        f"{theorems} theorems, are proved for any size ({_obligations(prove.document):,} "
        "obligations).\n"
        f"{len(departures.document['departures'])} departures of vLLM 0.22.1 were found again.\n"
        f"{sum(v['steps'] for v in verdicts):,} steps that it took, most of them under a "
        f"production workload: {', '.join(dict.fromkeys(v['verdict'] for v in verdicts))}."
    )


if __name__ == "__main__":
    sys.exit(main())
