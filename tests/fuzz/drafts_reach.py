"""What a scenario with drafts reaches.

Most is read from its events and from the lines it prints. Who was withdrawn from a step, and what
a look-up left out, can be seen only from inside, so the reference is watched while it runs.
"""

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from fuzz.lockstep import lines_of

from nullblock.reference.request import Request
from nullblock.reference.sched.state import Step
from nullblock.reference.single_type_kv_cache_manager import FullAttentionManager

Line = dict[str, Any]
Scenario = dict[str, Any]

CASES = (
    "all drafts accepted",
    "some drafts accepted",
    "no draft accepted",
    "a stop among the accepted",
    "drafts cut to fit the step",
    "drafts without room in the step",
    "slots for lookahead alone",
    "preempted with drafts",
    "preempted with drafts in flight",
    "withdrawn with drafts",
    "rejection after a preemption",
    "rejection after a resumption",
    "computed below 0",
    "placeholders below 0",
    "fewer tokens than none",
    "frame with drafts dropped",
    "drafts for a chunk",
    "drafts for one that waits",
    "drafts for one that is gone",
    "admitted with drafts",
    "filled in, cut",
    "filled in, padded",
    "filled in with two steps in flight",
    "EAGLE leaves out a hit",
    "drafts with two steps in flight",
    "drafts with three steps in flight",
)


def reached(document: Scenario) -> set[str]:
    """Every case that the reference meets."""
    with _watched() as seen:
        lines = [json.loads(line) for line in lines_of("reference", document)]
    watch = _Watch(document, seen)
    for line in lines:
        watch.take(line)
    return watch.seen


@contextmanager
def _watched() -> Iterator[set[str]]:
    """What happens inside of a step, until the end of the block."""
    seen: set[str] = set()
    withdraw, look_up = Step.withdraw, FullAttentionManager.find_longest_cache_hit

    def watched_withdraw(step: Step, request: Request) -> bool:
        had = request.request_id in step.spec_tokens
        was_in = withdraw(step, request)
        if was_in and had:
            seen.add("withdrawn with drafts")
        return was_in

    def watched_look_up(manager: Any, **asked: Any) -> Any:
        found = look_up(**asked)
        if asked["use_eagle"] and len(look_up(**{**asked, "use_eagle": False})[0]) > len(found[0]):
            seen.add("EAGLE leaves out a hit")
        return found

    with (
        patch.object(Step, "withdraw", watched_withdraw),
        patch.object(FullAttentionManager, "find_longest_cache_hit", watched_look_up),
    ):
        yield seen


@dataclass(slots=True)
class _Watch:
    """The steps in flight as the lines go by."""

    document: Scenario
    seen: set[str] = field(default_factory=set)
    steps: deque[Line] = field(default_factory=deque)
    before: dict[str, Line] = field(default_factory=dict)
    """By id, the state after the last line that tells it."""
    preemptions: dict[tuple[int, str], int] = field(default_factory=dict)
    """By step in flight and id, how often the request had been preempted."""

    def note(self, what: str, is_so: bool = True) -> None:
        """Something was met."""
        assert what in CASES, what
        if is_so:
            self.seen.add(what)

    def take(self, line: Line) -> None:
        """The next line."""
        match line["ev"]:
            case "schedule":
                self.scheduled(line)
            case "update":
                self.updated(line)
            case "draft":
                self.drafted(line, self.document["events"][line["n"]]["tokens"])
        if line.get("state"):
            self.before = line["state"]["requests"]
            for one in self.before.values():
                self.note("computed below 0", one["computed"] < 0)
                self.note("placeholders below 0", one["placeholders"] < 0)

    def scheduled(self, line: Line) -> None:
        """A step more is in flight."""
        after, spec, counts = line["state"]["requests"], line["spec"], line["num_scheduled_tokens"]
        block_size = self.document["config"].get("block_size", 16)
        for id, count in counts.items():
            self.note("fewer tokens than none", count < 0)
            had = self.before.get(id, {}).get("spec", 0)
            is_new = any(new["id"] == id for new in line["new"])
            is_resumed = any(one["id"] == id and one["resumed"] for one in line["cached"])
            if is_new or is_resumed:
                self.note("admitted with drafts", had > 0)
                continue
            got = len(spec.get(id, ()))
            self.note("drafts cut to fit the step", 0 < got < had)
            self.note("drafts without room in the step", had > 0 and got == 0)
            one = after[id]
            spare = len(one["blocks"][0]) - -(-one["computed"] // block_size)
            self.note("slots for lookahead alone", spare > 0)
        for id in line["preempted"]:
            had = self.before.get(id, {}).get("spec", 0)
            self.note("preempted with drafts", had > 0)
            in_flight = any(id in step["spec"] for step in self.steps)
            self.note("preempted with drafts in flight", in_flight)
        for id, one in after.items():
            self.preemptions[line["step"], id] = one["preemptions"]
        self.steps.append(line)
        with_drafts = sum(bool(step["spec"]) for step in self.steps)
        self.note("drafts with two steps in flight", with_drafts > 1)
        self.note("drafts with three steps in flight", with_drafts > 2)

    def updated(self, line: Line) -> None:
        """The oldest step returns."""
        step = self.steps.popleft()
        told = {output["id"]: output for output in line["outputs"]}
        for id, drafts in step["spec"].items():
            tokens, one = line["sampled"][id], self.before.get(id)
            if not tokens or one is None:
                continue
            accepted = len(tokens) - 1
            self.note("all drafts accepted", accepted == len(drafts))
            self.note("some drafts accepted", 0 < accepted < len(drafts))
            self.note("no draft accepted", accepted == 0)
            kept = len(told[id]["tokens"]) if id in told else 0
            self.note("a stop among the accepted", 0 < kept < len(tokens))
            self.note("frame with drafts dropped", one["discard"] > 0)
            again = one["preemptions"] > self.preemptions[step["step"], id]
            if again and accepted < len(drafts):
                waits = one["status"] == "PREEMPTED"
                self.note("rejection after a preemption", waits)
                self.note("rejection after a resumption", not waits)
        drafted = line.get("drafted", {})
        if drafted.get("proposed"):
            self.proposed(drafted, drafted["proposed"], line["state"]["requests"])

    def drafted(self, line: Line, tokens: dict[str, list[int]]) -> None:
        """Drafts that the scenario writes out."""
        self.proposed(line, tokens, line["state"]["requests"])

    def proposed(self, told: Line, drafts: dict[str, list[int]], alive: dict[str, Line]) -> None:
        """Drafts came in."""
        if told["spec"] is not None:
            scheduled = {id: len(tokens) for id, tokens in self.steps[-1]["spec"].items()}
            self.note("filled in with two steps in flight", len(self.steps) > 1)
            for id, tokens in drafts.items():
                if id in scheduled and id in alive:
                    self.note("filled in, cut", len(tokens) > scheduled[id])
                    self.note("filled in, padded", len(tokens) < scheduled[id])
            return
        for id, tokens in drafts.items():
            one = alive.get(id)
            self.note("drafts for one that is gone", one is None)
            if one is None or not tokens:
                continue
            runs = one["status"] == "RUNNING"
            self.note("drafts for one that waits", not runs and one["spec"] > 0)
            self.note("drafts for a chunk", runs and one["spec"] == 0)
