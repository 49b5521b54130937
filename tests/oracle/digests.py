"""Digests of a run that do not depend on who drove it."""

import hashlib
import json
from typing import Any


def comparable(lines: list[str]) -> list[str]:
    """The lines without what belongs to the driver: its own frames, and the digest over them."""
    return [_line(json.loads(line)) for line in lines]


def _line(fields: dict[str, Any]) -> str:
    match fields["ev"]:
        case "EXCEPTION":
            fields["where"] = [at for at in fields["where"] if not at.startswith("drive.py:")]
        case "trailer":
            del fields["sha256"]
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def digest(lines: list[str]) -> str:
    """A digest of the comparable lines."""
    return hashlib.sha256("\n".join(comparable(lines)).encode()).hexdigest()
