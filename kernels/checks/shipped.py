"""What ships: every kernel, in the sizes and types in which wrappers launch it.

A package of kernels says so in a module ``shipped`` beside them:

    def decode_256() -> None:
        place_tokens(requests, batch, inputs, error, backend="triton", …)

    EXAMPLES = (decode_256, …)      each calls wrappers with what a user would give them
    decode_256.targets = ("sm_90",) where wrappers choose by the GPU: those that this one is for
    ALLOWED = (Allowed(…), …)       findings of `checked` that are meant to be so; may be left out

An example is not run: what it launches is written down, with the types, constants and options that
the wrapper chose, and can then be compiled. Its tensors may be on the device ``meta``, where they
take no memory. A kernel that no example launches is found by `undeclared`.
"""

import ast
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from triton.runtime import JITFunction, KernelInterface
from triton.runtime.jit import mangle_type

import nullblock.kernels
from nullblock.kernels.checks.findings import Allowed

NOTHING = "constexpr"
"""The type of what is a constant, or None."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that an example makes."""

    kernel: Any
    """The jit function."""
    example: str
    types: dict[str, Any]
    """Of every parameter, in order, as Triton spells it: ``*i32``, ``i64``, ``constexpr``; of a
    tuple a tuple."""
    constants: dict[str, Any]
    """What the constants among them are."""
    options: dict[str, Any]
    """``num_warps`` and the like."""
    targets: tuple[str, ...] = ()
    """For which GPUs a wrapper would launch it so; none: for all."""

    @property
    def name(self) -> str:
        """The kernel's module, from ``kernels`` on, and its name."""
        module = self.kernel.fn.__module__.removeprefix(f"{nullblock.kernels.__name__}.")
        return f"{module}.{self.kernel.fn.__name__}"

    def same_as(self, other: "Launch") -> bool:
        """Whether one binary serves both."""
        return (self.kernel, self.types, self.constants, self.options, self.targets) == (
            (other.kernel, other.types, other.constants, other.options, other.targets)
        )


def modules(package: ModuleType = nullblock.kernels) -> Iterator[ModuleType]:
    """Every module of a package, imported; not the checks."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.startswith("nullblock.kernels.checks"):
            yield import_module(found.name)


def launches(package: ModuleType = nullblock.kernels) -> list[Launch]:
    """What all examples launch, each binary once. Needs kernels that are not interpreted."""
    found: list[Launch] = []
    for module in modules(package):
        if module.__name__.endswith(".shipped"):
            for example in module.EXAMPLES:
                new = recorded(example)
                found += [one for one in new if not any(one.same_as(other) for other in found)]
    return found


def allowed(package: ModuleType = nullblock.kernels) -> list[Allowed]:
    """What has been reviewed, of all kernels that ship."""
    return [
        reviewed
        for module in modules(package)
        if module.__name__.endswith(".shipped")
        for reviewed in getattr(module, "ALLOWED", ())
    ]


def recorded(example: Callable[[], None]) -> list[Launch]:
    """What an example launches, each binary once."""
    found: list[Launch] = []
    targets = getattr(example, "targets", ())

    def record(kernel: Any, *args: Any, grid: Any, warmup: bool, **named: Any) -> None:
        launch = replace(_launch(kernel, example.__name__, args, named), targets=targets)
        if not any(launch.same_as(other) for other in found):
            found.append(launch)

    with patch.object(JITFunction, "run", record), torch.no_grad():
        example()
    return found


def _launch(kernel: Any, example: str, args: tuple[Any, ...], named: dict[str, Any]) -> Launch:
    given = dict(zip(kernel.arg_names, args, strict=False))
    options = {name: value for name, value in named.items() if name not in kernel.arg_names}
    given |= {name: value for name, value in named.items() if name in kernel.arg_names}
    types, constants = {}, {}
    for parameter in kernel.params:
        value = given[parameter.name] if parameter.name in given else parameter.default
        if parameter.is_constexpr or value is None:
            types[parameter.name] = NOTHING
            constants[parameter.name] = value
        else:
            types[parameter.name] = mangle_type(value)
    return Launch(kernel, example, types, constants, options)


def undeclared(declared: Iterable[Launch], package: ModuleType = nullblock.kernels) -> list[str]:
    """Kernels in a package that no example launches.

    A kernel is a jit function that no other one calls and that returns nothing.
    """
    functions = {
        id(value): value
        for module in modules(package)
        for value in vars(module).values()
        if isinstance(value, KernelInterface) and value.fn.__module__ == module.__name__
    }
    called = {id(callee) for function in functions.values() for callee in _callees(function)}
    known = {id(launch.kernel) for launch in declared}
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
