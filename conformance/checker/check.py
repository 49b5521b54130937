"""A verdict on a trace, record by record, in memory that does not grow with its length."""

import gc
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from nullblock.conformance.checker import hidden, remote
from nullblock.conformance.checker.raised import Raised, ended, what_next
from nullblock.conformance.checker.replay import Replay, Unexplained
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.checker.unseen import Unseen
from nullblock.conformance.checker.verdict import First, Verdict
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import Located, TraceReader
from nullblock.conformance.trace.records import Error, Header, Update
from nullblock.spec.kernel import Engines
from nullblock.spec.profiles import Semantics, UnknownSwitch, profile
from nullblock.spec.switches import with_switches

YOUNG = 20_000
"""Objects made before the collector of cycles looks for some: a check makes next to none."""
BEFORE = 4
"""Records that a story looks back on."""
FOREIGN = ("abort", "pause", "reset", "evict")
"""Inputs that a trace may leave out: where they are, a mismatch may be their doing."""

Progress = Callable[[int], None]
"""Called with the number of each record."""


def check(
    path: Path,
    semantics: Semantics | None = None,
    label: str = "",
    *,
    stream: BinaryIO | None = None,
    progress: Progress | None = None,
    deep: bool = True,
    until: tuple[int, str] | None = None,
    window: int = BEFORE,
    plain: bool = False,
) -> Verdict:
    """Judge one recording: a file, a folder with its parts, or a stream.

    Without `semantics` the profile that the header names is used; `label` is what it is called in
    the verdict. Raises `OSError` where a file cannot be read.

    Args:
        deep: read a trace that violates a second time, to tell what decided. A stream is not.
        until: line and file of the last record to judge.
        window: how many records at the end to keep.
        plain: never erase the rules' text, which takes longer than to judge a short trace by it.
    """
    verdict = Verdict(trace=str(path), profile=label)
    judge = _Judge(verdict, semantics, window, path if deep and stream is None else None)
    judge.plain = plain
    outer, Engines.after_rule = Engines.after_rule, judge.after_rule
    thresholds = gc.get_threshold()
    gc.set_threshold(max(thresholds[0], YOUNG) if thresholds[0] else 0, *thresholds[1:])
    try:
        reader = TraceReader(path, stream=stream)
        records = iter(reader)
        for number, located in enumerate(records, start=1):
            if progress is not None:
                progress(number)
            judge.take(located)
            if verdict.verdict == "VIOLATION":
                judge.doubt(records)
                reader.drain()
                break
            if until is not None and until == (located.line, located.file):
                break
    except Malformed as damage:
        judge.damaged(damage)
    finally:
        Engines.after_rule = outer
        gc.set_threshold(*thresholds)
    judge.conclude()
    if deep:
        judge.explain()
    return verdict


