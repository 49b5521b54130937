"""What is collected: families of scenarios, golden vectors, replays; a test for each."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import scenario, scope
from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import EngineName, features_of
from nullblock.conformance.errors import InputError, OutOfScope
from nullblock.conformance.files import atomic_writer
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.lockstep.beside import Document, Refused, run
from nullblock.conformance.lockstep.families import FAMILIES, Family
from nullblock.conformance.lockstep.hunt import Departure, departure, hunt
from nullblock.conformance.lockstep.tell import tell
from nullblock.conformance.minimal.document import written
from nullblock.conformance.pytest_plugin.vectors import vectors
from nullblock.spec.profiles import Semantics

PROPERTY = "nullblock"
FEW = 6
"""Cases that a family's summary names."""


def covered(semantics: Semantics) -> frozenset[Feature]:
    """What the rules of a line say anything about."""
    return extent(features_of(EngineName.spec), semantics)


class Departed(Exception):
    """A scheduler departs from the rules; the text is the story."""


class Collected(pytest.Collector):
    """All of them."""

    def __init__(self, *, conformance: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conformance = conformance
        self.add_marker(pytest.mark.nullblock)

    def collect(self) -> Iterator[pytest.Item]:
        """Replays if there are any, else families and vectors."""
        for path in self.conformance.replays:
            yield ReplayItem.from_parent(self, name=path.name, scenario_path=path)
        if self.conformance.replays:
            return
        for family in FAMILIES:
            yield FamilyItem.from_parent(self, name=family.name, family=family)
        for name, (about, document) in vectors().items():
            yield VectorItem.from_parent(
                self, name=f"vector-{name}", about=about, document=document
            )


class ConformanceItem(pytest.Item):
    """A test of the scheduler."""

    @property
    def conformance(self) -> Any:
        """What all items share."""
        assert isinstance(self.parent, Collected)
        return self.parent.conformance

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a report says that it stands."""
        return self.path, None, self.nodeid

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The story of a departure; one line for what cannot be asked."""
        if isinstance(excinfo.value, Departed | InputError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def summarise(self, line: str) -> None:
        """Say at the end, and in a JUnit report, what it came to."""
        self.user_properties.append((PROPERTY, f"{self.name}: {line}"))

    def skip(self, why: str) -> None:
        """Skip, and say so at the end."""
        self.summarise(f"skipped: {why}")
        pytest.skip(why)

    def run_one(self, document: Document, keep: bool = True) -> None:
        """Run one scenario, and fail with its story if it departs."""
        own = self.conformance
        try:
            ran = run(document, own.subject, own.semantics)
        except Refused as refusal:
            self.skip(str(refusal))
        if ran.difference is not None:
            found = departure(document, ran, own.subject, own.semantics, own.label)
            raise Departed(self.story(found, keep))

    def story(self, found: Departure, keep: bool = True) -> str:
        """The departure in words; its scenario is kept in a file."""
        own = self.conformance
        path: Path = own.out / f"{self.name.removesuffix('.json')}.json"
        if keep:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_writer(path) as stream:
                stream.write(written(found.document).encode())
        told = path.relative_to(own.root) if path.is_relative_to(own.root) else path
        sets = "".join(f" --set {s}" for s in own.label.split(", ")[1:])
        commands = [
            f"again: pytest {own.commands} --nullblock-replay {told}",
            f"what the rules say there: nullblock run --engine spec --profile "
            f"{own.label.split(', ')[0]}{sets} {told}",
        ]
        return "\n".join(tell(found, own.subject, own.label, told if keep else None, commands))


class FamilyItem(ConformanceItem):
    """Scenarios that nobody chose, of one family."""

    def __init__(self, *, family: Family, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.family = family

    def runtest(self) -> None:
        """Run scenario after scenario until there are enough steps."""
        own = self.conformance
        lacking = self.family.lacking(own.subject.features)
        if lacking:
            self.skip(f"{own.subject.short} is not asked for {', '.join(lacking)}")
        uncovered = self.family.lacking(covered(own.semantics))
        if uncovered:
            self.skip(f"the rules do not cover {', '.join(uncovered)}")
        done = hunt(own.subject, self.family, own.semantics, own.label, own.seed, own.steps)
        if done.departure is not None:
            found = (
                f"\n  found in scenario {done.scenarios} of seed {own.seed}, family {self.name}"
            )
            raise Departed(self.story(done.departure) + found)
        met = ", ".join(f"{what} in {n}" for what, n in done.reached.most_common(FEW))
        refused = "".join(f"; {n} refused ({what})" for what, n in done.refused.items())
        self.summarise(
            f"not refuted in {done.scenarios} scenarios, {done.steps} steps{refused}"
            + (f" ({met})" if met else "")
        )


class VectorItem(ConformanceItem):
    """A golden scenario, chosen for what it shows."""

    def __init__(self, *, about: str, document: Document, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.about, self.document = about, document

    def runtest(self) -> None:
        """Run it, unless it asks for what the scheduler is not asked for."""
        subject, known = self.conformance.subject, covered(self.conformance.semantics)
        for feature, place in scope.used(scenario.from_dict(self.document)):
            if feature not in subject.features:
                pytest.skip(f"{subject.short} is not asked for {feature.value} ({place})")
            if feature not in known:
                pytest.skip(f"the rules do not cover {feature.value} ({place})")
        try:
            self.run_one(self.document)
        except OutOfScope as refusal:  # features that the rules have, but not together
            pytest.skip(f"the rules do not cover it: {refusal}")
        except Departed as error:
            raise Departed(f"{error}\n  the vector shows: {self.about}") from None


class ReplayItem(ConformanceItem):
    """A scenario from a file."""

    def __init__(self, *, scenario_path: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scenario_path = scenario_path

    def runtest(self) -> None:
        """Run it."""
        try:
            scenario.load(self.scenario_path, self.scenario_path.name)
            document = json.loads(self.scenario_path.read_bytes())
        except OSError as error:
            pytest.fail(f"{self.scenario_path}: {error.strerror or error}", pytrace=False)
        self.run_one(document, keep=False)
        self.summarise("agrees")
