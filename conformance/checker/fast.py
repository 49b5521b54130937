"""The machine in its erased form, and whole steps compared at once.

What is judged, and how a mismatch is explained, is said in `decisions` and `observations`; here
is only how to see quickly that there is nothing to explain.
"""

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from itertools import compress
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import decisions
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.names import Same
from nullblock.conformance.checker.remote import in_doubt, lost
from nullblock.conformance.trace.records import (
    CachedRequests,
    Groups,
    NewRequest,
    PostState,
    Schedule,
    Update,
)
from nullblock.spec.erased.kept import is_kept, kept, made_of
from nullblock.spec.erased.program import Erased
from nullblock.spec.erased.rows import Rows
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.machine.drafts import offer
from nullblock.spec.machine.events import add
from nullblock.spec.machine.output import CachedRequest, SchedulerOutput
from nullblock.spec.machine.remote import received, sent
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.state import live

CACHED = tuple(f.name for f in fields(CachedRequest))
AFTER = 3_000
"""Rules that fire in steps decided as the text says before it is worth the while to erase it: a
short trace is judged sooner without. Rules and not requests, as each block of a long prompt is
work: some ten rules of short requests, hundreds of one with a long document.
"""
LOOKS = 7 / 8
"""How much of that is left when a form is looked for that an earlier run has kept."""


class Machine:
    """`schedule` and `update_from_output` for the states of one environment.

    Erased, they count the rules that fire themselves; as they are, they leave that to
    `Engines.after_rule`.
    """

    def __init__(self, k: Any, *, plain: bool = False) -> None:
        """`plain`: the text stays as it is."""
        self.k = k
        self.erased = False
        """Whether the erased form is what runs."""
        self.left: float = math.inf if plain else AFTER
        """Rules that may still fire before it is erased."""
        self._looks = self.left * LOOKS
        """At how many rules left to fire it looks for a form of an earlier run."""
        self._made = ""
        """What the forms are made of."""
        self._forms: dict[Any, Erased] = {}
        """Of all functions but `schedule`."""

    def erase(self) -> None:
        """From now on the erased form, if the text has one."""
        self.left, self._looks = math.inf, 0
        made = self._made or made_of(FORMS, self.k)
        try:
            self._schedule = kept(schedule, self.k, made)
        except Unsupported:
            return
        self.erased = True
        asked = {offered: self.k.drafts, received: self.k.connector, sent: self.k.connector}
        for f in (f for f in FORMS[1:] if asked.get(f, True)):
            with suppress(Unsupported):
                self._forms[f] = kept(f, self.k, made, each=f is offered)

    def look(self) -> None:
        """Erase it now if an earlier run has kept the form."""
        self._looks, self._made = 0, made_of(FORMS, self.k)
        if is_kept(schedule, self.k, self._made):
            self.erase()

    def as_written(self) -> None:
        """From now on the text as it is."""
        self.left, self._looks, self.erased = math.inf, 0, False

    def schedule(self, s: Any, fired: Counter[str]) -> Any:
        """One step. Raises what the text raises."""
        if self.left < self._looks:
            self.look()
        if not self.erased:
            if self.left > 0:
                before = fired.total()
                out = schedule(s)
                self.left -= fired.total() - before
                return out
            self.erase()
            return self.schedule(s, fired)
        if in_doubt(self.k):
            out = schedule(s)
            self.k.make_room(s)
            return out
        held_back = fired.get("WAIT-8", 0)
        try:
            return self._schedule(s, fired)
        finally:
            self.k.held_back = fired.get("WAIT-8", 0) > held_back

    def update(self, s: Any, fired: Counter[str]) -> None:
        """The oldest frame. Raises what the text raises. Where a grammar rejects what drafts are
        part of, the text runs as it is: the erased form does not say how far an output has come.
        """
        if self.k.drafts and self.k.rejected:
            update_from_output(s)
        else:
            self.do(update_from_output, s, fired)

    def offer(self, s: Any, ids: list[int], counts: list[int], fired: Counter[str]) -> None:
        """Drafts that are proposed for requests. Raises what the text raises."""
        if self.erased and offered in self._forms:
            self._forms[offered](s, fired, zip(ids, counts, strict=True))
            return
        for r, n in zip(ids, counts, strict=True):
            offered(s, r, n)

    def do(self, f: Callable[..., Any], s: Any, fired: Counter[str], *args: Any) -> Any:
        """What another function of the machine does. Raises what the text raises."""
        form = self._forms.get(f) if self.erased else None
        return f(s, *args) if form is None else form(s, fired, *args)


