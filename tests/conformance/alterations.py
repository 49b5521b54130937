"""Recorded decisions, each changed in one way, and the rule that decides otherwise."""

from collections.abc import Callable
from typing import Any

Lines = list[dict[str, Any]]


def first(lines: Lines, kind: str, suits: Callable[[Any], bool] = lambda line: True) -> int:
    """The index of the first record of a kind that suits."""
    found = (i for i, line in enumerate(lines) if line["ev"] == kind and suits(line))
    return next(found)


def has(*path: str) -> Callable[[Any], bool]:
    """Whether a record has something at that path."""

    def suits(line: Any) -> bool:
        for name in path:
            line = line.get(name) if isinstance(line, dict) else None
        return bool(line)

    return suits


def grown(line: Any) -> None:
    """One more token for the last one scheduled."""
    line["tokens"][-1] += 1


def decoding(line: Any) -> bool:
    """Somebody runs, and nobody enters."""
    return bool(line["ids"]) and not line.get("new") and line["tokens"][-1] == 1


def hit(line: Any) -> bool:
    """The first new request has a prefix hit."""
    return bool(line.get("new")) and line["new"][0]["computed"] > 0


def swap(values: list[Any]) -> None:
    """The first two members change places."""
    values[0], values[1] = values[1], values[0]


def several(line: Any) -> bool:
    """At least two are scheduled."""
    return len(line["ids"]) > 1


def drop_last(line: Any) -> None:
    """The last one scheduled is not."""
    line["ids"].pop()
    line["tokens"].pop()


def enter(line: Any) -> None:
    """A request that is not there is scheduled."""
    line["ids"].append(999)
    line["tokens"].append(1)


def unresumed(line: Any) -> None:
    line["cached"]["resumed"] = []


def block(groups: list[list[int]], at: int) -> None:
    """Another block, in place of the one there."""
    groups[0][at] += 1


