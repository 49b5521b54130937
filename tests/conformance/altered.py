"""What has to become of a trace in which one field is altered, and whether it did."""

import copy
import io
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bases import Lines, as_recorded
from fields import alterations

from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.checker.report import document


@dataclass(frozen=True, slots=True)
class Caught:
    """A decision or an observation: VIOLATION on that very line, by one of these rules; or damage
    there, where the alteration makes the record impossible.
    """

    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """What holds a trace together: MALFORMED."""


@dataclass(frozen=True, slots=True)
class Input:
    """What decisions follow from: the first one that comes out otherwise is a VIOLATION, there or
    later; where the trace then lacks something, or contradicts itself, it is INCONCLUSIVE or
    MALFORMED; where nothing follows, it conforms. In some trace something follows.
    """


@dataclass(frozen=True, slots=True)
class Unsaid:
    """What makes a trace INCONCLUSIVE: it says that something is not known."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An exception of the engine, which the rules explain or not: VIOLATION where they decide
    there, INCONCLUSIVE where it cannot be said.
    """


@dataclass(frozen=True, slots=True)
class Unobserved:
    """Nothing is concluded from it."""

    why: str
    fact: str = ""
    """What the verdict names as unseen where the alteration takes it away; "": it takes nothing
    that decisions are compared by."""


Expected = Caught | Damage | Input | Unsaid | Explained | Unobserved
INPUT = Input()


def caught(*rules: str) -> Caught:
    """Caught, by one of these rules."""
    return Caught(rules)


def judge(lines: Lines) -> Verdict:
    """The verdict on these very lines, which can be told as JSON."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    verdict = check(Path("trace"), stream=io.BytesIO(data), deep=False)
    json.dumps(document(verdict))
    return verdict


def changed(name: str, **config: Any) -> Lines:
    """A kept recording whose constants are others, and whose features are all known."""
    lines = copy.deepcopy(as_recorded()[name])
    lines[0]["config"] |= config
    lines[0].pop("features", None)
    lines[0].pop("config_sha256")
    return lines


def is_known(verdict: Verdict, named: Iterable[str]) -> bool:
    """Whether a verdict is CONFORMS, or one of these words says why it cannot be told."""
    says = any(words in missing for words in named for missing in verdict.missing)
    return verdict.verdict == "CONFORMS" or (verdict.verdict == "INCONCLUSIVE" and says)


def meets(verdict: Verdict, at: int, expected: Expected) -> None:
    """Whether a verdict is the expected one."""
    first, said = verdict.first, verdict.verdict
    match expected:
        case Caught(rules=rules):
            assert first is not None and first.line == at + 1, verdict
            assert said == "MALFORMED" or (said, first.rule in rules) == ("VIOLATION", True), first
        case Damage():
            assert said == "MALFORMED" and first is not None and first.line >= at + 1, verdict
        case Input():
            assert first is None or first.line >= at + 1, verdict
        case Unsaid():
            # A frame of several tokens says nothing of a request that is gone.
            assert said in ("INCONCLUSIVE", "CONFORMS"), verdict
            assert said == "INCONCLUSIVE" or verdict.replay is not None
        case Explained():
            assert said in ("VIOLATION", "INCONCLUSIVE"), verdict
        case Unobserved():
            assert said == "CONFORMS", verdict


def names(unseen: Iterable[str], field: str) -> bool:
    """Whether a field, or a record or part that it is in, is among what a verdict does not see."""
    parts = field.split(".")
    ways = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    told = {name for line in unseen for name in re.findall("`(.*?)`", line.partition(":")[0])}
    return not ways.isdisjoint(told)


def names_the_unnoticed(verdict: Verdict, expected: Expected) -> None:
    """Where an alteration that nothing is concluded from takes a fact away, the verdict
    says so.
    """
    if isinstance(expected, Unobserved) and expected.fact:
        assert names(verdict.unseen, expected.fact), verdict.unseen


def each_alteration(
    traces: Iterable[Lines], path: str, expected: Expected, most: int = 6
) -> list[str]:
    """What becomes of traces with one occurrence of a field altered: of each, at most so many are,
    each alone, and each comes to what is expected. Some trace has the field.
    """
    found = []
    for lines in traces:
        for at, told in alterations(lines, tuple(path.split(".")), most):
            verdict = judge(told)
            meets(verdict, at, expected)
            names_the_unnoticed(verdict, expected)
            found.append(verdict.verdict)
    assert found, "no trace has it"
    return found
