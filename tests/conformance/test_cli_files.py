"""Files that commands write: whole, or not at all."""

import os
import stat
from pathlib import Path

import pytest

from nullblock.conformance.files import atomic_writer, write_atomically


def test_a_file_appears_whole(tmp_path: Path) -> None:
    """The bytes are there, with the permissions that a new file gets, and nothing else is."""
    path = tmp_path / "out"
    write_atomically(path, b"abc")
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"abc"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "plain"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, error: type[BaseException]
) -> None:
    """However the writing ends early, the old file stays and no other one is left."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_writer(path) as stream:
        stream.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_while_the_file_is_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that arrives as soon as there is a file finds it, too."""
    make = os.open

    def interrupted(name: str, flags: int, mode: int) -> int:
        os.close(make(name, flags, mode))
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "out", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    """Rewriting a file does not change who may read it."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed(tmp_path: Path) -> None:
    """Writing through a link replaces what it points to, not the link."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_device_is_written_directly() -> None:
    """What is not a regular file is not replaced by one."""
    write_atomically(Path(os.devnull), b"abc")
    assert not Path(os.devnull).is_file()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The error names the file that was asked for, not a temporary one."""
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "missing" / "out", b"")
    assert caught.value.filename == str(tmp_path / "missing" / "out")
