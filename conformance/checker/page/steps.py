"""Requests by step: who waited, computed, was preempted, ended, in the last steps of a trace."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from nullblock.conformance.checker.observations import waiting
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.page import chart as picture
from nullblock.conformance.page.html import Element, el
from nullblock.conformance.trace.records import Abort, Add, Schedule, Update

STEPS, ROWS, IDLE_ROWS = 48, 60, 12
"""At most this many columns, rows, and rows of requests that only waited."""


@dataclass(slots=True)
class Chart(picture.Chart[int]):
    """What each request did in each step of a window."""

    standing: dict[int, str] = field(default_factory=dict)
    """What a request does while nothing is said of it."""
    preempted: set[int] = field(default_factory=set)
    """Who was, in the window: to the second model runner such a request is new once more."""

    def step(self, record: Schedule) -> None:
        """A step is scheduled: what is recorded of it."""
        step = record.step
        self.steps.append(step)
        new = {q.id for q in record.new}
        resumed = set(record.cached.resumed) if record.cached else set()
        resumed |= new & self.preempted
        self.preempted.update(record.preempted)
        for r in record.preempted:
            self.put(r, step, "x", "preempted")
            self.standing[r] = "w"
        drafts = dict(record.drafts)
        for r, n in zip(record.ids, record.tokens, strict=True):
            known = n - drafts.get(r, 0)
            kind = "r" if r in resumed else "n" if r in new else "p" if known > 1 else "d"
            verified = f", {drafts[r]} of them drafts" if r in drafts else ""
            self.put(r, step, kind, f"{n} token" + "s" * (n != 1) + verified)
            self.standing[r] = "s"
        for r, kind in self.standing.items():
            if step not in self.cells.setdefault(r, {}):
                self.put(r, step, kind, "waits" if kind == "w" else "not scheduled")

    def end(self, r: int, reason: str) -> None:
        """A request is gone."""
        self.standing.pop(r, None)
        if self.steps:
            what = self.cells.get(r, {}).get(self.steps[-1], ("", ""))[1]
            self.put(r, self.steps[-1], "f", f"{what}, ended: {reason}".removeprefix(", "))


def chart(verdict: Verdict) -> Chart:
    """The chart of the last steps."""
    found = Chart()
    arrived: set[int] = set()
    for located in verdict.last:
        match located.record:
            case Add() as add:
                found.standing[add.id] = "w"
                arrived.add(add.id)
            case Schedule() as schedule:
                found.step(schedule)
            case Update() as update:
                for finish in update.finish:
                    found.end(finish.id, finish.reason)
            case Abort() as abort:
                for r in abort.aborted or abort.asked or ():
                    found.end(r, "aborted")
            case _:
                pass
    for r, cells in found.cells.items():
        # Whoever enters without having arrived had arrived, and waited, before.
        begun = min(cells)
        if r not in arrived and cells[begun][0] in ("n", "r"):
            for step in found.steps:
                if step < begun:
                    found.put(r, step, "w", "waits")
    found.steps = found.steps[-STEPS:]
    if verdict.replay is not None:
        unseen = [r for r in waiting(verdict.replay.s) if r not in found.cells]
        for r in unseen:
            for step in found.steps:
                found.put(r, step, "w", "waits")
    return found


def draw(verdict: Verdict, about: Iterable[int]) -> Element | None:
    """The chart as a figure; None if no step was read."""
    found = chart(verdict)
    if not found.steps:
        return None
    last = found.steps[-1]
    wanted = [r for r in about if r in found.cells]
    shown = set(found.steps)
    rows = [r for r, cells in found.cells.items() if shown & cells.keys()]
    # Those that the verdict is about first, then whoever did something, then who only waited.
    busy = {r: sum(found.cells[r].get(s, "w")[0] != "w" for s in shown) for r in rows}
    rows.sort(key=lambda r: (r not in wanted, not busy[r], -max(found.cells[r]), r))
    most = sum(r in wanted or bool(busy[r]) for r in rows) + IDLE_ROWS
    most = min(most, ROWS)
    left_out = len(rows) - most
    rows = sorted(rows[:most])
    label = f"{len(rows)} requests in steps {found.steps[0]} to {last}"
    wrong = verdict.verdict == "VIOLATION" and verdict.first is not None
    fault = verdict.first.step if wrong and verdict.first is not None else None
    note = f"{label}, as recorded" + (f"; {left_out} more are left out" if left_out > 0 else "")
    note += "; the wrong decision is framed" if fault in shown else ""
    svg = picture.draw(found, rows, label, wanted=wanted, fault=fault)
    return el(
        "figure",
        el("div", svg, class_="wide"),
        picture.legend(),
        el("figcaption", note),
    )
