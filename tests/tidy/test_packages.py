"""What is shipped: the wheel holds the five layers whole, the source archive can be tested."""

import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from project import LAYERS, ROOT, files, name_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("hatchling") is None, reason="hatchling is not installed: run make .venv/dev"
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source archive."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True
    )
    return folder


def test_the_wheel_holds_every_file_of_the_layers(built: Path) -> None:
    """Code, type marker and data of each layer are in the wheel, and nothing else is."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    code = {name for name in names if not name.partition("/")[0].endswith(".dist-info")}
    ours = {name_of(path) for path in files()}
    assert code == {f"nullblock/{name}" for name in ours if name.partition("/")[0] in LAYERS}
    assert {f"nullblock/{layer}/py.typed" for layer in LAYERS} <= code
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_archive_can_be_tested(built: Path) -> None:
    """The source archive has the layers, the tests and what they need, and no environment."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    needed = {name_of(p) for p in files() if name_of(p).partition("/")[0] in (*LAYERS, "tests")}
    assert needed <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "hatch_build.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".src", ".oracle"))]
