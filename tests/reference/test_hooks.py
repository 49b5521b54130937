"""What schedulers override: called with vLLM 0.22.1's names and arguments, and returning its."""

from types import SimpleNamespace
from typing import Any

import pytest
from strict_scheduler import Strict, StrictAhead, add, build, update

from nullblock.reference import block_tables
from nullblock.reference.kv_cache_interface import MambaSpec
from nullblock.reference.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from nullblock.reference.outputs import KVConnectorOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.spec_decode import PlacedSpecDecodingStats, SpecDecodingStats
from nullblock.spec.profiles import VLLM_0_32_0


@pytest.mark.parametrize("kind", [Strict, StrictAhead])
def test_hooks_of_a_request_s_life(kind: type[Strict]) -> None:
    """Admitted, preempted by a reset, resumed, ended: each hook with 0.22.1's arguments."""
    scheduler = build(kind)
    add(scheduler, "a", max_tokens=2)
    update(scheduler, scheduler.schedule())
    assert scheduler.told("update") == [("a", [7])]
    assert scheduler.told("cached") == [([], [], {"a": 6}, {"a": ([1, 2],)})]
    scheduler.reset_prefix_cache(reset_running_requests=True)
    assert scheduler.told("preempt") == [("a",)]
    update(scheduler, scheduler.schedule())
    assert scheduler.told("cached")[1][:3] == ([], ["a"], {"a": 7})
    assert scheduler.told("connector finished") == [("a",)]
    assert scheduler.told("free") == [("a", (), {})]
    add(scheduler, "b")
    scheduler.finish_requests("b", RequestStatus.FINISHED_ABORTED)
    assert scheduler.told("free")[1] == ("b", (), {"delay_free_blocks": False})
    assert scheduler.told("stats") == [((None, None, None, None),)] * 2


