"""A folder for what is made once and used by later runs."""

import os
import time
from contextlib import suppress
from pathlib import Path

MONTH = 30 * 24 * 3600


def cache() -> Path | None:
    """A folder that outlives this run, None if there is none to write in."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "nullblock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None


def forget_old(folder: Path, pattern: str) -> None:
    """Remove what nobody has used for a month."""
    for path in folder.glob(pattern):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - MONTH:
                path.unlink()
