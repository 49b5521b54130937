"""What a check says."""

from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.explanation import Explanation
from nullblock.conformance.checker.raised import Raised
from nullblock.conformance.checker.replay import Replay
from nullblock.conformance.trace.reader import Located
from nullblock.conformance.verdicts import EXIT, Name


@dataclass(frozen=True, slots=True)
class First:
    """The first decision that no rule explains, or the damage in a trace."""

    line: int
    """From 1, inside `file`."""
    step: int
    """The step scheduled or updated, or the last one scheduled before; 0 before any."""
    rule: str | None
    """ID of the rule that decides otherwise; None for damage, and where the engine raised."""
    what: str
    """Which decision, in words."""
    expected: Any
    actual: Any
    story: tuple[str, ...]
    """Line by line: what the rules say there and why, whom it concerns, what came before, what to
    do."""
    file: str = ""
    mismatch: Mismatch | None = None
    """Of a VIOLATION."""
    explanation: Explanation | None = None
    """Of a VIOLATION: what the story tells, in parts."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario that shows the fault of a trace."""

    document: dict[str, Any] | None
    """None: there is none."""
    note: str
    """How small it is, or why there is none."""


@dataclass(slots=True)
class Verdict:
    """A verdict on one trace, and what it rests on."""

    trace: str
    verdict: Name = "INCONCLUSIVE"
    profile: str = ""
    steps: int = 0
    """Steps that were decided again."""
    began_after: int = 0
    """Steps that had been scheduled where judging began: those were not judged."""
    decisions: int = 0
    """Recorded decisions and observations that were compared."""
    rules: dict[str, int] = field(default_factory=dict)
    """How often each rule fired while the decisions were made again."""
    first: First | None = None
    missing: list[str] = field(default_factory=list)
    """What was not recorded, or is out of scope, and may have decided."""
    unseen: list[str] = field(default_factory=list)
    """What the trace could tell of decisions and does not, a field a line: it was not checked."""
    raised: Raised | None = None
    """The exception that ended the run, whatever the verdict is."""
    seconds: float = 0.0
    """How long the check took."""
    scenario: Scenario | None = None
    """Of a VIOLATION, if it was asked for: one that shows the same, or why there is none."""
    last: tuple[Located, ...] = field(default=(), repr=False)
    """The last records that were read, the one at fault included."""
    replay: Replay | None = field(default=None, repr=False)
    """The rules' own state after them."""

    def ending(self) -> list[str]:
        """The exception that ended the run in lines, where no violation names it."""
        if self.raised is None or self.verdict == "VIOLATION":
            return []
        return list(self.raised.told(self.profile))

    @property
    def exit_code(self) -> int:
        """0 CONFORMS, 1 VIOLATION, 3 INCONCLUSIVE, 4 MALFORMED."""
        return EXIT[self.verdict]
