"""Imports vLLM's scheduler where torch and most of vLLM's other dependencies are not installed.

Call :func:`install` before ``import vllm``. Packages that are missing, and the parts of vLLM that
the scheduler imports without using, become inert modules: every name in them is a class that
accepts any call, any operator and any subclassing, and does nothing. What the scheduler is made of
(``vllm.v1.core``, ``vllm.v1.request``, ``vllm.sampling_params``, ...) is the real, unmodified
code.
"""

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MISSING_PACKAGES = (
    "PIL aiohttp cpuinfo einops fastapi gguf huggingface_hub jinja2 llguidance mistral_common "
    "openai openai_harmony oss_harmony partial_json_parser prometheus_client safetensors "
    "tokenizers torch tqdm transformers triton uvloop xgrammar yaml"
).split()
"""Replaced where they are not installed."""

UNUSED_PARTS = (
    "vllm.compilation",
    "vllm.config",
    "vllm.distributed.ec_transfer",
    "vllm.distributed.kv_transfer",
    "vllm.env_override",
    "vllm.inputs",
    "vllm.model_executor",
    "vllm.multimodal",
    "vllm.platforms",
    "vllm.renderers",
    "vllm.tokenizers",
    "vllm.transformers_utils",
    "vllm.utils.torch_utils",
    "vllm.v1.attention",
    "vllm.v1.metrics.perf",
    "vllm.v1.structured_output.backend_guidance",
    "vllm.v1.structured_output.backend_xgrammar",
)
"""Parts of vLLM that are replaced with everything below them."""

HOLLOW_PARTS = ("vllm.distributed", "vllm.multimodal", "vllm.v1.structured_output")
"""Packages whose own ``__init__`` is left out, and whose other modules are the real ones, but for
those that are replaced.
"""

KEPT_PARTS = (
    "vllm.multimodal.encoder_budget",
    "vllm.multimodal.inputs",
    "vllm.multimodal.utils",
)
"""Modules inside replaced parts that are the real ones: the scheduler uses them."""

ANY_VERSION = "99.0.0"
"""What a package that is not there says its version is: recent enough for every check."""


def install() -> None:
    """Put the replacements in place. Only once in a process, and before ``import vllm``."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    _tolerate_missing_versions()
    missing = frozenset(n for n in MISSING_PACKAGES if importlib.util.find_spec(n) is None)
    # Real packages go first; parts of vLLM that exist have to be caught before it is found.
    sys.meta_path.append(_MissingPackages(missing))
    sys.meta_path.insert(0, _PartsOfVllm())
    sys.modules["vllm.v1.serial_utils"] = _serial_utils()


def _tolerate_missing_versions() -> None:
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        try:
            return real(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            return ANY_VERSION

    importlib.metadata.version = version


def _serial_utils() -> types.ModuleType:
    """Stands for a module that needs torch as soon as it is imported."""
    module = types.ModuleType("vllm.v1.serial_utils")
    for name in ("PydanticMsgspecMixin", "UtilityResult"):
        setattr(module, name, type(name, (), {}))
    return module


def _itself(self: Any, *_: Any) -> Any:
    return self


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def _nothing(self: Any) -> Iterator[Any]:
    return iter(())


OPERATORS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("__or__", "__ror__", "__getitem__", "__sub__", "__add__"), _itself),
    **dict.fromkeys(("__lt__", "__gt__", "__contains__"), _always(False)),
    **dict.fromkeys(("__le__", "__ge__"), _always(True)),
    **dict.fromkeys(("__int__", "__index__", "__len__"), _always(0)),
    "__iter__": _nothing,
}
"""What both inert classes and their instances answer."""


class _InertType(type):
    """The type of inert classes: any attribute is one more inert class."""

    def __getattr__(cls, name: str) -> Any:
        if _is_special(name):
            raise AttributeError(name)
        made = inert(name)
        setattr(cls, name, made)
        return made


for _name, _operator in OPERATORS.items():
    setattr(_InertType, _name, _operator)


def _new(cls: type, *args: Any, **kwargs: Any) -> Any:
    """An instance, or the argument itself where an inert name is used as a decorator."""
    if "is_inert" in cls.__dict__ and not kwargs and len(args) == 1:
        (only,) = args
        if callable(only) and not isinstance(only, _InertType):
            return only
    return object.__new__(cls)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return args[0] if len(args) == 1 and callable(args[0]) else self


def _attribute(self: Any, name: str) -> Any:
    if _is_special(name):
        raise AttributeError(name)
    return inert(name)


def _pydantic_schema(cls: type, source: Any, handler: Any) -> Any:
    from pydantic_core import core_schema

    return core_schema.any_schema()


def _do_nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    return None


INSTANCE: dict[str, Any] = {
    **OPERATORS,
    "__new__": _new,
    "__init__": _do_nothing,
    "__call__": _call,
    "__getattr__": _attribute,
    "__enter__": _itself,
    "__exit__": _do_nothing,
    "__setitem__": _do_nothing,
    "__radd__": lambda self, other: other,
    "__mul__": lambda self, other: other,
    "__rmul__": _itself,
    "__bool__": _always(False),
    "__str__": _always("0"),
    "__hash__": id,
    "__fspath__": _always("/nonexistent"),
    "__module__": "inert",
    "__get_pydantic_core_schema__": classmethod(_pydantic_schema),
}
"""The namespace of every inert class."""


def inert(name: str) -> type:
    """A new class that accepts everything."""
    return _InertType(name, (), {**INSTANCE, "is_inert": True})


class _InertModule(types.ModuleType):
    """A module in which every name exists."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return ANY_VERSION
        if _is_special(name):
            raise AttributeError(name)
        below = sys.modules.get(f"{self.__name__}.{name}")
        if below is not None:
            return below
        made = inert(name)
        setattr(self, name, made)
        return made


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class _Inert(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and makes inert modules."""

    def is_replaced(self, name: str) -> bool:
        """Whether this finder answers for the module of that name."""
        raise NotImplementedError

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The import system's question."""
        if not self.is_replaced(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An inert package with nothing below it, or with what really is below it."""
        module = _InertModule(spec.name)
        module.__path__ = _real_folders(spec.name) if spec.name in HOLLOW_PARTS else []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to execute."""


class _MissingPackages(_Inert):
    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def is_replaced(self, name: str) -> bool:
        return name.partition(".")[0] in self.names


class _PartsOfVllm(_Inert):
    def is_replaced(self, name: str) -> bool:
        unused = any(name == part or name.startswith(f"{part}.") for part in UNUSED_PARTS)
        return (unused and name not in KEPT_PARTS) or name in HOLLOW_PARTS


def _real_folders(name: str) -> list[str]:
    """Where the modules of a part of vLLM lie."""
    vllm = importlib.util.find_spec("vllm")
    assert vllm is not None and vllm.submodule_search_locations is not None
    return [os.path.join(vllm.submodule_search_locations[0], *name.split(".")[1:])]
