"""What searches of a scope share on the command line: progress, and a scenario that replays."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nullblock.conformance.console import Screen, usage_error
from nullblock.conformance.files import write_atomically
from nullblock.spec.explorer.actions import Action
from nullblock.spec.explorer.export import scenario
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.result import Progress


def save(path: Path | None, scope: Scope, actions: Iterable[Action]) -> None:
    """Write actions of a scope as a scenario, whole or not at all.

    Raises :class:`typer.BadParameter` where the file cannot be written.
    """
    if path is None:
        return
    document = json.dumps(scenario(scope, actions), indent=1)
    try:
        write_atomically(path, f"{document}\n".encode())
    except OSError as error:
        raise usage_error(f"{path}: {error.strerror or error}", "--save") from None


@contextmanager
def progress(name: str) -> Iterator[Progress | None]:
    """How far a search has come, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    with Screen(stderr=True).status(name) as status:
        yield lambda states, transitions: status.update(
            f"{name}: {states:,} states, {transitions:,} transitions"
        )


def listing(lines: list[tuple[str, str]], as_json: bool) -> None:
    """Names and what each is for, one a line."""
    if as_json:
        print(
            json.dumps([{"name": name, "purpose": purpose} for name, purpose in lines], indent=2)
        )
        return
    width = max(len(name) for name, _ in lines)
    for name, purpose in lines:
        print(f"{name:{width}}  {purpose}")
