"""What long runs of the lockstep have come to, added up: of which text, on which scenarios.

`tests/fuzz/record.py` runs and adds; the ledger shows what the specification's come to. A run
counts for an engine as long as that engine's text is the one that ran.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from nullblock.conformance.files import write_atomically
from nullblock.conformance.ledger.digest import TEXT, digest

RESULT = Path(__file__).parent / "results" / "fuzz.json"
_DEVICE = ("impl/*.py", "impl/device/*.py", "kernels/*.py", "kernels/*/*.py")
TEXTS = {
    "spec": TEXT,
    "reference": (
        *("reference/*.py", "reference/sched/*.py"),
        *("spec/profiles.py", "spec/semantics.py", "spec/facts.py"),
    ),
    "impl": ("impl/*.py",),
    "impl:twins": _DEVICE,
    "impl:cuda": _DEVICE,
    "impl:interpreter": _DEVICE,
}
"""By engine: what decides."""
REAL = "vLLM 0.22.1"


class Sum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs of one text on one family of scenarios, added up."""

    family: str
    of: dict[str, str]
    """By engine that ran: the digest of its text."""
    beside: str
    """The real engine, or the profile in which they were compared with each other."""
    seeds: dict[str, int]
    """By seed: how many of its scenarios ran, from the first."""
    steps: int = 0
    exceptions: int = 0
    """Scenarios that an exception ended, the same on every engine."""
    refused: int = 0
    differences: int = 0
    watched: int = 0
    """Scenarios of which it is known what they reached."""
    reached: dict[str, int] = {}

    @property
    def engines(self) -> tuple[str, ...]:
        """Who ran."""
        return tuple(self.of)

    @property
    def scenarios(self) -> int:
        """How many ran."""
        return sum(self.seeds.values())

    @property
    def key(self) -> tuple[object, ...]:
        """Runs with one key add up."""
        return self.family, tuple(self.of.items()), self.beside

    def is_present(self, engine: str) -> bool:
        """Whether that engine ran, and its text has not changed since."""
        return self.of.get(engine) == present(engine)

    def plus(self, other: "Sum") -> "Sum":
        """Both together; a seed of both went on where it had stopped."""
        return Sum(
            *(self.family, self.of, self.beside, dict(Counter(self.seeds) + Counter(other.seeds))),
            *(self.steps + other.steps, self.exceptions + other.exceptions),
            *(self.refused + other.refused, self.differences + other.differences),
            self.watched + other.watched,
            dict(sorted((Counter(self.reached) + Counter(other.reached)).items())),
        )


def present(engine: str) -> str:
    """The digest of an engine's text as it stands."""
    return digest(TEXTS[engine])


def gather(path: Path = RESULT) -> list[Sum]:
    """All that is recorded, the last added last. Raises OSError and ValueError."""
    return msgspec.json.decode(path.read_bytes(), type=list[Sum])


def add(some: Sum, path: Path = RESULT) -> Sum:
    """Record runs; returns what they and those recorded before come to."""
    sums = {one.key: one for one in gather(path)} if path.exists() else {}
    before = sums.pop(some.key, None)
    sums[some.key] = whole = some if before is None else before.plus(some)
    text = msgspec.json.format(msgspec.json.encode(list(sums.values())), indent=1)
    write_atomically(path, text + b"\n")
    return whole


def totals(sums: Iterable[Sum]) -> str:
    """For people: by engine, beside whom and on which scenarios, how many steps of the present
    text; what is of an earlier text adds nothing.
    """
    sums = list(sums)
    lines: list[str] = []
    for engine in TEXTS:
        mine = [s for s in sums if s.is_present(engine)]
        for beside in sorted({s.beside for s in mine}):
            some = [s for s in mine if s.beside == beside]
            lines.append(f"{engine}, {beside}: {_said(some)}")
            for family in dict.fromkeys(s.family for s in some):
                lines.append(f"  {family:14} {_said([s for s in some if s.family == family])}")
    return "\n".join(lines) or "no run of the present text is recorded"


def _said(some: list[Sum]) -> str:
    steps, scenarios = sum(s.steps for s in some), sum(s.scenarios for s in some)
    return (
        f"{steps:,} steps, {scenarios:,} scenarios, {sum(s.differences for s in some)} differences"
    )
