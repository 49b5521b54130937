"""Runs the engines again and writes the evidence and the page of the repository, both or none."""

import subprocess
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.files import atomic_writer
from nullblock.conformance.ledger import evidence
from nullblock.conformance.ledger.digest import ROOT
from nullblock.conformance.ledger.judge import Ledger, judge
from nullblock.conformance.ledger.markdown import markdown
from nullblock.conformance.ledger.registry import SOURCES

PAGE = ROOT / "LEDGER.md"
WORKER = "nullblock.conformance.ledger.worker"


class Failed(Exception):
    """An engine did not come to an end; the text says which, and why."""


def checkout() -> bool:
    """Whether this is a checkout of the repository, where there is something to refresh."""
    return (ROOT / "tests" / "mutants").is_dir()


def gathered(names: Collection[str], say: Callable[[str], None]) -> dict[str, Any]:
    """The records of some sources, two engines at a time. Raises Failed."""

    def one(name: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", WORKER, name], capture_output=True, check=False
        )
        if done.returncode:
            last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
            raise Failed(f"{name}: {last}")
        say(name)
        return msgspec.json.decode(done.stdout, type=SOURCES[name].record)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def refresh(
    names: Collection[str] = (),
    say: Callable[[str], None] = lambda name: None,
    file: Path = evidence.FILE,
    page: Path = PAGE,
) -> Ledger:
    """Run the engines, write both files, and return the new ledger.

    `names`: only these sources; the others stay as they are recorded. Raises Failed, OSError, and
    Damaged if something is to stay that cannot be read.
    """
    old = evidence.load().sources if names else {}
    found = gathered(names or SOURCES, say)
    new = {name: evidence.kept(name, found[name]) for name in found}
    kept = {name: new[name] if name in new else old[name] for name in SOURCES if name in new | old}
    whole = evidence.Evidence("nullblock-ledger", 1, kept)
    ledger = judge(whole)
    data, text = evidence.dump(whole), markdown(ledger).encode()
    with atomic_writer(file) as first, atomic_writer(page) as second:
        first.write(data)
        second.write(text)
    return ledger