Alteration = tuple[str, str, Callable[[Any], bool], Callable[[Any], Any]]
"""The rule, the kind of record, which one of them, and what is done to it."""
ALTERATIONS: dict[str, Alteration] = {
    "a decode gets a token too many": ("RUN-2", "schedule", decoding, grown),
    "a request is left out": ("RUN-4", "schedule", decoding, drop_last),
    "a stranger is scheduled": ("RUN-14", "schedule", decoding, enter),
    "the order is another": (
        "OUT-1",
        "schedule",
        several,
        lambda x: (swap(x["ids"]), swap(x["tokens"])),
    ),
    "a hit is longer": (
        "HASH-11",
        "schedule",
        hit,
        lambda x: x["new"][0].update(computed=x["new"][0]["computed"] + 16),
    ),
    "a hit is lost, and computed": (
        "HASH-11",
        "schedule",
        hit,
        lambda x: (
            x["tokens"].__setitem__(
                x["ids"].index(x["new"][0]["id"]),
                x["tokens"][x["ids"].index(x["new"][0]["id"])] + 16,
            ),
            x["new"][0].update(computed=x["new"][0]["computed"] - 16),
        ),
    ),
    "a hit is lost": ("HASH-11", "schedule", hit, lambda x: x["new"][0].update(computed=0)),
    "a hit is another block": (
        "HASH-10",
        "schedule",
        hit,
        lambda x: block(x["new"][0]["blocks"], 0),
    ),
    "a new block is another": (
        "POOL-10",
        "schedule",
        has("new"),
        lambda x: block(x["new"][-1]["blocks"], -1),
    ),
    "a table is short": (
        "POOL-10",
        "schedule",
        has("new"),
        lambda x: x["new"][0]["blocks"][0].pop(),
    ),
    "an added block is another": (
        "POOL-10",
        "schedule",
        has("cached", "blocks"),
        lambda x: block(x["cached"]["blocks"][0][1], 0),
    ),
    "nobody is new": ("WAIT-9", "schedule", has("new"), lambda x: x.pop("new")),
    "nobody is known": ("OUT-5", "schedule", has("cached"), lambda x: x.pop("cached")),
    "computed is one off": (
        "UPD-1",
        "schedule",
        decoding,
        lambda x: x["cached"]["computed"].__setitem__(0, x["cached"]["computed"][0] + 1),
    ),
    "output is one off": (
        "UPD-3",
        "schedule",
        decoding,
        lambda x: x["cached"]["num_output"].__setitem__(0, x["cached"]["num_output"][0] + 1),
    ),
    "tokens are sent again": (
        "OUT-3",
        "schedule",
        decoding,
        lambda x: x["cached"]["all_tokens"].append([x["ids"][0], 5]),
    ),
    "somebody is preempted": (
        "ALLOC-1",
        "schedule",
        decoding,
        lambda x: x.update(preempted=[x["ids"][0]]),
    ),
    "nobody is preempted": (
        "PREEMPT-2",
        "schedule",
        has("preempted"),
        lambda x: x.pop("preempted"),
    ),
    "another is preempted": (
        "PREEMPT-1",
        "schedule",
        has("preempted"),
        lambda x: x.update(preempted=[max(0, x["preempted"][0] - 1)]),
    ),
    "nobody is resumed": ("WAIT-9", "schedule", has("cached", "resumed"), unresumed),
    "somebody is finished": (
        "OUT-6",
        "schedule",
        decoding,
        lambda x: x.update(finished=[x["ids"][0]]),
    ),
    "nobody is finished": ("OUT-6", "schedule", has("finished"), lambda x: x.pop("finished")),
    "the common prefix is longer": (
        "OUT-4",
        "schedule",
        has("common_prefix"),
        lambda x: x["common_prefix"].__setitem__(0, x["common_prefix"][0] + 1),
    ),
    "fewer blocks are free": (
        "QUEUE-4",
        "schedule",
        has("state", "num_free"),
        lambda x: x["state"].update(num_free=x["state"]["num_free"] - 1),
    ),
    "more run": (
        "RUN-19",
        "schedule",
        has("state", "num_running"),
        lambda x: x["state"].update(num_running=x["state"]["num_running"] + 1),
    ),
    "more wait": (
        "WAIT-14",
        "schedule",
        has("state"),
        lambda x: x["state"].update(num_waiting=x["state"]["num_waiting"] + 1),
    ),
    "an output is lost": (
        "UPD-3",
        "update",
        has("ids"),
        lambda x: (x["ids"].pop(), x["tokens"].pop()),
    ),
    "an output is invented": (
        "UPD-2",
        "update",
        has("ids"),
        lambda x: (x["ids"].append(999), x["tokens"].append(1)),
    ),
    "two tokens come out": (
        "UPD-3",
        "update",
        has("ids"),
        lambda x: x["tokens"].__setitem__(0, 2),
    ),
    "outputs change places": ("UPD-9", "update", several, lambda x: swap(x["ids"])),
    "an end is missed": ("UPD-4", "update", has("finish"), lambda x: x.pop("finish")),
    "an end has another reason": (
        "UPD-4",
        "update",
        has("finish"),
        lambda x: x["finish"][0].update(reason="error"),
    ),
    "an end is a stop id's": (
        "UPD-4",
        "update",
        has("finish"),
        lambda x: x["finish"][0].update(by_stop_id=not x["finish"][0].get("by_stop_id", False)),
    ),
    "an end comes early": (
        "UPD-4",
        "update",
        lambda x: x["ids"] and not x.get("finish"),
        lambda x: x.update(finish=[{"id": x["ids"][0], "reason": "length"}]),
    ),
    "nobody is aborted": ("LIFE-4", "abort", has("aborted"), lambda x: x.update(aborted=[])),
}
DRAFT_ALTERATIONS: dict[str, Alteration] = {
    "a draft too many": (
        "DRAFT-3",
        "schedule",
        has("drafts"),
        lambda x: x["drafts"][0].__setitem__(1, x["drafts"][0][1] + 1),
    ),
    "no drafts": ("DRAFT-3", "schedule", has("drafts"), lambda x: x.pop("drafts")),
    "a draft is a token of its own": (
        "RUN-2",
        "schedule",
        has("drafts"),
        lambda x: x["tokens"].__setitem__(
            x["ids"].index(x["drafts"][0][0]),
            x["tokens"][x["ids"].index(x["drafts"][0][0])] - 1,
        ),
    ),
    "drafts change places": (
        "OUT-11",
        "schedule",
        lambda x: len(x.get("drafts", ())) > 1,
        lambda x: swap(x["drafts"]),
    ),
    "a draft is taken that is wrong": (
        "DRAFT-9",
        "update",
        lambda x: max(x["tokens"], default=0) > 1 and not x.get("finish"),
        lambda x: x["tokens"].__setitem__(x["tokens"].index(max(x["tokens"])), 9),
    ),
    "a token is taken behind an end": (
        "DRAFT-10",
        "update",
        lambda x: x.get("finish") and x["tokens"][x["ids"].index(x["finish"][0]["id"])] > 1,
        lambda x: x["tokens"].__setitem__(x["ids"].index(x["finish"][0]["id"]), 9),
    ),
}
"""The same, where there are drafts."""


