"""Runs the engines again and writes the evidence and the page of the repository, both or none."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from nullblock.conformance.files import atomic_writer, check_writable
from nullblock.conformance.ledger import evidence
from nullblock.conformance.ledger.digest import ROOT
from nullblock.conformance.ledger.judge import Ledger, judge
from nullblock.conformance.ledger.markdown import markdown
from nullblock.conformance.ledger.registry import SOURCES
from nullblock.conformance.ledger.rows import few
from nullblock.conformance.ledger.sources.base import NOTE

PAGE = ROOT / "LEDGER.md"
WORKER = "nullblock.conformance.ledger.worker"


class Failed(Exception):
    """An engine did not come to an end; the text says which, and why."""


def checkout() -> bool:
    """Whether this is a checkout of the repository, where there is something to refresh."""
    return (ROOT / "tests" / "mutants").is_dir()


def note(text: str) -> None:
    """Say on standard error what a source had to say while it was gathered."""
    print(text, file=sys.stderr, flush=True)


def gathered(names: Collection[str], say: Callable[[str], None]) -> dict[str, Any]:
    """The records of some sources, two engines at a time; their notes are passed on as they come.
    Raises Failed.
    """

    def one(name: str) -> Any:
        last = "no reason"
        with (
            tempfile.TemporaryFile() as out,
            subprocess.Popen(
                [sys.executable, "-m", WORKER, name], stdout=out, stderr=subprocess.PIPE
            ) as worker,
        ):
            for line in worker.stderr or ():
                text = line.decode(errors="replace").strip()
                if text.startswith(NOTE):
                    note(f"{name}: {text.removeprefix(NOTE)}")
                last = text or last
            if worker.wait():
                raise Failed(f"{name}: {last}")
            say(name)
            out.seek(0)
            return msgspec.json.decode(out.read(), type=SOURCES[name].record)

    # What long runs have left is read first: where it cannot be, nobody waits for engines.
    order = sorted(names, key=lambda name: SOURCES[name].of is None)
    with ThreadPoolExecutor(2) as pool:
        asked = {name: pool.submit(one, name) for name in order}
        try:
            found = {name: asked[name].result() for name in order}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {name: found[name] for name in names}


def refresh(
    names: Collection[str] = (),
    say: Callable[[str], None] = lambda name: None,
    file: Path = evidence.FILE,
    page: Path = PAGE,
) -> Ledger:
    """Run the engines, write both files, and return the new ledger.

    `names`: only these sources; the others stay as they are recorded. Raises Failed, and before
    any engine runs OSError if a file cannot be written, and Damaged if something is to stay that
    cannot be read.
    """
    for path in (file, page):
        check_writable(path)
    old = evidence.load().sources if names else {}
    staying = {name: old[name] for name in SOURCES if name in old and name not in names}
    if names:
        check_staying(names, staying)
    found = gathered(names or SOURCES, say)
    new = {name: evidence.kept(name, found[name]) for name in found}
    both = staying | new
    whole = evidence.Evidence("nullblock-ledger", 1, {n: both[n] for n in SOURCES if n in both})
    ledger = judge(whole)
    data, text = evidence.dump(whole), markdown(ledger).encode()
    with atomic_writer(file) as first, atomic_writer(page) as second:
        first.write(data)
        second.write(text)
    return ledger


def check_staying(names: Collection[str], staying: dict[str, evidence.Kept]) -> None:
    """Say in one line which of the sources that stay fall short of the present text: the ledger
    will, too. Raises Damaged, with the sources to refresh first, if some cannot be read.
    """
    bad: dict[str, str] = {}
    for name, kept in staying.items():
        try:
            evidence.record(name, kept)
        except evidence.Damaged as error:
            bad[name] = str(error)
    if bad:
        first = "".join(f" --only {name}" for name in bad)
        raise evidence.Damaged(f"{'; '.join(bad.values())}: refresh first, or with it:{first}")
    ledger = judge(evidence.Evidence("nullblock-ledger", 1, staying))
    short = dict(_short(names, ledger))
    if short:
        also = "".join(f" --only {name}" for name in short)
        why = "; ".join(f"{name}: {why}" for name, why in short.items())
        note(f"what stays falls short, and the ledger will say so: {why}. Refresh too:{also}")


def _short(names: Collection[str], ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Sources that stay, and why they fall short."""
    for name, source in SOURCES.items():
        if name in names:
            continue
        if name not in ledger.records:
            yield name, "nothing is recorded"
        elif name in ledger.stale and source.claimed:
            again = f", for which {source.again} runs first" if source.again else ""
            yield name, f"of an earlier text{again}"
        elif broken := list(source.broken(ledger.records[name])):
            yield name, few(broken, 1).removeprefix(f"{name}: ")
