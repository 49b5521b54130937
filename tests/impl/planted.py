"""The fast engine with a defect: one of its files, or of its kernels', with another text in one
place.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

OURS = ("nullblock.impl.", "nullblock.kernels.")


@contextmanager
def planted(file: str, old: str, new: str, package: str = "nullblock.impl") -> Iterator[None]:
    """Inside, whoever imports the engine gets it with `new` for `old` in that file of a package.

    The altered text is a file of its own: Triton reads the source of kernels again.
    """
    home = import_module(package).__file__
    assert home is not None
    text = (Path(home).parent / file).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    loaded = {name: module for name, module in sys.modules.items() if name.startswith(OURS)}
    for name in loaded:
        del sys.modules[name]
    try:
        with tempfile.TemporaryDirectory() as folder:
            altered = Path(folder) / Path(file).name
            altered.write_text(text.replace(old, new))
            name = f"{package}.{file.removesuffix('.py').replace('/', '.')}"
            spec = spec_from_file_location(name, altered)
            assert spec is not None and spec.loader is not None
            sys.modules[name] = module = module_from_spec(spec)
            spec.loader.exec_module(module)
            yield
    finally:
        for name in [name for name in sys.modules if name.startswith(OURS)]:
            del sys.modules[name]
        sys.modules.update(loaded)
