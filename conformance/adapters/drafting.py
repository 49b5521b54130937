"""Drafts for a scheduler of vLLM's shape."""

from collections import deque
from typing import Any

from nullblock.conformance.adapters.shape import Modules
from nullblock.conformance.drafting import Drafted
from nullblock.conformance.engine import Fields


class TakesDrafts:
    """Implements what :class:`nullblock.conformance.drafting.Drafting` adds to an engine."""

    scheduler: Any
    modules: Modules
    in_flight: deque[Any]
    """Outputs of the steps in flight, the newest last."""
    counted: Fields | None = None
    """What the last update counted of drafts."""

    def propose(self, drafts: Drafted) -> None:
        """Take drafts for the steps to come."""
        self.scheduler.update_draft_token_ids(self._as_told(drafts))

    def fill_in(self, drafts: Drafted) -> Fields:
        """Write drafts into the newest step in flight."""
        newest = self.in_flight[-1]
        self.scheduler.update_draft_token_ids_in_output(self._as_told(drafts), newest)
        return {
            "spec": dict(newest.scheduled_spec_decode_tokens),
            "invalid": newest.num_invalid_spec_tokens,
        }

    def spec_stats(self) -> Fields | None:
        """What the last update counted."""
        return self.counted

    def count(self, by_client: Any) -> None:
        """Note what an update counted."""
        self.counted = None
        for outputs in by_client.values():
            stats = getattr(outputs.scheduler_stats, "spec_decoding_stats", None)
            if stats:
                told = vars(stats).items()
                self.counted = {name: n for name, n in told if n is not None}

    def _as_told(self, drafts: Drafted) -> Any:
        return self.modules.outputs.DraftTokenIds(list(drafts), list(drafts.values()))
