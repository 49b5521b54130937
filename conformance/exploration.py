"""What searches of a scope share on the command line: progress, and a scenario that replays."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nullblock.conformance.console import Screen, usage_error
from nullblock.conformance.files import write_atomically
from nullblock.spec.explorer.actions import Action
from nullblock.spec.explorer.export import scenario
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.result import Progress
from nullblock.spec.profiles import Semantics


def save(path: Path | None, scope: Scope, actions: Sequence[Action], semantics: Semantics) -> None:
    """Write actions of a scope, as they happen in a profile, as a scenario, whole or not at all.

    One line says so where a scenario has no words for the scope. Raises
    :class:`typer.BadParameter` where the file cannot be written.
    """
    if path is None:
        return
    try:
        document = json.dumps(scenario(scope, actions, semantics), indent=1)
    except ValueError as error:
        print(f"{path} is not written: {error}", file=sys.stderr)
        return
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
