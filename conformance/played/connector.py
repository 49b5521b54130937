"""A KV connector with nothing behind it: it answers as a scenario's ``connector`` says."""

from collections.abc import Collection
from typing import Any

MOST_GROUPS = 64
"""More than a model here has."""


class PlayedConnector:
    """The scheduler's side of a KV connector.

    Args:
        scripted: the scenario's ``connector``. ``matched`` maps request ids to the tokens that the
            remote side holds (None: it does not know yet); ``async`` says who loads over several
            steps, ``delay_free`` whose blocks stay after the end until they are sent.
    """

    def __init__(self, scripted: dict[str, Any]) -> None:
        self.supports_divergent_local_hybrid_hits = False
        """Later releases ask whether it loads what only some groups lack."""
        self.matched: dict[str, int | None] = dict(scripted.get("matched", {}))
        self.loads_async: bool | Collection[str] = scripted.get("async", False)
        self.delays_free: bool | Collection[str] = scripted.get("delay_free", False)

    def get_num_new_matched_tokens(self, request: Any, num_local: int) -> tuple[int | None, bool]:
        """Tokens to load beyond the local hit, and whether that takes more than this step."""
        matched = self.matched.get(request.request_id, 0)
        if matched is None:
            return None, False
        is_async = _applies(self.loads_async, request.request_id)
        # A load within the step has to leave one token to compute.
        most = request.num_tokens if is_async else request.num_tokens - 1
        num_external = max(0, min(matched, most) - num_local)
        return num_external, is_async and num_external > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external: int) -> None:
        """A load begins: it is offered only once."""
        if num_external:
            self.matched.pop(request.request_id, None)

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        """Whether the blocks have to stay until they are sent."""
        return _applies(self.delays_free, request.request_id), None

    def on_new_request(self, request: Any) -> None:
        """Nothing to prepare."""

    def build_connector_meta(self, scheduler_output: Any) -> None:
        """Nothing to tell the workers."""

    def update_connector_output(self, output: Any) -> None:
        """Nothing to keep."""

    def take_events(self) -> tuple[()]:
        """No events of its own."""
        return ()

    def get_kv_connector_stats(self) -> None:
        """No statistics."""

    def reset_cache(self) -> bool:
        """Nothing is cached here."""
        return True

    def has_pending_block_frees(self) -> bool:
        """Whether blocks come free without a preemption; later releases ask, as below."""
        return False

    def has_pending_push_work(self) -> bool:
        """Whether it has work without any request."""
        return False

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        """The groups whose blocks a load writes to, so that they are not to be zeroed."""
        return (0,)

    def get_external_cache_hit_sources(self, request: Any, num_tokens: int) -> None:
        """Statistics, of which it has none."""

    def shutdown(self) -> None:
        """Nothing to release."""


class AllGroupsConnector(PlayedConnector):
    """One that takes the blocks of every cache group, and not of one alone."""

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, None]:
        """Whether the blocks have to stay until they are sent."""
        return self.request_finished(request, block_ids)

    def get_loaded_kv_cache_group_ids(self, request: Any) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(MOST_GROUPS))


def make_connector(scripted: dict[str, Any]) -> PlayedConnector:
    """The connector of a scenario."""
    kind = AllGroupsConnector if scripted.get("all_groups") else PlayedConnector
    return kind(scripted)


def _applies(whom: bool | Collection[str], id: str) -> bool:
    return whom if isinstance(whom, bool) else id in whom