def telling(kind: str, *keys: str) -> Callable[[Any], bool]:
    """Whether an update tells a KV event of that kind which has these keys."""

    def suits(line: Any) -> bool:
        return any(e["t"] == kind and all(k in e for k in keys) for e in line.get("events", ()))

    return suits


def told(line: Any, kind: str, *keys: str) -> dict[str, Any]:
    """The first KV event of that kind which has these keys."""
    found = (e for e in line["events"] if e["t"] == kind and all(k in e for k in keys))
    event: dict[str, Any] = next(found)
    return event


def turnover(line: Any) -> bool:
    """Blocks leave the cache, and others enter it behind them."""
    kinds = [e["t"] for e in line.get("events", ())]
    return "removed" in kinds and kinds[-1] == "stored"


def shorten(event: dict[str, Any]) -> None:
    """The last block of a run, and its tokens, are not told."""
    *_, last = event["chain"]
    event["tokens"] -= event["tokens"] // sum(many for _, many in event["chain"])
    last[1] -= 1


EVENT_ALTERATIONS: dict[str, Alteration] = {
    "no event is told": ("OUT-8", "update", has("events"), lambda x: x.update(events=[])),
    "an event is lost": ("OUT-8", "update", turnover, lambda x: x["events"].pop()),
    "an event comes twice": (
        "OUT-8",
        "update",
        telling("stored"),
        lambda x: x["events"].append(x["events"][-1]),
    ),
    "a removal is not told": (
        "OUT-9",
        "update",
        telling("removed"),
        lambda x: x["events"].remove(told(x, "removed")),
    ),
    "a removal of a block that stays": (
        "OUT-9",
        "update",
        telling("stored"),
        lambda x: x["events"].append({"t": "removed", "chain": [x["events"][-1]["chain"][0][0]]}),
    ),
    "a removal is of another block": (
        "OUT-9",
        "update",
        telling("removed"),
        lambda x: told(x, "removed").update(chain=[told(x, "removed")["chain"][0] + 1]),
    ),
    "blocks enter before others leave": (
        "OUT-9",
        "update",
        turnover,
        lambda x: x["events"].insert(0, x["events"].pop()),
    ),
    "the last block of a run is not told": (
        "OUT-8",
        "update",
        lambda x: telling("stored")(x) and told(x, "stored")["chain"][-1][1] > 1,
        lambda x: shorten(told(x, "stored")),
    ),
    "a run begins a sequence that it goes on with": (
        "OUT-8",
        "update",
        telling("stored", "parent"),
        lambda x: told(x, "stored", "parent").pop("parent"),
    ),
    "a run goes on behind another block": (
        "OUT-8",
        "update",
        telling("stored", "parent"),
        lambda x: told(x, "stored", "parent").update(parent=0),
    ),
    "the cache is told to be empty": (
        "OUT-10",
        "update",
        telling("stored"),
        lambda x: x["events"].append({"t": "cleared"}),
    ),
}
"""The same, where KV events are told."""
EMPTIED: dict[str, Alteration] = {
    "an emptied cache is not told": (
        "OUT-10",
        "update",
        telling("cleared"),
        lambda x: x["events"].remove(told(x, "cleared")),
    ),
}
"""The same, where a cache is emptied."""
