"""How a kernel ships: with which types, constants and warps it is compiled on a GPU.

A package of kernels declares its own beside them, in a module ``shipped`` with a tuple
``KERNELS``. What is launched and not declared is found by `undeclared`.
"""

import ast
import inspect
import pkgutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from triton.runtime import KernelInterface

import nullblock.kernels
from nullblock.kernels.checks.findings import Allowed


@dataclass(frozen=True, slots=True)
class Build:
    """One way in which a kernel is compiled."""

    constants: Mapping[str, Any]
    """Every ``tl.constexpr`` parameter."""
    num_warps: int = 4
    num_stages: int | None = None
    """Of software pipelining; None: what Triton takes."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Where it differs from the kernel's."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A kernel and all builds of it that a user may meet."""

    kernel: Any
    """The jit function."""
    types: Mapping[str, str]
    """Of the other parameters, as Triton spells them: ``*i32``, ``i64``, ``*bf16``."""
    builds: Mapping[str, Build]
    """By a name for people: the size, or the element type."""
    allowed: tuple[Allowed, ...] = ()
    """Findings of `checked` that are meant to be so."""

    @property
    def name(self) -> str:
        """The kernel's module, from ``kernels`` on, and its name."""
        module = self.kernel.fn.__module__.removeprefix(f"{nullblock.kernels.__name__}.")
        return f"{module}.{self.kernel.fn.__name__}"


def modules(package: ModuleType = nullblock.kernels) -> Iterator[ModuleType]:
    """Every module of a package, imported; not the checks."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.startswith("nullblock.kernels.checks"):
            yield import_module(found.name)


def shipped(package: ModuleType = nullblock.kernels) -> list[Shipped]:
    """What all modules called ``shipped`` declare."""
    return [
        kernel
        for module in modules(package)
        if module.__name__.endswith(".shipped")
        for kernel in module.KERNELS
    ]


def allowed(package: ModuleType = nullblock.kernels) -> list[Allowed]:
    """What has been reviewed, of all kernels that ship."""
    return [reviewed for kernel in shipped(package) for reviewed in kernel.allowed]


def undeclared(
    declared: Iterable[Shipped], package: ModuleType = nullblock.kernels
) -> list[str]:
    """Kernels in a package that no declaration names.

    A kernel is a jit function that no other one calls and that returns nothing.
    """
    functions = {
        id(value): value
        for module in modules(package)
        for value in vars(module).values()
        if isinstance(value, KernelInterface) and value.fn.__module__ == module.__name__
    }
    called = {id(callee) for function in functions.values() for callee in _callees(function)}
    known = {id(kernel.kernel) for kernel in declared}
    return sorted(
        f"{function.fn.__module__}.{function.fn.__name__}"
        for number, function in functions.items()
        if number not in called | known and not _returns(function)
    )


def _tree(function: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function.fn)))


def _callees(function: Any) -> Iterator[Any]:
    """The jit functions that one names, by themselves or in their module."""
    names = function.fn.__globals__
    for node in ast.walk(_tree(function)):
        match node:
            case ast.Name(id=name):
                found = names.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                found = getattr(names.get(name), attribute, None)
            case _:
                continue
        if isinstance(found, KernelInterface):
            yield found


def _returns(function: Any) -> bool:
    return any(
        isinstance(node, ast.Return) and node.value is not None
        for node in ast.walk(_tree(function))
    )
