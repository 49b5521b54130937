"""What the environment asks of a recorder. Every variable is here; RECORDING.md tells more.

=============================  ========  =====================================================
``NULLBLOCK_TRACE``            (none)    a folder, or a file ``.jsonl``, ``.jsonl.gz``,
                                         ``.jsonl.zst``; ``{pid}`` in it is the process number
``NULLBLOCK_TRACE_PART_MB``    64        megabytes of records, before compression, in a part
``NULLBLOCK_TRACE_KEEP``       0         parts that are kept, older ones are removed; 0: all
``NULLBLOCK_TRACE_OBSERVE``    all       of ``blocks``, ``counts``, ``events``, with commas
``NULLBLOCK_TRACE_STATE_EVERY``  0       steps between whole states; 0: where a part begins
``NULLBLOCK_TRACE_NAMES``      0         1: request ids are told
``NULLBLOCK_TRACE_QUEUE_MB``   16        megabytes that may wait to be written; more is lost
``NULLBLOCK_TRACE_FLUSH_SECONDS``  1     between writes
=============================  ========  =====================================================

Without ``NULLBLOCK_TRACE`` nothing is recorded, and nothing is done. A value that makes no sense
is passed over, with one warning.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

VARIABLE = "NULLBLOCK_TRACE"
PROCESS = "{pid}"
"""In the value of that variable: the number of the process."""
MEGABYTE = 2**20
OBSERVABLE = frozenset({"blocks", "counts", "events"})
"""Block ids; how many blocks are free, requests running and waiting; KV events."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to record."""

    where: str
    part_bytes: int = 64 * MEGABYTE
    keep: int = 0
    """Parts; 0: all."""
    observe: frozenset[str] = OBSERVABLE
    state_every: int = 0
    """Steps; 0: never."""
    names: bool = False
    queue_bytes: int = 16 * MEGABYTE
    flush_seconds: float = 1.0


def from_environment(
    environment: Mapping[str, str], complain: Callable[[str], Any]
) -> Settings | None:
    """What is asked; None: nothing. ``complain`` is called at most once, with one line."""
    where = environment.get(VARIABLE, "").strip().replace(PROCESS, str(os.getpid()))
    if not where:
        return None
    wrong: list[str] = []
    found: dict[str, Any] = {}
    for suffix, (field, read) in _VARIABLES.items():
        text = environment.get(VARIABLE + suffix, "").strip()
        if text:
            try:
                found[field] = read(text)
            except ValueError as error:
                wrong.append(f"{VARIABLE}{suffix}={text[:40]!r} is not {error}")
    known = {VARIABLE, *(VARIABLE + suffix for suffix in _VARIABLES)}
    wrong += [
        f"{name} is no variable of the recorder"
        for name in sorted(environment)
        if name.startswith(VARIABLE) and name not in known
    ]
    if wrong:
        complain(f"{'; '.join(wrong)}: the default is used")
    return Settings(where, **found)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise ValueError("a number of 0 or more")
    return int(text)


def _positive(text: str, greatest: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= greatest:
        raise ValueError(f"a number above 0, at most {greatest:g}")
    return value


def _megabytes(text: str) -> int:
    return max(1, int(_positive(text, 2**20) * MEGABYTE))


def _seconds(text: str) -> float:
    return _positive(text, 3600)


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _observed(text: str) -> frozenset[str]:
    if text == "all":
        return OBSERVABLE
    names = frozenset(name.strip() for name in text.split(",") if name.strip()) - {"none"}
    if not names <= OBSERVABLE:
        raise ValueError(f"all, none, or some of {', '.join(sorted(OBSERVABLE))}")
    return names


_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "_PART_MB": ("part_bytes", _megabytes),
    "_KEEP": ("keep", _whole),
    "_OBSERVE": ("observe", _observed),
    "_STATE_EVERY": ("state_every", _whole),
    "_NAMES": ("names", _switch),
    "_QUEUE_MB": ("queue_bytes", _megabytes),
    "_FLUSH_SECONDS": ("flush_seconds", _seconds),
}