class _Judge:
    """Fills in a verdict while the records pass."""

    def __init__(
        self, verdict: Verdict, semantics: Semantics | None, window: int, path: Path | None
    ) -> None:
        """`path`: the trace, if it may be read once more."""
        self.verdict, self.semantics, self.path = verdict, semantics, path
        self.plain = False
        self.replay: Replay | None = None
        self.last: deque[Located] = deque(maxlen=max(window, BEFORE) + 1)
        self.unseen: list[str] = []
        """Inputs that may be what a mismatch comes from."""
        self.untold: Unseen | None = None
        self.adopted = 0
        """Blocks of hits that were adopted before the record at hand."""
        self.silent = False
        """Nothing can be said about decisions any more."""

    def after_rule(self, s: object, rule: str) -> None:
        """Passed on to the replay."""
        if self.replay is not None:
            self.replay.after_rule(s, rule)

    def take(self, located: Located) -> None:
        """Judge one record."""
        if isinstance(located.written, Error):
            self.verdict.raised = self.ended(located.written)
        if self.silent:
            return
        record = located.record
        self.last.append(located)
        try:
            if isinstance(record, Header):
                self.begin(record)
            elif self.replay is not None:
                self.adopted = self.replay.fired.get("POOL-11", 0)
                self.replay.take(record)
                if self.untold is not None:
                    self.untold.take(record)
        except NotRecorded as unknown:
            self.silent = True
            self.verdict.missing += unknown.missing
        except Unexplained as error:
            self.violated(error, located)
        except Malformed as damage:
            raise damage.on(located.line, located.file) from None

    def ended(self, error: Error) -> Raised:
        """How the run ended, as far as is known before the rules are asked."""
        if self.silent or self.replay is None or not self.replay.known:
            return Raised(error.type, error.during, None)
        s = self.replay.s
        return ended(error, self.replay.steps, int(s.steps) - int(s.oldest))

    def begin(self, header: Header) -> None:
        """Set the rules up for a trace with this header."""
        if self.semantics is None:
            name, *settings = (part.strip() for part in header.spec.split(","))
            try:
                self.semantics = with_switches(profile(name), settings)
            except UnknownSwitch:
                raise NotRecorded(
                    f"a profile that is known (--profile): {header.spec!r}"
                ) from None
            self.verdict.profile = header.spec
        self.unseen = [
            f"all {kind} records ({getattr(header.observed, kind)})"
            for kind in FOREIGN
            if getattr(header.observed, kind) != "complete"
        ]
        self.replay = Replay(header, self.semantics, plain=self.plain)
        self.untold = Unseen(header)

    def violated(self, error: Unexplained, located: Located) -> None:
        """A decision is not the rules' own: theirs, or an unseen input's."""
        self.silent = True
        if self.unseen:
            self.verdict.missing += self.unseen
            return
        assert self.replay is not None
        if unsaid := remote.unsaid(self.replay.k, located.record):
            self.verdict.missing.append(unsaid)
            return
        m = error.mismatch
        self.verdict.verdict = "VIOLATION"
        self.verdict.first = First(
            line=located.line,
            step=_step(located.record, self.replay),
            rule=m.rule,
            what=m.what,
            expected=m.expected,
            actual=m.actual,
            story=(),
            file=located.file,
            mismatch=m,
        )

    def doubt(self, rest: Iterable[Located]) -> None:
        """Take a violation back where the header hides what it may come from."""
        first, replay = self.verdict.first, self.replay
        if first is None or first.mismatch is None or replay is None:
            return
        if hidden.may_be_eagle(first.mismatch, replay.header, self.adopted):
            unsaid = hidden.missing(first.mismatch, replay.header, rest)
            if unsaid is not None:
                self.verdict.verdict, self.verdict.first = "INCONCLUSIVE", None
                self.verdict.missing.append(unsaid)

    def explain(self) -> None:
        """Tell the story of a violation."""
        first = self.verdict.first
        if self.verdict.verdict != "VIOLATION" or first is None or first.mismatch is None:
            return
        from nullblock.conformance.checker import story  # rarely needed, and much behind it

        assert self.replay is not None and self.semantics is not None
        case = story.Case(
            first.mismatch,
            self.replay,
            self.semantics,
            self.verdict.profile,
            self.path,
            first.line,
            first.file,
            first.step,
            tuple(self.last)[-BEFORE - 1 : -1],
        )
        try:
            explanation = story.explain(case)
            told = story.tell(case, explanation)
        except Exception as error:  # whatever is wrong with a story, the verdict stands
            self.verdict.first = replace(first, story=story.untold(case, error))
            return
        self.verdict.first = replace(first, story=told, explanation=explanation)

    def damaged(self, damage: Malformed) -> None:
        """The trace cannot be read on."""
        self.verdict.verdict = "MALFORMED"
        self.verdict.missing = []
        self.verdict.first = First(
            line=damage.line,
            step=self.replay.steps if self.replay else 0,
            rule=None,
            what=damage.what,
            expected=damage.remedy,
            actual=damage.what,
            story=(str(damage),),
            file=damage.file,
        )

    def conclude(self) -> None:
        """What the whole trace comes to."""
        verdict = self.verdict
        verdict.last, verdict.replay = tuple(self.last), self.replay
        verdict.unseen = self.untold.lines() if self.untold is not None else []
        if self.replay is not None:
            verdict.steps, verdict.decisions = self.replay.decided, self.replay.decisions
            verdict.began_after = self.replay.began_after or 0
            verdict.rules = dict(self.replay.fired)
            if verdict.raised is not None and (why := self.replay.raises) is not None:
                raised = verdict.raised
                may = what_next(raised.during, self.semantics)
                verdict.raised = replace(raised, rules=why, next=may)
        if verdict.verdict == "INCONCLUSIVE" and not self.silent:
            unjudged = self.replay.unjudged() if self.replay is not None else []
            verdict.missing += unjudged
            if unjudged:
                return
            if verdict.decisions:
                verdict.verdict = "CONFORMS"
            else:
                verdict.missing.append("decisions: there are none in the trace")


def _step(record: object, replay: Replay) -> int:
    """Which step a decision is of that was just compared: an update is of the oldest in flight."""
    match record:
        case Update(step=step):
            return step
        case Error(during="schedule"):
            return replay.steps + 1
        case Error(during="update"):
            return replay.steps - (int(replay.s.steps) - int(replay.s.oldest))
        case _:
            return replay.steps
