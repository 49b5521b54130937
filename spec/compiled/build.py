"""The system's C compiler, if there is one, and the programs that it has made."""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nullblock.spec.cache_folder import cache as cache
from nullblock.spec.cache_folder import forget_old
from nullblock.spec.compiled.values import Untranslatable

FLAGS = ("-std=gnu11", "-w")
OPTIMIZED = "-O2"
"""Searches three times as fast, and takes two seconds more to compile: some 100,000 states."""


class NoCompiler(Exception):
    """There is no C compiler here, or it does not work; the text says what to do."""


def compiler() -> list[str]:
    """The command line of the C compiler: that of the variable CC, or the first of cc, gcc and
    clang. Raises NoCompiler.
    """
    named = shlex.split(os.environ.get("CC", ""))
    for candidate in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(candidate[0]):
            return candidate
    if named:
        raise NoCompiler(f"CC names {named[0]!r}, which is not found: install it, or unset CC")
    raise NoCompiler("no C compiler is found: install gcc or clang, or name one in CC")


@contextmanager
def program(text: str, optimized: bool = False) -> Iterator[Path]:
    """The program whose C text this is: from the cache, or compiled now. Raises NoCompiler, and
    Untranslatable for a text that the compiler refuses.
    """
    command = [*compiler(), *FLAGS, *([OPTIMIZED] if optimized else [])]
    digest = hashlib.sha256("\0".join((*command, text)).encode()).hexdigest()[:32]
    folder = cache()
    made = None if folder is None else folder / f"explorer-{digest}"
    if made is not None and made.exists():
        os.utime(made)
        yield made
        return
    with tempfile.TemporaryDirectory(dir=folder, prefix="compiling-") as work:
        source, target = Path(work) / "explorer.c", Path(work) / "explorer"
        source.write_text(text)
        done = subprocess.run(
            [*command, "-o", str(target), str(source)], capture_output=True, text=True
        )
        if done.returncode:
            said = next((x for x in done.stderr.splitlines() if "error" in x), "no message")
            if target.exists() or "explorer.c:" not in said:
                raise NoCompiler(f"{command[0]} does not work here: {said.strip()}")
            raise Untranslatable(f"{command[0]} refuses the translation: {said.strip()}")
        if made is None:
            yield target
            return
        os.replace(target, made)
    forget_old(made.parent, "explorer-*")
    yield made
