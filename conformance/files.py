"""Writing files whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A binary file that becomes ``path`` when the block ends well, and vanishes when it does not.

    The text goes to a file beside ``path``, which then takes its name in one step, so that an
    interrupted command leaves either the old file or the new one. Whatever is not a regular file
    (``/dev/stdout``, a pipe) is written directly. A link is followed, its target is replaced.

    Raises:
        OSError: the folder is missing or cannot be written; ``filename`` is ``path``.
    """
    if path.exists() and not path.is_file():
        # Not its target: /dev/stdout leads to a pipe that has no name.
        with path.open("wb") as direct:
            yield direct
        return
    target, temporary = _names(path)
    try:
        # Named before it exists: a signal that arrives while it is made finds it, too.
        with _create(temporary, path) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(target))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Raise now the OSError that :func:`atomic_writer` would raise once the work is done."""
    if path.exists() and not path.is_file():
        return
    _, temporary = _names(path)
    try:
        _create(temporary, path).close()
    finally:
        temporary.unlink(missing_ok=True)


def _names(path: Path) -> tuple[Path, Path]:
    """The file that is meant, and one beside it that nobody has."""
    target = path.resolve()
    return target, target.parent / f".{target.name}.{secrets.token_hex(8)}.tmp"


def _create(temporary: Path, path: Path) -> BinaryIO:
    """A new file that nobody else may read yet."""
    try:
        return open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_atomically(path: Path, data: bytes) -> None:
    """Make ``path`` a file of these bytes; raises ``OSError`` as :func:`atomic_writer` does."""
    with atomic_writer(path) as stream:
        stream.write(data)


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
