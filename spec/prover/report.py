"""What was shown and what was not."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Open:
    """An obligation that was not proved. That is no counterexample: the explorer looks for one."""

    where: str
    what: str
    policy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({self.policy})"


@dataclass(slots=True)
class JobReport:
    """The obligations of one rule, or of one operation of the machine."""

    name: str
    kind: str
    obligations: int = 0
    asked: int = 0
    """Those that took a call of Z3; the others are hypotheses themselves or follow from the core
    of an earlier proof.
    """
    open: list[Open] = field(default_factory=list)
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

    @property
    def proved(self) -> int:
        """How many obligations are proved."""
        return self.obligations - len(self.open)

    def merge(self, other: "JobReport") -> None:
        """Add what was found under another policy."""
        self.obligations += other.obligations
        self.asked += other.asked
        self.open += other.open
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
    def obligations(self) -> int:
        """How many there were."""
        return sum(r.obligations for r in self.per_rule.values())

    @property
    def proved(self) -> int:
        """How many are proved."""
        return sum(r.proved for r in self.per_rule.values())

    @property
    def open(self) -> list[Open]:
        """Those that are not."""
        return [o for r in self.per_rule.values() for o in r.open]

    @property
    def vacuous(self) -> list[str]:
        """Texts whose hypotheses contradict each other, and rules of the machine that never fire:
        nothing is shown of them.
        """
        texts = [r.name for r in self.per_rule.values() if not r.reached]
        return texts + [
            f"{r.name}: {rule}" for r in self.per_rule.values() for rule in sorted(r.never)
        ]
