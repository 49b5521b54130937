"""What the checks find, how it is told, and what a reviewer has allowed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never


class Kind(StrEnum):
    """What can be wrong with a launch although its result looks right in the interpreter."""

    PROGRAMS = "conflict between programs"
    BARRIER = "missing barrier"
    DUPLICATE = "lanes store different values"
    BOUNDS = "out of bounds"
    ORDER = "depends on the order of programs or of an atomic's lanes"
    POISON = "depends on lanes that are masked off"
    OVERFLOW = "integer overflow"
    ASSERTION = "device assertion"


def remedy(kind: Kind) -> str:
    """What usually mends it."""
    match kind:
        case Kind.PROGRAMS:
            return "give each program its own elements, use an atomic, or split the launch"
        case Kind.BARRIER:
            return "put tl.debug_barrier() between the two"
        case Kind.DUPLICATE:
            return "mask all lanes but one, or use an atomic"
        case Kind.BOUNDS:
            return "mask the lane, or widen what it is computed from"
        case Kind.ORDER:
            return "compute places with a scan, not with what an atomic returns"
        case Kind.POISON:
            return "give the masked load an `other`, or mask what follows"
        case Kind.OVERFLOW:
            return "widen to tl.int64 before the operation"
        case Kind.ASSERTION:
            return "see the assertion"
    assert_never(kind)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a kernel's source."""

    file: str
    line: int
    function: str
    called_at: tuple[int, ...] = ()
    """Where in the kernel, from the inside out, if it stands in a function that it calls."""

    def __str__(self) -> str:
        path = "/".join(self.file.rsplit("/", 2)[-2:])
        calls = "".join(f" < {line}" for line in self.called_at)
        return f"{path}:{self.line}{calls} in {self.function}"


@dataclass(frozen=True, slots=True)
class Access:
    """One lane's access to memory."""

    action: str
    """``load``, ``volatile load``, ``store``, ``atomic``."""
    site: Site
    program: tuple[int, int, int]
    lane: int | None
    """Its number in the flattened block; None for a scalar, which every thread holds."""

    def __str__(self) -> str:
        who = "scalar" if self.lane is None else f"lane {self.lane}"
        return f"{self.action:<13} {self.site}, program {self.program}, {who}"


@dataclass(slots=True)
class Finding:
    """One defect: its first instance, and how often it was seen."""

    kind: Kind
    kernel: str
    tensor: str
    """An argument of the kernel; "" where none is concerned."""
    index: int | None
    """The element, counted from the argument's address."""
    accesses: tuple[Access, ...]
    detail: str = ""
    count: int = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """Two findings with one key are one defect."""
        places = tuple((a.action, a.site) for a in self.accesses)
        return (self.kind, self.kernel, self.tensor, places, "" if places else self.detail)

    def __str__(self) -> str:
        where = f", tensor {self.tensor}" if self.tensor else ""
        where += f", element {self.index}" if self.index is not None else ""
        often = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{self.kind}: kernel {self.kernel}{where}{often}"]
        lines += [f"    {access}" for access in self.accesses]
        lines += [f"    {self.detail}"] if self.detail else []
        return "\n".join([*lines, f"    remedy: {remedy(self.kind)}"])

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "kind": self.kind.name.lower(),
            "kernel": self.kernel,
            "tensor": self.tensor,
            "index": self.index,
            "count": self.count,
            "accesses": [str(access) for access in self.accesses],
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Allowed:
    """A finding that somebody has looked at and that is meant to be so."""

    kind: Kind
    where: str
    """The kernel; or the device function in which all its accesses stand, whoever calls it."""
    tensor: str
    """As an argument of the kernel; the last part of its name will do."""
    reason: str
    actions: tuple[str, ...] | None = None
    """Of the two accesses, in any order; None: any."""

    def covers(self, finding: Finding) -> bool:
        """Whether this is that finding."""
        functions = {access.site.function for access in finding.accesses}
        actions = sorted(access.action for access in finding.accesses)
        return (
            self.kind is finding.kind
            and (self.where == finding.kernel or functions == {self.where})
            and (finding.tensor == self.tensor or finding.tensor.endswith(f".{self.tensor}"))
            and (self.actions is None or actions == sorted(self.actions))
        )


class KernelDefects(AssertionError):
    """Launches under check have defects; the message lists them."""


@dataclass(slots=True)
class Report:
    """What the launches under check have shown."""

    seed: int
    allow: Sequence[Allowed] = ()
    launches: dict[str, int] = field(default_factory=dict)
    """How often each kernel was launched."""
    accesses: int = 0
    """Accesses by single lanes that were compared."""
    interpreted: bool = True
    """False on a device: nothing is checked there, and ``launches`` stays empty."""
    barriers: dict[Site, Finding | None] = field(default_factory=dict)
    """The barriers passed, each with what would be found without it, where it is known. Two
    accesses show it between which a program passed this barrier alone."""
    shared: set[Site] = field(default_factory=set)
    """Barriers that, together with others, part two accesses that would conflict."""
    used: list[Allowed] = field(default_factory=list)
    """Of what is allowed, what was seen."""
    _found: dict[tuple[Any, ...], Finding] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """Every defect, in the order in which they were met."""
        return list(self._found.values())

    def add(self, finding: Finding) -> None:
        """Count a finding, unless it is allowed."""
        for allowed in self.allow:
            if allowed.covers(finding):
                if allowed not in self.used:
                    self.used.append(allowed)
                return
        known = self._found.setdefault(finding.key, finding)
        if known is not finding:
            known.count += finding.count

    def kinds(self) -> set[Kind]:
        """The kinds of what was found."""
        return {finding.kind for finding in self._found.values()}

    def __str__(self) -> str:
        launched = ", ".join(f"{name} ×{n}" for name, n in self.launches.items()) or "nothing"
        head = f"{len(self._found)} defects in {launched} (seed {self.seed})"
        return "\n".join([head, *(str(finding) for finding in self.findings)])

    def raise_if_any(self) -> None:
        """Raise `KernelDefects` with everything that was found."""
        if self._found:
            raise KernelDefects(str(self))
