"""What scopes have to reach in which requests wait for something else than their turn."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.fields import CONTINUE, PREEMPTED
from nullblock.spec.kernel import State
from nullblock.spec.remote import awaits_load, is_unsure
from nullblock.spec.state import check_stop
from nullblock.spec.waiting import is_skipped, lacks, takes_place

WAIT_WITNESSES: dict[str, str] = {
    "no-place": "a request is passed over because its adapter has no place",
    "shares-place": "a request is admitted whose adapter another one runs with",
    "preempted-passed-over": "a preempted request is passed over",
    "overtakes-preempted": "a request that was skipped overtakes one that was preempted",
    "grammar-awaited": "a request is passed over because its grammar is not compiled",
    "compiled-and-passed-over": "a request's grammar is compiled, its adapter has no place",
    "finish-skipped": "a request finishes in the skipped queue",
    "ends-by-grammar": "a grammar rejects a token, and its request ends",
}


class WaitWatch:
    """Notes them."""

    reached: set[str]

    def wait_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of waiting."""
        return {"WAIT-45": self.passed_by}

    def passed_by(self, s: State) -> None:
        """WAIT-45: a request is passed over."""
        for r in s.passed:
            if lacks(s, r):
                if awaits_load(s, r):
                    self.reached.add("load-awaited")
                else:
                    self.reached.add("grammar-awaited")
            elif is_unsure(s, r):
                self.reached.add("remote-unsure")
            else:
                self.reached.add("no-place")
                if s.stage[r] == PREEMPTED:
                    self.reached.add("preempted-passed-over")
                elif s.k.grammar(r):
                    self.reached.add("compiled-and-passed-over")

    def admitted_from_queues(self, s: State, r: Any) -> None:
        """WAIT-9: a request runs."""
        number = s.k.adapter(r)
        if any(q != r and takes_place(s, q) and s.k.adapter(q) == number for q in s.k.requests):
            self.reached.add("shares-place")
        if not s.k.priority and any(
            s.stage[q] == PREEMPTED and not is_skipped(s, q) for q in s.k.requests
        ):
            self.reached.add("overtakes-preempted")

    def took_token_waiting(self, s: State, r: Any) -> None:
        """UPD-3: a request takes a token."""
        if is_skipped(s, r) and check_stop(s, r) != CONTINUE:
            self.reached.add("finish-skipped")
