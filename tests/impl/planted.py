"""The fast engine with a defect: one of its files with another text in one place."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import nullblock.impl

PACKAGE = "nullblock.impl"
FOLDER = Path(nullblock.impl.__file__).parent


class _Altered(SourceFileLoader):
    """Reads a file with one place replaced, and writes no bytecode of it."""

    old = new = ""

    def get_data(self, path: str) -> bytes:
        """The source; there is no bytecode."""
        if not path.endswith(".py"):
            raise OSError("no bytecode of a planted defect")
        text = Path(path).read_text()
        assert text.count(self.old) == 1, f"{self.old!r} stands {text.count(self.old)} times"
        return text.replace(self.old, self.new).encode()

    def set_data(self, path: str, data: object, *, _mode: int = 0o666) -> None:
        """Nothing is written."""


@contextmanager
def planted(file: str, old: str, new: str) -> Iterator[None]:
    """Inside, whoever imports the engine gets it with `new` for `old` in that file."""
    loaded = {name: module for name, module in sys.modules.items() if _is_ours(name)}
    for name in loaded:
        del sys.modules[name]
    try:
        name, path = f"{PACKAGE}.{file.removesuffix('.py')}".replace("/", "."), str(FOLDER / file)
        loader = _Altered(name, path)
        loader.old, loader.new = old, new
        spec = spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        sys.modules[name] = module = module_from_spec(spec)
        loader.exec_module(module)
        yield
    finally:
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(loaded)


def _is_ours(name: str) -> bool:
    return name.startswith(f"{PACKAGE}.")
