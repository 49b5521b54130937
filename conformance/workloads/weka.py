"""Agentic coding sessions (callanjfox/kv-cache-tester; Apache-2.0), in two spellings.

As published: a JSON object for each session, with ``requests``; each has ``t`` (seconds), ``in``
and ``out`` (tokens), ``hash_ids`` (one for each full 64 tokens), ``api_time`` and ``think_time``
(seconds). A request of type ``subagent`` holds the requests of one.

Packed: a JSON array for each request, ``[session, agent, t, type, model, in, out, parent, lcp,
runs, api_time, think_time, stop]``; its block ids are the first ``lcp`` of request ``parent`` of
the same session, then ``runs`` ``[[first, count], ...]``.

Ids are a session's own. What is not a full block of 64 tokens is shared with nobody, and so are
outputs: a next turn's blocks are new ones even where they repeat an answer.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from nullblock.conformance.consecutive import Run
from nullblock.conformance.workloads.causality import Sent, session
from nullblock.conformance.workloads.content import Content, first_of
from nullblock.conformance.workloads.session import Session, scaled
from nullblock.conformance.workloads.source import Line

TOKENS_PER_ID = 64
_PACKED = "[session, agent, t, type, model, in, out, parent, lcp, runs, api, think, stop]"
_PUBLISHED = '{"t": s, "in": n, "out": n, "hash_ids": [...], "api_time": s, "think_time": s}'


class Units:
    """Numbers for the units of all sessions: new ones, and a prefix that all may share."""

    def __init__(self, shared_prefix: int, scale: int) -> None:
        """``shared_prefix``: units that every prompt without a parent begins with."""
        self.shared, self.scale = shared_prefix, scale
        self.next = shared_prefix

    def new(self, many: int) -> list[Run]:
        """So many units that nobody has yet."""
        self.next += many
        return [(self.next - many, many)] if many else []

    def content(self, tokens: int, prefix: tuple[Run, ...], lcp: int) -> Content:
        """A prompt: ``lcp`` units of a prefix, and new ones."""
        full, tail = divmod(tokens, TOKENS_PER_ID)
        if not lcp and self.shared:
            lcp = min(self.shared, full)
            prefix = ((0, self.shared),)
        runs = [*first_of(prefix, lcp), *self.new(full - lcp), *self.new(int(tail > 0))]
        length, unit = scaled(tokens, self.scale), TOKENS_PER_ID // self.scale
        return Content(length, unit, first_of(runs, full + 1))


def packed(rows: Iterable[Line], units: Units) -> Iterator[Session]:
    """The sessions of a packed file, whose rows stand session by session."""
    done: set[int] = set()
    decoded = ((row, _array(row)) for row in rows)
    for name, members in groupby(decoded, lambda one: one[1][0]):
        sent: list[Sent] = []
        for row, fields in members:
            if name in done:
                raise row.error(f"session {name} goes on here", "sort the rows by session")
            sent.append(_sent(row, fields, sent, units))
        done.add(name)
        yield session(sent)


def _array(row: Line) -> list[Any]:
    try:
        fields = json.loads(row.text)
    except (ValueError, RecursionError):
        raise row.error("not JSON", f"a row is {_PACKED}") from None
    if not isinstance(fields, list) or len(fields) != 13:
        raise row.error("no row of 13 fields", f"a row is {_PACKED}")
    if type(fields[0]) is not int:
        raise row.error("the session is no number", f"a row is {_PACKED}")
    return fields


def _sent(row: Line, fields: list[Any], before: list[Sent], units: Units) -> Sent:
    _, agent, t, _, _, tokens, out, parent, lcp, runs, api, think, _ = fields
    _check(row, tokens, out, t, api, think)
    if before and t < before[-1].t:
        raise row.error(f"t is {t}, before that of the row before", "sort a session by t")
    if type(agent) is not int or type(parent) is not int or type(lcp) is not int:
        raise row.error("agent, parent or lcp is no whole number", f"a row is {_PACKED}")
    if not -1 <= parent < len(before):
        what = f"parent {parent}: {len(before)} requests of the session come before"
        raise row.error(what, "its place in the session from 0, or -1")
    prefix = before[parent].content if parent >= 0 else None
    many = _new_units(row, runs)
    if lcp < 0 or lcp + many != tokens // TOKENS_PER_ID:
        what = f"{lcp} + {many} blocks for {tokens} tokens"
        raise row.error(what, f"one for each full {TOKENS_PER_ID} tokens")
    if lcp > (0 if prefix is None else prefix.length * units.scale // TOKENS_PER_ID):
        raise row.error(f"lcp {lcp} is more than the parent has", "at most its full blocks")
    return Sent(
        agent=agent,
        t=float(t),
        took=float(api or 0),
        think=None if think is None else float(think),
        parent=None if parent < 0 else parent,
        content=units.content(tokens, () if prefix is None else prefix.runs, lcp),
        output_length=scaled(max(1, out), units.scale),
    )


def _new_units(row: Line, runs: Any) -> int:
    if isinstance(runs, list) and all(
        isinstance(run, list) and len(run) == 2 and all(type(n) is int and n >= 0 for n in run)
        for run in runs
    ):
        return sum(many for _, many in runs)
    raise row.error("runs is no list of runs", "write [[first id, count], ...]")


def _check(row: Line, tokens: Any, out: Any, t: Any, api: Any, think: Any) -> None:
    """What both spellings say of a request."""
    if type(tokens) is not int or not 0 < tokens < 2**31:
        raise row.error(f"in: {str(tokens)[:40]} is no prompt length", "a whole number from 1")
    if type(out) is not int or not 0 <= out < 2**31:
        raise row.error(f"out: {str(out)[:40]} is no output length", "a whole number from 0")
    for name, value in (("t", t), ("api_time", api or 0), ("think_time", think or 0)):
        if type(value) not in (int, float) or not 0 <= value < 2**53:
            raise row.error(f"{name}: {str(value)[:40]} is no time", "seconds from 0")


def published(rows: Iterable[Line], units: Units) -> Iterator[Session]:
    """The sessions of files as published, one a line."""
    for row in rows:
        try:
            document = json.loads(row.text)
        except (ValueError, RecursionError):
            what = "not JSON, or not all of a session"
            raise row.error(what, "one session a line (jq -c . FILE)") from None
        requests = document.get("requests") if isinstance(document, dict) else None
        if not isinstance(requests, list):
            raise row.error("no session", 'write {"block_size": 64, "requests": [...]}')
        if document.get("block_size", TOKENS_PER_ID) != TOKENS_PER_ID:
            raise row.error("block_size is not 64", "hash_ids of 64 tokens each are read")
        found = sorted(_flat(row, requests), key=lambda one: float(one[1]["t"]))
        if found:
            yield session(_numbered(row, found, units))


def _flat(row: Line, requests: list[Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each request with the number of its agent: 0 is the session's own."""
    agents = 0
    pending = [(0, one) for one in reversed(requests)]
    while pending:
        agent, one = pending.pop()
        if isinstance(one, dict) and one.get("type") == "subagent":
            agents += 1
            inner = one.get("requests")
            if not isinstance(inner, list):
                raise row.error("a subagent without requests", 'add "requests": [...]')
            pending += [(agents, each) for each in reversed(inner)]
            continue
        if not isinstance(one, dict) or not {"t", "in", "out"} <= one.keys():
            raise row.error("a request without t, in or out", f"a request is {_PUBLISHED}")
        _check(row, one["in"], one["out"], one["t"], one.get("api_time"), one.get("think_time"))
        yield agent, one