def offered(s: Any, r: Any, n: Any) -> None:
    """Drafts that are proposed for a request, which may be gone."""
    if r in s.k.requests and live(s, r):
        offer(s, r, n)


FORMS = (schedule, update_from_output, offered, add, received, sent)
"""What is erased."""


def passed_on_alike(k: Recorded, seen: Update) -> bool:
    """Whether a recorded update is plainly the rules' own: nobody ends, a token for each."""
    if k.refused or k.ends or seen.finish or seen.turns or k.taken != seen.ids or lost(k):
        return False
    return k.passed_on() == seen.tokens


def left_alike(s: Any, seen: PostState | UnsetType) -> bool:
    """Whether the counts that a decision carries are the rules' own, and it carries no more."""
    if isinstance(seen, UnsetType):
        return True
    if seen.num_free != s.nfree or seen.num_running != s.nr or seen.num_waiting != s.nwait:
        return False
    return seen.running is UNSET and seen.waiting is UNSET


def alike(out: SchedulerOutput, seen: Schedule, same: Same, k: Recorded) -> bool:
    """Whether a recorded step is plainly the rules' own. If not, `decisions` has the word."""
    several = k.several
    order, new, cached = out.num_scheduled_tokens, out.new, out.cached
    if not (isinstance(order, Rows) and isinstance(new, Rows) and isinstance(cached, Rows)):
        return False
    ids, tokens = order.lists
    if ids != seen.ids or tokens != seen.tokens:
        return False
    for ours, theirs in ((out.preempted, seen.preempted), (out.finished, seen.finished)):
        if (ours or theirs) and sorted(ours) != theirs:
            return False
    drafts = out.num_draft_tokens
    if not isinstance(drafts, Rows) or list(zip(*drafts.lists, strict=True)) != seen.drafts:
        return False
    if k.mamba and not decisions.zeroes_alike(out, seen, k, same):
        return False
    prefix = seen.common_prefix
    if prefix is not UNSET and prefix != out.common_prefixes:
        return False
    if (seen.new or len(new)) and not _new_alike(new.columns, seen.new, same, several):
        return False
    if seen.cached is UNSET:
        return not len(cached)
    return _cached_alike(cached, seen.cached, same, several)


def _new_alike(
    new: dict[str, list[Any]], seen: list[NewRequest], same: Same, several: bool
) -> bool:
    if new["id"] != [q.id for q in seen] or new["computed"] != [q.computed for q in seen]:
        return False
    if any(q.prefill not in (UNSET, n) for q, n in zip(seen, new["prefill"], strict=True)):
        return False
    return all(
        q.blocks is UNSET or _blocks_alike(blocks, q.blocks, same, several)
        for q, blocks in zip(seen, new["blocks"], strict=True)
    )


def _blocks_alike(ours: Any, groups: Groups, same: Same, several: bool) -> bool:
    """Whether a request's blocks are the recorded ones; of several groups a tuple for each."""
    if not several:
        return len(groups) == 1 and same(ours, groups[0])
    return decisions.alike(ours, groups, same)


def _cached_alike(cached: Rows, seen: CachedRequests, same: Same, several: bool) -> bool:
    ids, blocks, computed, outputs, resumed, again = cached.lists
    if cached.names != CACHED or ids != seen.ids:
        return False
    if seen.computed is not UNSET and computed != seen.computed:
        return False
    if seen.num_output is not UNSET and outputs != seen.num_output:
        return False
    known = [r for r, yes in zip(ids, resumed, strict=True) if yes] if True in resumed else []
    if known != seen.resumed:
        return False
    if seen.all_tokens is not UNSET:
        told = again.count(None) == len(again)
        sent = [] if told else [(r, n) for r, n in zip(ids, again, strict=True) if n is not None]
        if sent != seen.all_tokens:
            return False
    if seen.blocks is UNSET:
        return True
    some = map(any, blocks) if several else blocks
    given = list(compress(zip(ids, blocks, strict=True), some))
    if len(given) != len(seen.blocks):
        return False
    for (r, ours), (q, groups) in zip(given, seen.blocks, strict=True):
        if r != q or not _blocks_alike(ours, groups, same, several):
            return False
    return True
