"""The import law: which part of the project may know which."""

import sys
from pathlib import Path

import pytest
from project import LAYERS, Import, imports, name_of, python_files

MAY_IMPORT = {
    "spec": {"spec"},
    "reference": {"spec", "reference"},
    "impl": {"spec", "kernels", "impl"},
    "kernels": {"kernels"},
    "conformance": {"spec", "conformance"},
}
"""``spec`` knows nobody. ``impl`` not ``reference``, or comparing the two proves nothing."""

BASE = {"msgspec", "typer", "rich", "zstandard", "z3", "cbor2"}
"""What a base install brings (pyproject.toml), by import name."""
THIRD_PARTY = {
    "spec": {"z3"},
    # xxhash only if it is there: two of vLLM's hash functions need it.
    "reference": {"msgspec", "cbor2", "xxhash"},
    "impl": BASE | {"torch", "numpy"},
    "kernels": {"torch", "triton", "numpy"},
    "conformance": BASE,
}
IN_VLLM = {"vllm", "msgspec", "zmq", "numpy", "zstandard"}
"""What the recorder may use: it runs where vLLM is and this project need not be. The last one is
used where it happens to be installed.
"""
ELSEWHERE = {"pytest": "conformance/pytest_plugin/", "crosshair": "conformance/confirm.py"}
"""What only one place uses, where it is installed: the first runs inside pytest, the second says
so where CrossHair is not there.
"""
RECORDER = "conformance/adapters/vllm/"
RECORDER_PACKAGE = "nullblock.conformance.adapters.vllm"


def layer_of(file: str) -> str:
    """The layer that a file of the project belongs to."""
    return file.partition("/")[0]


def every_import() -> list[Import]:
    """All imports of the product, the recorder's apart."""
    return [
        found
        for path in python_files()
        if layer_of(name_of(path)) in LAYERS and not name_of(path).startswith(RECORDER)
        for found in imports(path)
    ]


def offends(found: Import) -> bool:
    """Whether an import breaks the law between layers."""
    layer = layer_of(found.file)
    allowed = MAY_IMPORT[layer]
    if found.file.startswith("conformance/adapters/"):
        allowed = allowed | {"reference", "impl", "kernels"}
    return found.layer is not None and found.layer not in allowed


def test_layers_import_only_what_they_may() -> None:
    """Each layer imports only the layers below it; engines are known to adapters alone."""
    assert [str(found) for found in every_import() if offends(found)] == []


def test_layers_need_only_what_is_installed_for_them() -> None:
    """Each layer imports only the packages it is meant to need: a base install stays light."""
    offending = [
        str(found)
        for found in every_import()
        if found.top not in sys.stdlib_module_names | {"nullblock", *LAYERS}
        and found.top not in THIRD_PARTY[layer_of(found.file)]
        and not found.file.startswith(ELSEWHERE.get(found.top, "/"))
    ]
    assert offending == []


def test_the_recorder_needs_nothing_but_vllm() -> None:
    """Inside vLLM the recorder imports the standard library, itself, and what vLLM brings."""
    offending = [
        str(found)
        for path in python_files()
        if name_of(path).startswith(RECORDER)
        for found in imports(path)
        if found.top not in sys.stdlib_module_names | IN_VLLM
        and not found.module.startswith(RECORDER_PACKAGE)
    ]
    assert offending == []


def test_imports_have_one_spelling() -> None:
    """No import is relative, and none says ``spec`` for ``nullblock.spec``: a second copy of every
    class would come of it."""
    offending = [
        str(found)
        for path in python_files()
        for found in imports(path)
        if found.relative or (found.top in LAYERS and not _is_a_neighbour(path, found.top))
    ]
    assert offending == []


def _is_a_neighbour(path: Path, name: str) -> bool:
    """Whether a test file imports a helper module that stands beside it."""
    return name_of(path).startswith("tests/") and (path.parent / f"{name}.py").exists()


@pytest.mark.parametrize(
    ("file", "module", "breaks"),
    [
        ("spec/a.py", "nullblock.conformance.engine", True),
        ("spec/a.py", "nullblock.spec.kernel", False),
        ("impl/a.py", "nullblock.reference.request", True),
        ("conformance/cli.py", "nullblock.reference", True),
        ("conformance/adapters/reference.py", "nullblock.reference", False),
        ("kernels/a.py", "nullblock.spec", True),
    ],
)
def test_the_law_itself(file: str, module: str, breaks: bool) -> None:
    """The check tells what the law allows from what it does not."""
    assert offends(Import(file, 1, module, False)) == breaks


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    """An import inside a function, of a submodule, or by name at run time is found too."""
    path = tmp_path / "a.py"
    path.write_text(
        "import a.b\n"
        "def f():\n    from c import d\n    from . import e\n    import_module('g.h')\n"
    )
    assert [(i.module, i.relative) for i in imports(path)] == [
        ("a.b", False),
        ("c.d", False),
        ("e", True),
        ("g.h", False),
    ]
