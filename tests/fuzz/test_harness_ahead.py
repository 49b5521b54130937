"""The fuzzer beside the real engine: it notices each of these defects in what is in flight."""

from collections.abc import Callable
from typing import Any

import pytest
from fuzz import lockstep
from oracle.client import Oracle

from nullblock.conformance.lockstep.generator import seeded
from nullblock.reference.block_pool import BlockPool
from nullblock.reference.kv_cache_manager import KVCacheManager
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.update_phase import UpdatePhase

Method = Callable[..., Any]
MOST = 120
"""Of so many scenarios one at least shows each defect."""


def _no_frame_dropped(discard: Method) -> Method:
    """A reset leaves what is in flight to be taken."""
    return lambda self, request: None


def _discards_add_up(discard: Method) -> Method:
    """The normative way, which is not the release's."""

    def patched(self: AsyncScheduler, request: Request) -> None:
        before = request.async_tokens_to_discard
        discard(self, request)
        request.async_tokens_to_discard += before

    return patched


def _never_passed_over(is_served: Method) -> Method:
    """A step is scheduled for nothing."""
    return lambda self, request: False


def _counts_frames(is_served: Method) -> Method:
    """The normative way, which is not the release's."""

    def patched(self: RunningPhase, request: Request) -> bool:
        in_flight = request.num_output_tokens + request.num_output_placeholders
        return in_flight >= request.max_tokens

    return patched


def _preempted_lose_their_output(update: Method) -> Method:
    """An output for a preempted request is dropped."""

    def patched(self: AsyncScheduler, request: Request, tokens: list[int]) -> Any:
        if request.status == RequestStatus.PREEMPTED:
            request.num_output_placeholders -= 1
            return [], False
        return update(self, request, tokens)

    return patched


def _cached_by_the_next_step(cache: Method) -> Method:
    """As a synchronous scheduler does: nothing is cached by an update."""
    return lambda self, request, num_computed_tokens: None


def _outputs_known_only(count: Method) -> Method:
    """Workers are not told of outputs in flight."""
    return lambda self, requests: [request.num_output_tokens for request in requests]


def _told_of_stages_ahead(told: Method) -> Method:
    """Stages are never told what was sampled."""
    return lambda self, step, requests: []


def _no_parent_told(tell: Method) -> Method:
    """A stored range has no parent."""

    def patched(self: BlockPool, *args: Any) -> None:
        tell(self, *args)
        self.kv_event_queue[-1].parent_block_hash = None  # type: ignore[union-attr]

    return patched


def _told_in_any_order(take: Method) -> Method:
    """Events leave last first."""
    return lambda self: list(reversed(take(self)))


def _published_at_once(publish: Method) -> Method:
    """A batch is lost when nothing was sampled."""

    def patched(self: UpdatePhase) -> None:
        if self.running:
            publish(self)
        else:
            self.kv_cache_manager.take_events()

    return patched


DEFECTS: list[tuple[type, str, Callable[[Method], Method]]] = [
    (AsyncScheduler, "_discard_outputs_in_flight", _no_frame_dropped),
    (AsyncScheduler, "_discard_outputs_in_flight", _discards_add_up),
    (RunningPhase, "_is_served_by_steps_in_flight", _never_passed_over),
    (RunningPhase, "_is_served_by_steps_in_flight", _counts_frames),
    (AsyncScheduler, "_update_request_with_output", _preempted_lose_their_output),
    (KVCacheManager, "cache_blocks", _cached_by_the_next_step),
    (OutputPhase, "_num_output_tokens", _outputs_known_only),
    (OutputPhase, "_scheduled_token_ids", _told_of_stages_ahead),
    (BlockPool, "_tell_stored", _no_parent_told),
    (BlockPool, "take_events", _told_in_any_order),
    (UpdatePhase, "_publish_kv_cache_events", _published_at_once),
]


@pytest.fixture(scope="module")
def real(oracle: Oracle) -> dict[int, list[str]]:
    """What the real engine prints, by scenario, as far as it was asked."""
    return {}


def is_noticed(number: int, oracle: Oracle, real: dict[int, list[str]]) -> bool:
    """Whether the reference, as it is now, parts from the real engine in that scenario."""
    scenario = seeded(f"ahead:{number}")
    if number not in real:
        real[number] = oracle.lines(scenario)
    ours = lockstep.lines_of("reference", scenario)
    return bool(lockstep.difference(real[number], ours, bytewise=True))


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("owner", "name", "defect"), DEFECTS, ids=[d.__name__[1:] for _, _, d in DEFECTS]
)
def test_a_defect_in_what_is_in_flight_is_noticed(
    owner: type,
    name: str,
    defect: Callable[[Method], Method],
    oracle: Oracle,
    real: dict[int, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside the real engine a few scenarios are enough."""
    monkeypatch.setattr(owner, name, defect(getattr(owner, name)))
    assert any(is_noticed(number, oracle, real) for number in range(MOST))


@pytest.mark.oracle
def test_without_a_defect_nothing_is_noticed(oracle: Oracle, real: dict[int, list[str]]) -> None:
    """The same scenarios show no difference as long as nothing is patched."""
    assert not any(is_noticed(number, oracle, real) for number in range(30))
