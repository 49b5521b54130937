"""Plays a scenario on the reference while it is made, and says what is possible next."""

from typing import Any

from nullblock.conformance.adapters.reference import create
from nullblock.conformance.driver import EngineRaised, Player
from nullblock.conformance.errors import InputError
from nullblock.conformance.scenario import from_dict
from nullblock.reference.request import Request, RequestStatus
from nullblock.spec.profiles import VLLM_0_22_1

Event = dict[str, Any]


class Play:
    """The events so far, and the state that they lead to."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.config = document["config"]
        taken = from_dict(document)
        self.engine: Any = create(taken.config, VLLM_0_22_1)
        self.player = Player(taken, self.engine, "none")
        self.events: list[Event] = []
        self.is_over = False
        """Whether the engine has raised: whatever follows does not count."""

    def take(self, event: Event) -> bool:
        """Play one event more; whether another one may follow."""
        if self.is_over:
            return False
        try:
            decoded = from_dict({"config": self.config, "events": [event]}).events[0]
            for _ in self.player.take(decoded, len(self.events)):
                pass
        except InputError:
            return True
        except EngineRaised:
            self.is_over = True
        self.events.append(event)
        return not self.is_over

    @property
    def requests(self) -> dict[str, Request]:
        """Those that the engine knows, by id."""
        found: dict[str, Request] = self.engine.scheduler.requests
        return found

    def known(self) -> list[str]:
        """Ids of requests that have not ended."""
        return [id for id, request in self.requests.items() if not request.is_finished()]

    def loading(self) -> list[str]:
        """Ids of requests whose load has not ended."""
        waits = RequestStatus.WAITING_FOR_REMOTE_KVS
        ended = self.engine.scheduler.finished_recving_kv_req_ids
        return [id for id, r in self.requests.items() if r.status == waits and id not in ended]

    def kept(self) -> list[str]:
        """Ids of requests that have ended, and whose blocks are kept."""
        return [id for id, request in self.requests.items() if request.is_finished()]

    def sessions(self) -> list[str]:
        """Ids of sessions."""
        return [id for id in self.known() if self.requests[id].streaming_queue is not None]

    def tables(self) -> list[list[int]]:
        """Block tables of requests that run or load, those that load twice."""
        manager = self.engine.scheduler.kv_cache_manager
        runs = [request.request_id for request in self.engine.scheduler.running]
        return [manager.get_block_ids(id)[0] for id in runs + self.loading() * 2]

    def blocks_are_kept(self) -> bool:
        """Whether requests that do not run hold blocks, so that a reset of the cache fails."""
        tables = self.engine.scheduler.kv_cache_manager.coordinator.single_type_managers
        runs = {request.request_id for request in self.engine.scheduler.running}
        return any(set(one.req_to_blocks) - runs for one in tables)
