"""The golden scenarios that come with this package."""

import json
from importlib.resources import files
from typing import Any


def vectors() -> dict[str, tuple[str, dict[str, Any]]]:
    """What each one shows, and the scenario, by name."""
    folder = files("nullblock.conformance") / "vectors"
    index: dict[str, str] = json.loads((folder / "index.json").read_text())
    return {
        name: (about, json.loads((folder / f"{name}.json").read_text()))
        for name, about in index.items()
    }
