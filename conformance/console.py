"""What commands say beside their output: errors, progress, and where output goes."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import typer
from rich.console import Console

from nullblock.conformance.errors import InputError
from nullblock.conformance.files import atomic_writer

T = TypeVar("T")


STANDARD_INPUT = "-"
"""What stands for it on a command line."""


class Screen(Console):
    """A console that lets the command line see that nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, where rich would end the process with a code of its own."""
        raise BrokenPipeError


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


def check_output(path: Path | None, inputs: Iterable[str], option: str = "--output") -> None:
    """Say before anything runs that a file cannot be written, or is one of the inputs.

    Raises :class:`typer.BadParameter`.
    """
    if path is None:
        return
    try:
        if path.is_dir():
            raise usage_error(f"{path}: is a folder", option)
        if not path.parent.is_dir():
            raise usage_error(f"{path}: there is no such folder", option)
        if not path.is_file():
            return
        if any(Path(name).is_file() and path.samefile(name) for name in inputs):
            raise usage_error(f"{path}: is also an input, and would be overwritten", option)
    except OSError as error:
        raise usage_error(f"{path}: {error.strerror or error}", option) from None


def check_inputs(names: list[str], metavar: str) -> None:
    """Say before anything runs that an input cannot be there.

    Raises :class:`typer.BadParameter`.
    """
    if "" in names:
        raise usage_error("the name of a file is empty", metavar)
    if names.count(STANDARD_INPUT) > 1:
        raise usage_error("standard input can be read once", metavar)


@contextmanager
def output_to(path: Path | None, option: str = "--output") -> Iterator[BinaryIO]:
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
        raise usage_error(f"{path}: {error.strerror or error}", option) from None


def counted(items: Iterable[T], what: str, unit: str, every: int = 100) -> Iterator[T]:
    """The items, with a count on standard error while they pass, if that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    with Screen(stderr=True).status(what) as status:
        for number, item in enumerate(items, start=1):
            if number % every == 0:
                status.update(f"{what}: {number} {unit}")
            yield item
