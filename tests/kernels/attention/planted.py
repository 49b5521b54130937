"""Attention kernels with a defect: one file with another text in one place."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from triton.runtime import KernelInterface

import nullblock.kernels.attention

PACKAGE = "nullblock.kernels.attention"
FOLDER = Path(nullblock.kernels.attention.__file__).parent


@contextmanager
def planted(folder: Path, file: str, old: str, new: str) -> Iterator[None]:
    """Inside, kernels run with ``new`` for ``old`` in that file; ``folder`` is for its text.

    Only in the interpreter, which looks a function up whenever it is called.
    """
    text = (FOLDER / f"{file}.py").read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}.py"
    path = folder / f"{file}.py"
    path.write_text(text.replace(old, new))
    spec = spec_from_file_location(f"planted_{file}", path)
    assert spec is not None and spec.loader is not None
    altered = module_from_spec(spec)
    spec.loader.exec_module(altered)
    replaced = list(_replace(sys.modules[f"{PACKAGE}.{file}"], altered))
    try:
        yield
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)


def _replace(
    original: ModuleType, altered: ModuleType
) -> Iterator[tuple[ModuleType, str, KernelInterface[object]]]:
    """Put a module's own jit functions wherever those of the original stand."""
    own = {
        id(value): getattr(altered, name)
        for name, value in vars(original).items()
        if isinstance(value, KernelInterface) and value.fn.__module__ == original.__name__
    }
    modules = [module for name, module in sys.modules.items() if name.startswith(PACKAGE)]
    for module in modules:
        for name, value in list(vars(module).items()):
            if id(value) in own:
                setattr(module, name, own[id(value)])
                yield module, name, value
