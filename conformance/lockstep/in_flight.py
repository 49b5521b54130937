"""What a scenario reaches while steps are in flight: read from its events and its lines."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]
Scenario = dict[str, Any]
NUMBERS = {2: "two steps in flight", 3: "three steps in flight", 4: "four steps in flight"}


def reached(document: Scenario, lines: list[Line]) -> set[str]:
    """Every case that the run met."""
    watch = _Watch(document["events"])
    for line in lines:
        watch.take(line)
    return watch.seen


@dataclass(slots=True)
class _Watch:
    """The steps in flight as the lines go by."""

    events: list[dict[str, Any]]
    seen: set[str] = field(default_factory=set)
    steps: deque[list[str]] = field(default_factory=deque)
    """By step in flight, who was scheduled."""
    requests: dict[str, Line] = field(default_factory=dict)
    """By id, the state after the last line that tells it."""
    owed_to_others: set[str] = field(default_factory=set)
    """Ids that were used again while an output for the request before was in flight."""

    def take(self, line: Line) -> None:
        """The next line."""
        match line["ev"]:
            case "schedule":
                self.scheduled(line)
            case "update":
                self.updated(line)
            case "abort":
                self.note("abort in flight", any(map(self.is_in_flight, line["aborted"])))
            case "reset_prefix_cache":
                self.was_reset(line)
            case "add":
                if self.is_in_flight(line["id"]):
                    self.note("id used again in flight")
                    self.owed_to_others.add(line["id"])
            case "pause":
                self.note("pause in flight", bool(self.steps))
        if line.get("state"):
            self.requests = line["state"]["requests"]

    def note(self, what: str, is_so: bool = True) -> None:
        """Something was met."""
        if is_so:
            self.seen.add(what)

    def is_in_flight(self, id: str) -> bool:
        """Whether a step in flight has that id."""
        return any(id in step for step in self.steps)

    def scheduled(self, line: Line) -> None:
        """A step more is in flight."""
        preempted = line["preempted"]
        resumed = [one["id"] for one in line["cached"] if one["resumed"]]
        again = [new["id"] for new in line["new"] if new["id"] in self.owed_to_others]
        self.note("preemption in flight", any(map(self.is_in_flight, preempted)))
        self.note("resumption in flight", any(map(self.is_in_flight, resumed)))
        self.note("scheduled with an id used again in flight", any(map(self.is_in_flight, again)))
        self.note("nothing scheduled in flight", bool(self.steps) and not line["order"])
        self.steps.append(line["order"])
        self.note(NUMBERS.get(len(self.steps), ""), len(self.steps) in NUMBERS)

    def updated(self, line: Line) -> None:
        """The oldest step returns."""
        if self.steps:
            self.steps.popleft()
        for id, tokens in line["sampled"].items():
            before, after = self.requests.get(id, {}), line["state"]["requests"].get(id, {})
            dropped = before.get("discard", 0) > after.get("discard", 0)
            self.note("frame dropped", bool(tokens) and dropped)
        for output in line["outputs"]:
            status = self.requests.get(output["id"], {}).get("status")
            if output["finish"]:
                self.note("finish with a step more in flight", self.is_in_flight(output["id"]))
                self.note("finish while preempted", status == "PREEMPTED")
        self.owed_to_others = set(filter(self.is_in_flight, self.owed_to_others))

    def was_reset(self, line: Line) -> None:
        """The prefix cache was to be emptied."""
        event = self.events[line["n"]]
        running = [id for id, one in self.requests.items() if one["status"] == "RUNNING"]
        if not event.get("reset_running") or not any(map(self.is_in_flight, running)):
            return
        self.note("reset of running requests in flight")
        twice = any(self.requests[id]["discard"] for id in running)
        self.note("reset with frames left to drop", twice)
