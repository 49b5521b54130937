"""What commands say beside their output: errors, progress, and where output goes."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import typer

from nullblock.conformance.errors import InputError
from nullblock.conformance.files import atomic_writer

T = TypeVar("T")


def complain(error: InputError, as_json: bool) -> None:
    """One line on standard error."""
    if as_json:
        fields = {
            "error": error.what,
            "remedy": error.remedy,
            "place": error.place,
            "file": error.file,
            "kind": error.kind,
            "exit_code": error.exit_code,
        }
        print(json.dumps(fields), file=sys.stderr)
    else:
        # A name or a value may hold anything; the line stays one line.
        print(str(error).encode("unicode_escape").decode("ascii"), file=sys.stderr)


def usage_error(what: str, hint: str | None = None) -> typer.BadParameter:
    """The exception that ends a command with exit code 2 and one line."""
    return typer.BadParameter(what, param_hint=hint)


@contextmanager
def output_to(path: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears whole or not at all.

    Raises :class:`typer.BadParameter` where the file cannot be written.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        with atomic_writer(path) as stream:
            yield stream
    except OSError as error:
        raise usage_error(f"{path}: {error.strerror or error}", "--output") from None


def counted(items: Iterable[T], what: str, unit: str, every: int = 100) -> Iterator[T]:
    """The items, with a count on standard error while they pass, if that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        for number, item in enumerate(items, start=1):
            if number % every == 0:
                status.update(f"{what}: {number} {unit}")
            yield item