def test_a_later_line_is_told_whether_an_output_is_stale() -> None:
    """By name, as 0.32.0 calls it; and a reset says that what is in flight is dropped."""
    calls: list[Any] = []

    class Later(AsyncScheduler):
        def _update_request_with_output(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(kwargs)
            return super()._update_request_with_output(*args, **kwargs)

        def _preempt_request(self, *args: Any, **kwargs: Any) -> None:
            calls.append(kwargs)
            super()._preempt_request(*args, **kwargs)

    scheduler = build(Later, options={"semantics": VLLM_0_32_0})
    add(scheduler, "a")
    update(scheduler, scheduler.schedule())
    scheduler.reset_prefix_cache(reset_running_requests=True)
    assert calls == [{"is_stale": False}, {"drop_stale_output": True}]


def test_which_statuses_block() -> None:
    """Those of requests that wait for something else than room; whoever waits is asked."""
    blocked = {s.name for s in RequestStatus if Scheduler._is_blocked_waiting_status(s)}
    assert blocked == {
        "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
        "WAITING_FOR_REMOTE_KVS",
        "WAITING_FOR_STREAMING_REQ",
    }

    class Closed(Scheduler):
        @staticmethod
        def _is_blocked_waiting_status(status: RequestStatus) -> bool:
            return status == RequestStatus.WAITING

        def _try_promote_blocked_waiting_request(self, request: Request) -> bool:
            return False

    scheduler = build(Closed)
    add(scheduler, "a")
    assert not scheduler.schedule().num_scheduled_tokens and len(scheduler.skipped_waiting) == 1


def test_a_split_is_asked_with_what_was_hit() -> None:
    """New tokens first, then the hit and the load of an admission; running, neither."""
    spec = MambaSpec(block_size=4, shapes=((1,),), dtypes=(None,), mamba_cache_mode="align")
    scheduler = build(spec=spec, max_num_batched_tokens=8)
    add(scheduler, "a", 14)
    for _ in range(2):
        update(scheduler, scheduler.schedule())
    assert scheduler.told("split") == [("a", 8, 0, 0), ("a", 6, 0, 0)]
    add(scheduler, "b", 14)
    update(scheduler, scheduler.schedule())
    assert scheduler.told("split")[2:] == [("a", 2, 0, 0), ("b", 2, 12, 0)]


def test_a_request_served_by_what_is_in_flight_is_not_looked_at() -> None:
    """No hook is called for one that is passed over."""
    spec = MambaSpec(block_size=4, shapes=((1,),), dtypes=(None,), mamba_cache_mode="align")
    scheduler = build(StrictAhead, spec)
    add(scheduler, "a", 3, max_tokens=1)
    scheduler.schedule()
    scheduler.schedule()
    assert len(scheduler.told("split")) == 1


def test_encoder_inputs_are_decided_on_in_one_call() -> None:
    """Computed tokens, new tokens, budget, shift; items, tokens, budget, items to load."""
    scheduler = build()
    scheduler.max_num_encoder_input_tokens = 9
    scheduler.encoder_cache_manager.cache_size = 16
    scheduler.encoder_cache_manager.reset()
    items = [
        MultiModalFeatureSpec(None, "image", name, PlaceholderRange(start, 3))
        for name, start in (("x", 1), ("y", 6), ("x", 9), ("z", 13))
    ]
    add(scheduler, "a", 17, mm_features=items)
    out = scheduler.schedule()
    assert scheduler.told("encoder") == [("a", (0, 17, 9, 0), ([0, 1, 3], 17, 0, []))]
    assert out.scheduled_encoder_inputs == {"a": [0, 1, 3]}


class Connector:
    """Loads eight tokens at once, and tells workers what they are to do."""

    stats: Any = None

    def get_num_new_matched_tokens(self, request: Request, local: int) -> tuple[int, bool]:
        return 8 - local, False

    def update_state_after_alloc(self, request: Request, blocks: Any, num: int) -> None:
        pass

    def build_connector_meta(self, scheduler_output: Any) -> str:
        return "meta"

    def request_finished(self, request: Request, block_ids: list[int]) -> tuple[bool, Any]:
        return False, None

    def update_connector_output(self, output: KVConnectorOutput) -> None:
        pass

    def on_new_request(self, request: Request) -> None:
        pass

    def take_events(self) -> None:
        return None

    def get_kv_connector_stats(self) -> Any:
        return self.stats


def test_hooks_about_a_connector() -> None:
    """What workers are told of loads, and who lacks what was not loaded."""
    scheduler = build()
    scheduler.connector = Connector()
    add(scheduler, "a", 14)
    out = scheduler.schedule()
    assert scheduler.told("meta") == [(True, None)] and out.kv_connector_metadata == "meta"
    report = KVConnectorOutput(invalid_block_ids={2})
    update(scheduler, out, [[7]], kv_connector_output=report)
    nobody: tuple[set[str], int, set[int]] = (set(), 0, set())
    assert scheduler.told("invalid") == [(False, nobody), (True, ({"a"}, 4, {2, 3, 4}))]
    assert scheduler.requests["a"].num_computed_tokens == 4


def test_a_connector_may_have_no_events() -> None:
    """None is as good as nothing."""
    scheduler = build()
    scheduler.connector = Connector()
    add(scheduler, "a", 14)
    assert update(scheduler, scheduler.schedule())[0].outputs[0].new_token_ids == [7]


def test_drafts_are_counted_by_a_hook() -> None:
    """It begins the count of an update, leaves out padding, and counts nothing without
    statistics.
    """
    counted: list[Any] = []

    class Counting(Strict):
        def make_spec_decoding_stats(self, *args: Any, **kwargs: Any) -> Any:
            counted.append((args, kwargs))
            return super().make_spec_decoding_stats(*args, **kwargs)

    for log_stats in (False, True):
        scheduler = build(Counting, options={"log_stats": log_stats})
        scheduler.num_spec_tokens = 2
        add(scheduler, "a")
        update(scheduler, scheduler.schedule())
        scheduler.requests["a"].spec_token_ids = [8, 9]
        scheduler._has_drafts = True
        out = scheduler.schedule()
        out.num_invalid_spec_tokens = {"a": 1}
        outputs = update(scheduler, out, [[8, 7]])
        named = {
            "num_draft_tokens": 2,
            "num_accepted_tokens": 1,
            "num_invalid_spec_tokens": {"a": 1},
            "request_id": "a",
        }
        assert counted.pop() == ((None,), named)
    stats = outputs[0].scheduler_stats.spec_decoding_stats
    assert vars(stats) == vars(SpecDecodingStats(2, 1, 1, 1, [1, 0]))
    assert scheduler.told("stats")[-1][0][0] is stats


def test_a_later_line_counts_drafts_by_place() -> None:
    """What was proposed, too."""
    stats = PlacedSpecDecodingStats.new(3)
    for num_drafts, num_accepted in ((2, 1), (1, 1)):
        stats.observe_draft(num_drafts, num_accepted)
    assert stats == PlacedSpecDecodingStats(3, 2, 3, 2, [2, 0, 0], [2, 1, 0])
    assert PlacedSpecDecodingStats.new(3).num_draft_tokens_per_pos == [0, 0, 0]


class Counted:
    """What one side of a connector has counted."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def aggregate(self, other: "Counted") -> "Counted":
        return Counted({**self.data, **other.data})


def test_statistics_of_workers_are_passed_on() -> None:
    """Those of both sides of a connector, those of graphs, and logits that are no numbers."""
    scheduler = build(options={"log_stats": True})
    scheduler.connector = Connector()
    scheduler.connector.stats = Counted({"own": 1})
    add(scheduler, "a", 14)
    report = KVConnectorOutput(kv_connector_stats=Counted({"worker": 2}))
    told = {"kv_connector_output": report, "cudagraph_stats": "graphs"}
    outputs = update(scheduler, scheduler.schedule(), num_nans_in_logits={"a": 3, "b": 4}, **told)
    stats = outputs[0].scheduler_stats
    assert (stats.kv_connector_stats, stats.cudagraph_stats) == ({"own": 1, "worker": 2}, "graphs")
    assert (stats.perf_stats, stats.kv_cache_eviction_events) == (None, [])
    assert stats.waiting_lora_adapters == stats.running_lora_adapters == {}
    assert outputs[0].outputs[0].num_nans_in_logits == 3
    # As in vLLM, a request goes on telling what was found last.
    assert update(scheduler, scheduler.schedule())[0].outputs[0].num_nans_in_logits == 3


def test_statistics_are_made_of_what_is_given() -> None:
    """Also by somebody else than an update."""
    drafts = SpecDecodingStats.new(2)
    stats = build(options={"log_stats": True}).make_stats(drafts, Counted({"n": 1}), "g", "p")
    assert stats.spec_decoding_stats is drafts and stats.kv_connector_stats == {"n": 1}
    assert (stats.cudagraph_stats, stats.perf_stats) == ("g", "p")
    assert build().make_stats(drafts, None, None, None) is None


def test_every_request_with_tokens_asks_whether_its_grammar_advances() -> None:
    """Also one without a grammar; but none that got no token."""
    scheduler, asked = build(max_num_batched_tokens=8), list[str]()

    def should_advance(request: Request) -> bool:
        asked.append(request.request_id)
        return False

    scheduler.structured_output_manager = SimpleNamespace(should_advance=should_advance)
    add(scheduler, "a", 4)
    add(scheduler, "b", 9)
    update(scheduler, scheduler.schedule())
    assert asked == ["a"]


def test_the_first_line_frees_blocks_at_once() -> None:
    """Whatever somebody has set that it knows nothing of."""
    for line, kept in ((None, 0), (VLLM_0_32_0, 2)):
        scheduler = build(AsyncScheduler, options={"semantics": line})
        scheduler.defer_block_free = True
        add(scheduler, "a")
        scheduler.schedule()
        scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED)
        assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 31 - kept


def test_new_blocks_are_told_whatever_the_layers() -> None:
    """Without Mamba layers nobody zeroes them, and whoever asks is told all the same."""
    scheduler = build()
    add(scheduler, "a")
    scheduler.schedule()
    assert scheduler.kv_cache_manager.take_new_block_ids() == [1, 2]
    assert scheduler.kv_cache_manager.take_new_block_ids() == []


def test_ids_that_nobody_takes_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those taken last are."""
    monkeypatch.setattr(block_tables, "MOST_UNTAKEN", 3)
    scheduler = build()
    for name in ("a", "b", "c"):
        add(scheduler, name)
    scheduler.schedule()
    assert scheduler.kv_cache_manager.take_new_block_ids() == [2, 3, 4]