def _numbered(row: Line, found: list[tuple[int, dict[str, Any]]], units: Units) -> Iterator[Sent]:
    """Requests with the longest prefix that an earlier one of the session has too."""
    tree: dict[tuple[int, int], tuple[int, int]] = {}
    """From a node and the id that follows to the next node, and the first request through it."""
    contents: list[Content] = []
    for place, (agent, one) in enumerate(found):
        tokens, ids = one["in"], one.get("hash_ids", [])
        if not isinstance(ids, list) or not all(type(id) is int for id in ids):
            raise row.error("hash_ids is no list of ids", f"a request is {_PUBLISHED}")
        ids = ids[: tokens // TOKENS_PER_ID]
        node, parent, lcp = 0, None, 0
        for id in ids:
            known = tree.get((node, id))
            if known is None:
                node = tree.setdefault((node, id), (len(tree) + 1, place))[0]
            else:
                node, parent, lcp = known[0], known[1], lcp + 1
        prefix = () if parent is None else contents[parent].runs
        contents.append(units.content(tokens, prefix, lcp))
        yield Sent(
            agent=agent,
            t=float(one["t"]),
            took=float(one.get("api_time") or 0),
            think=None if one.get("think_time") is None else float(one["think_time"]),
            parent=parent,
            content=contents[-1],
            output_length=scaled(max(1, one["out"]), units.scale),
        )
