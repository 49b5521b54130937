"""The control kernels with a defect: one of their files with another text in one place."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple

import nullblock.kernels.control


class Mutant(NamedTuple):
    """One text of a file for another, and who notices."""

    name: str
    file: str
    old: str
    new: str
    scene: str
    """A function of `scenes.py`, or the number of a game of `play.py`."""


PACKAGE = "nullblock.kernels.control"
FOLDER = Path(nullblock.kernels.control.__file__).parent
OURS = ("beside", "control_bench", "play", "scenes")
"""Helpers of these tests that import kernels."""


@contextmanager
def planted(folder: Path, file: str, old: str, new: str) -> Iterator[None]:
    """Inside, whoever imports kernels gets them with `new` for `old` in that file.

    The altered text is written to `folder`: Triton reads the source of what it runs.
    """
    text = (FOLDER / file).read_text()
    assert text.count(old) == 1, f"{file}: {old!r} stands {text.count(old)} times"
    (folder / file).write_text(text.replace(old, new))
    loaded = {name: module for name, module in sys.modules.items() if _is_ours(name)}
    for name in loaded:
        del sys.modules[name]
    try:
        importlib.import_module(PACKAGE)
        name = f"{PACKAGE}.{file.removesuffix('.py')}"
        spec = spec_from_file_location(name, folder / file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield
    finally:
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(loaded)


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.") or name in OURS
