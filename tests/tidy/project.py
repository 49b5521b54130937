"""The files of this project, as its own tests see them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("spec", "reference", "impl", "kernels", "conformance")
TEXT = {".py", ".md", ".toml", ".json", ".txt", ".yml", ".yaml", ""}
"""Suffixes of files that people read."""


def files() -> list[Path]:
    """Every file that the project consists of: what stands in no hidden or built folder.

    ``.ci`` is ours although it is hidden.
    """
    return [path for path in sorted(ROOT.rglob("*")) if path.is_file() and _is_ours(path)]


def _is_ours(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    if parts == (".git",):
        return False  # a work tree beside the checkout: where that is
    hidden = [part for part in parts[:-1] if part.startswith(".")]
    return hidden in ([], [".ci"]) and not {"__pycache__", "dist", "build"} & set(parts)


def python_files() -> list[Path]:
    """Every Python file of the project."""
    return [path for path in files() if path.suffix == ".py"]


def name_of(path: Path) -> str:
    """A file as a person would call it."""
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(), str(path))


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a file imports."""

    file: str
    line: int
    module: str
    """Absolute, with the imported name, which may be a module: ``nullblock.spec.kernel.rule``."""
    relative: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: imports {self.module}"

    @property
    def layer(self) -> str | None:
        """The layer of this project that is imported, or None."""
        parts = self.module.split(".")
        return parts[1] if parts[0] == "nullblock" and len(parts) > 1 else None

    @property
    def top(self) -> str:
        """The package that is imported."""
        return self.module.partition(".")[0]


def imports(path: Path) -> Iterator[Import]:
    """Every import in a file, those inside functions included."""
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(name_of(path), node.lineno, alias.name, False)
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    full = f"{module}.{alias.name}" if module else alias.name
                    yield Import(name_of(path), node.lineno, full, level > 0)
            case ast.Call(func=function, args=[ast.Constant(value=str(module)), *_]):
                if getattr(function, "attr", getattr(function, "id", "")) == "import_module":
                    yield Import(name_of(path), node.lineno, module, module.startswith("."))
