"""Which text evidence is of: a digest of the files that it rests on, comments aside."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds spec, reference and conformance."""

TEXT = (
    *("spec/rules/*.py", "spec/machine/*.py", "spec/invariants/*.py"),
    *(f"spec/{name}.py" for name in ("state", "later", "fields", "facts", "kernel")),
    *(f"spec/{name}.py" for name in ("keys", "profiles", "flight", "drafts", "groups", "waiting")),
    *(f"spec/{name}.py" for name in ("hybrid", "grouped", "encoder", "planning", "prompts")),
    *(f"spec/{name}.py" for name in ("pooling", "sessions", "turns", "remote", "sizes", "slots")),
    *(f"spec/{name}.py" for name in ("mamba", "aligned", "cross", "concrete", "carriers")),
    *(f"spec/{name}.py" for name in ("rejection", "repetition", "cache_events", "loaded")),
    *(f"spec/{name}.py" for name in ("deferred", "reclaim", "in_turn", "gate", "heaps", "lost")),
    "spec/prompt_states.py",
    "spec/nulls.py",
    "spec/semantics.py",
)
"""The rule text, and what it is written in."""


def digest(patterns: tuple[str, ...], root: Path = ROOT) -> str:
    """SHA-256 over names and contents of the files; comments and blank lines do not count."""
    found = hashlib.sha256()
    for path in files(patterns, root):
        found.update(f"{path.relative_to(root).as_posix()}\0".encode())
        found.update(_content(path) + b"\0")
    return found.hexdigest()


def files(patterns: tuple[str, ...], root: Path = ROOT) -> list[Path]:
    """The files that the patterns mean, in an order of their own. A pattern that means none
    raises ValueError: evidence would rest on less than is said.
    """
    return sorted({path for pattern in patterns for path in _matching(pattern, root)})


def _matching(pattern: str, root: Path) -> Iterator[Path]:
    found = [p for p in root.glob(pattern) if p.is_file() and p.parent.name != "__pycache__"]
    if not found:
        raise ValueError(f"{pattern} means no file")
    yield from found


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".py":
        return data
    lines = (line.rstrip() for line in data.splitlines())
    return b"\n".join(line for line in lines if line and not line.lstrip().startswith(b"#"))
