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

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nullblock.spec.catalogue import catalogue

BUNDLED = Path(__file__).parent / "bundled"
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


def bundled_traces() -> list[Path]:
    """The recordings that travel with the package."""
    return sorted(p for p in BUNDLED.iterdir() if ".jsonl" in p.name)


def jobs() -> list[tuple[str, ...]]:
    """What `make check` runs, longest first."""
    traces = tuple(str(p) for p in bundled_traces())
    return [("explore",), ("prove",), ("check", *traces), ("explore", "--departures")]


def main() -> int:
    """Run everything and print the screen. Returns 0 if every claim was shown, 1 otherwise."""
    console = Console()
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
        console.print(_invariants(explore.document, prove.document))
        console.print(_engines(explore, prove))
    if departures.document:
        console.print(_departures(departures.document))
    if check.document:
        console.print(_verdict(check))
    for job in broken:
        last = (job.complaint or "no JSON").splitlines()[-1]
        console.print(Text(f"FAILED  {job.command}: exit {job.code}: {last}", style="bold red"))
    if not broken:
        console.print(Text("every claim above was shown in this run", style="bold green"))
    return 1 if broken else 0


def _invariants(explore: Any, prove: Any) -> Table:
    """Every invariant, and what this run showed of it."""
    proved = set(prove["invariants"])
    scopes = len(explore["scopes"])
    table = Table(title="Invariants (normative profile)", title_justify="left")
    table.add_column("ID", no_wrap=True)
    table.add_column("sentence", ratio=1, overflow="ellipsis", no_wrap=True)
    table.add_column("Z3")
    table.add_column("explorer")
    for s in catalogue():
        if s.kind == "invariant":
            shown = "proved" if s.id in proved else "-"
            table.add_row(s.id, Text(s.sentence), shown, f"exhaustive to {scopes} scopes")
    return table


def _engines(explore: Job, prove: Job) -> Table:
    table = Table(title="Engines", title_justify="left")
    for column in ("engine", "what", "seconds"):
        table.add_column(column)
    for scope in explore.document["scopes"]:
        table.add_row(
            f"explorer {scope['name']}",
            f"{scope['states']:,} states, {scope['transitions']:,} transitions, "
            f"{len(scope['witnesses'])} witnesses",
            f"{scope['seconds']:.1f}",
        )
    report = prove.document
    table.add_row(
        "Z3",
        f"{report['proved']:,} of {report['obligations']:,} obligations",
        f"{prove.seconds:.1f}",
    )
    return table


def _departures(document: Any) -> Table:
    table = Table(
        title="Departures of vLLM 0.22.1, rediscovered from the rules", title_justify="left"
    )
    table.add_column("switch")
    table.add_column("upstream")
    table.add_column("breaks", no_wrap=True)
    table.add_column("steps", justify="right")
    table.add_column("story", ratio=1)
    for d in document["departures"]:
        table.add_row(
            d["switch"], d["upstream"], d["breaks"], str(len(d["trace"])), Text(d["story"])
        )
    return table


def _verdict(check: Job) -> Table:
    table = Table(title="A real vLLM 0.22.1 run under a production workload", title_justify="left")
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


if __name__ == "__main__":
    sys.exit(main())
