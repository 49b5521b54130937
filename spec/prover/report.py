"""What was shown and what was not."""

from dataclasses import dataclass, field, replace
from typing import Literal

Status = Literal["proved", "refuted", "unknown"]
WORST: tuple[Status, ...] = ("proved", "unknown", "refuted")


@dataclass(frozen=True, slots=True)
class Checked:
    """One obligation: what has to hold of a text under one policy, on every path that poses it."""

    where: str
    """The rule or operation; `initial` for the first state."""
    what: str
    """An invariant's ID, a guard of a fired rule, a promise, or what a loop says of itself."""
    policy: str
    """fcfs or priority."""
    status: Status
    """*proved*: for any size. *refuted*: there is a counterexample, in hand. *unknown*: neither
    was found.
    """
    seconds: float = 0.0
    """Processor time."""
    counterexample: str | None = None
    """The story of a step that breaks it, where one was found."""
    times: int = 1
    """How often it is posed: each path may pose it."""

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({self.policy})"

    def joined(self, other: "Checked") -> "Checked":
        """The same obligation on one more path: as bad as the worse of them."""
        return replace(
            self,
            status=max(self.status, other.status, key=WORST.index),
            seconds=self.seconds + other.seconds,
            counterexample=self.counterexample or other.counterexample,
            times=self.times + other.times,
        )


@dataclass(slots=True)
class JobReport:
    """The obligations of one rule, or of one operation of the machine."""

    name: str
    kind: str
    obligations: int = 0
    """How many were posed, those of each path counted."""
    proved: int = 0
    asked: int = 0
    """Those that took a call of Z3; the others are hypotheses themselves or follow from the core
    of an earlier proof.
    """
    found: dict[tuple[str, str], Checked] = field(default_factory=dict)
    """By what is to hold, and the policy."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """By what is to hold: the invariants that the proofs found use, besides guards and axioms."""
    paths: int = 0
    reached: bool = False
    """Whether the hypotheses at the end of some path are not refuted: what was shown is not shown
    of nothing.
    """
    fired: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)
    """Rules in the text of which no firing was found to be possible."""
    seconds: float = 0.0
    """Processor time."""

    def add(self, checked: Checked) -> None:
        """Enter an obligation."""
        key = checked.what, checked.policy
        before = self.found.get(key)
        self.found[key] = checked if before is None else before.joined(checked)

    @property
    def open(self) -> list[Checked]:
        """The obligations that are not proved."""
        return [c for c in self.found.values() if c.status != "proved"]

    def merge(self, other: "JobReport") -> None:
        """Add what was found under another policy."""
        self.obligations += other.obligations
        self.proved += other.proved
        self.asked += other.asked
        self.found |= other.found
        for what, used in other.used.items():
            self.used.setdefault(what, set()).update(used)
        self.paths += other.paths
        self.reached = self.reached and other.reached
        self.fired |= other.fired
        self.never |= other.never
        self.seconds += other.seconds


@dataclass(slots=True)
class Report:
    """Everything that one run showed."""

    per_rule: dict[str, JobReport]
    seconds: float
    """Processor time."""
    slowest: list[tuple[float, str]] = field(default_factory=list)
    """Seconds and name of the obligations that took longest."""

    @property
    def checked(self) -> tuple[Checked, ...]:
        """Every obligation."""
        return tuple(c for r in self.per_rule.values() for c in r.found.values())

    @property
    def obligations(self) -> int:
        """How many were posed, each path counted."""
        return sum(r.obligations for r in self.per_rule.values())

    @property
    def proved(self) -> int:
        """How many of them are proved."""
        return sum(r.proved for r in self.per_rule.values())

    @property
    def open(self) -> list[Checked]:
        """Those that are not proved."""
        return [c for c in self.checked if c.status != "proved"]

    @property
    def vacuous(self) -> list[str]:
        """Texts whose hypotheses contradict each other, and rules of the machine that never fire:
        nothing is shown of them.
        """
        texts = [r.name for r in self.per_rule.values() if not r.reached]
        return texts + [
            f"{r.name}: {rule}" for r in self.per_rule.values() for rule in sorted(r.never)
        ]
