"""Kernels with a defect: one file with another text in one place."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from triton.runtime import KernelInterface

import nullblock.kernels

PACKAGE = "nullblock.kernels"
FOLDER = Path(nullblock.kernels.__file__).parent


@contextmanager
def defect(folder: Path, file: str, old: str, new: str) -> Iterator[None]:
    """Inside, kernels run with `new` for `old` in a file; `folder` is for its text, which Triton
    reads. Only in the interpreter, which looks a function up whenever it is called.
    """
    text = (FOLDER / file).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    path = folder / Path(file).name
    path.write_text(text.replace(old, new))
    name = f"{PACKAGE}.{file.removesuffix('.py').replace('/', '.')}"
    spec = spec_from_file_location(f"{name}_with_a_defect", path)
    assert spec is not None and spec.loader is not None
    altered = module_from_spec(spec)
    spec.loader.exec_module(altered)
    replaced = list(_replace(sys.modules[name], altered))
    assert replaced, f"{file} has no kernel that anybody calls"
    try:
        yield
    finally:
        for module, attribute, original in replaced:
            setattr(module, attribute, original)


def _replace(
    original: ModuleType, altered: ModuleType
) -> Iterator[tuple[ModuleType, str, object]]:
    """Put a module's own jit functions wherever those of the original stand."""
    own = {
        id(value): getattr(altered, name)
        for name, value in vars(original).items()
        if isinstance(value, KernelInterface) and value.fn.__module__ == original.__name__
    }
    for module in [m for name, m in sys.modules.items() if name.startswith(PACKAGE)]:
        for name, value in list(vars(module).items()):
            if id(value) in own:
                setattr(module, name, own[id(value)])
                yield module, name, value
