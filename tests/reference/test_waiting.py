"""Requests that wait, by the scheduler's own interface: what no line of a scenario shows."""

import sys
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_shaped_driver import DEFAULTS, vllm_config

from nullblock.reference import kv_cache_utils
from nullblock.reference.engine import FinishReason
from nullblock.reference.hashing import sha256
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from nullblock.reference.kv_connector import KVConnectorFactory, KVConnectorRole
from nullblock.reference.kv_events import AllBlocksCleared
from nullblock.reference.outputs import KVConnectorOutput, ModelRunnerOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sampling_params import SamplingParams, StructuredOutputsParams
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.stats import PrefixCacheStats
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

kv_cache_utils.init_none_hash(sha256)
HASHER = kv_cache_utils.get_request_block_hasher(4, sha256)


class Connector:
    """Loads eight tokens of everybody's, and notes what it is told."""

    def __init__(self, config: Any, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        self.role = role
        self.told: list[Any] = []
        self.pool: Any = None
        self.resets: bool | None = True

    def bind_gpu_block_pool(self, pool: Any) -> None:
        self.pool = pool

    def on_new_request(self, request: Request) -> None:
        self.told.append(("new", request.request_id))

    def get_num_new_matched_tokens(self, request: Request, local: int) -> tuple[int, bool]:
        return 8 - local, False

    def update_state_after_alloc(self, request: Request, blocks: Any, num: int) -> None:
        self.told.append(("allocated", blocks.get_block_ids(), num))

    def build_connector_meta(self, scheduler_output: Any) -> str:
        return f"meta of {list(scheduler_output.num_scheduled_tokens)}"

    def request_finished(self, request: Request, block_ids: list[int]) -> tuple[bool, Any]:
        return True, {"from": block_ids}

    def update_connector_output(self, output: KVConnectorOutput) -> None:
        self.told.append(("report", output.finished_sending))

    def take_events(self) -> list[AllBlocksCleared]:
        return [AllBlocksCleared()]

    def reset_cache(self) -> bool | None:
        return self.resets

    def shutdown(self) -> None:
        self.told.append("shutdown")


def scheduler_of(transfer: Any = None, log_stats: bool = False, **line: Any) -> Scheduler:
    """A scheduler over 31 blocks of four tokens, with that ``kv_transfer_config``; ``line``: its
    semantics, if not that of vLLM 0.22.1.
    """
    config = vllm_config({**DEFAULTS, "block_size": 4, "num_blocks": 32, "max_model_len": 64})
    config.kv_transfer_config = transfer
    spec = FullAttentionSpec(block_size=4, num_kv_heads=1, head_size=1, dtype=None)
    manager = SimpleNamespace(
        should_advance=lambda request: request.use_structured_output,
        grammar_bitmask=lambda *_: "m",
    )
    groups = [KVCacheGroupSpec(["l"], spec)]
    return Scheduler(
        config, KVCacheConfig(32, [], groups), manager, 4, log_stats=log_stats, **line
    )


def request_of(name: str, num_tokens: int = 12, **options: Any) -> Request:
    """A request of that many tokens that asks for one."""
    params = SamplingParams(max_tokens=1, structured_outputs=options.pop("grammar", None))
    return Request(name, list(range(num_tokens)), params, None, block_hasher=HASHER, **options)


def update(scheduler: Scheduler, out: Any, report: KVConnectorOutput | None = None) -> list[Any]:
    """Everybody samples 7; the outputs of the one client."""
    ids = list(out.num_scheduled_tokens)
    indices = {name: index for index, name in enumerate(ids)}
    sampled = ModelRunnerOutput(ids, indices, [[7] for _ in ids], kv_connector_output=report)
    by_client = scheduler.update_from_output(out, sampled)
    return by_client[0].outputs if by_client else []


def test_a_configuration_names_its_connector() -> None:
    """By its module, or by a name that was registered; an unknown one is an error."""
    wanted = SimpleNamespace(kv_connector="Connector", kv_load_failure_policy="fail")
    with pytest.raises(ValueError, match="no connector 'Connector'"):
        scheduler_of(wanted)
    KVConnectorFactory.register_connector("Noting", __name__, "Connector")
    with pytest.raises(ValueError, match="already"):
        KVConnectorFactory.register_connector("Noting", __name__, "Connector")
    assert KVConnectorFactory._registry.pop("Noting") == (__name__, "Connector")
    module = SimpleNamespace(**vars(wanted), kv_connector_module_path="reference_test_connector")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "reference_test_connector", THIS)
        scheduler = scheduler_of(module)
    connector = scheduler.get_kv_connector()
    assert connector.role is KVConnectorRole.SCHEDULER
    assert connector.pool is scheduler.kv_cache_manager.block_pool
    assert not scheduler.recompute_kv_load_failures


class Store(Connector):
    """Keeps what it may lose."""

    requires_kv_delivery = False


THIS: Any = SimpleNamespace(Connector=Connector, Store=Store)


AWAITS = replace(VLLM_0_22_1, resumes_await_output=True)


@pytest.mark.parametrize(
    ("kind", "produces", "semantics", "has_to"),
    [
        ("Connector", True, AWAITS, True),
        ("Connector", False, AWAITS, False),
        ("Store", True, AWAITS, False),
        ("Connector", True, VLLM_0_22_1, False),
    ],
)
def test_a_connector_says_whether_blocks_have_to_arrive(
    kind: str, produces: bool, semantics: Semantics, has_to: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or its role does, in the line that asks."""
    monkeypatch.setitem(sys.modules, "reference_test_connector", THIS)
    transfer = SimpleNamespace(
        kv_connector=kind,
        kv_connector_module_path="reference_test_connector",
        kv_load_failure_policy="fail",
        is_kv_producer=produces,
        is_kv_consumer=False,
    )
    made = scheduler_of(transfer, semantics=semantics)
    assert made.requires_kv_delivery is has_to


def with_connector(log_stats: bool = False) -> tuple[Scheduler, Connector]:
    """A scheduler to which a connector was given."""
    scheduler = scheduler_of(log_stats=log_stats)
    scheduler.connector = connector = Connector(None, KVConnectorRole.SCHEDULER, None)  # type: ignore[arg-type]
    return scheduler, connector


def test_a_connector_is_told_and_tells() -> None:
    """Arrival, blocks, the step, the report and the end; its parameters and events go outside."""
    scheduler, connector = with_connector()
    published: list[Any] = []
    scheduler.kv_event_publisher = SimpleNamespace(publish=published.append, shutdown=lambda: None)
    scheduler.add_request(request_of("r"))
    out = scheduler.schedule()
    assert out.kv_connector_metadata == "meta of ['r']"
    assert out.scheduled_new_reqs[0].num_computed_tokens == 8
    (output,) = update(scheduler, out)
    assert output.finish_reason is FinishReason.LENGTH
    assert output.kv_transfer_params == {"from": [1, 2, 3]}
    assert [type(event) for event in published[0].events] == [AllBlocksCleared]
    assert scheduler.requests["r"].is_finished() and scheduler.has_finished_requests()
    update(scheduler, scheduler.schedule(), KVConnectorOutput(finished_sending={"r"}))
    assert not scheduler.requests and not scheduler.has_finished_requests()
    scheduler.shutdown()
    allocated = ("allocated", ([1, 2, 3],), 8)
    assert connector.told == [("new", "r"), allocated, ("report", {"r"}), "shutdown"]


def test_a_report_of_nobody_is_an_error() -> None:
    """Neither of a request that is unknown, nor of one that does not load."""
    scheduler, _ = with_connector()
    scheduler.add_request(request_of("r"))
    out = scheduler.schedule()
    for name in ("nobody", "r"):
        with pytest.raises(AssertionError):
            scheduler._update_from_kv_xfer_finished(KVConnectorOutput(finished_recving={name}))
    with pytest.raises(AssertionError):
        scheduler._update_from_kv_xfer_finished(KVConnectorOutput(finished_sending={"nobody"}))
    assert update(scheduler, out)


def test_a_reset_reaches_the_connector_where_it_is_asked_to() -> None:
    """Whether all of it was done is the answer; without a connector it never is."""
    scheduler, connector = with_connector()
    assert scheduler.reset_prefix_cache(reset_connector=True)
    connector.resets = False
    assert not scheduler.reset_prefix_cache(reset_connector=True)
    connector.resets = None
    assert scheduler.reset_prefix_cache(reset_connector=True)
    scheduler.connector = None
    assert scheduler.reset_prefix_cache() and not scheduler.reset_prefix_cache(False, True)


def test_what_was_asked_of_the_remote_side_is_counted() -> None:
    """Queries are what is lacking here, hits what is loaded; a report takes the figures."""
    scheduler, _ = with_connector(log_stats=True)
    assert scheduler.make_stats().connector_prefix_cache_stats is None  # type: ignore[union-attr]
    scheduler.connector_prefix_cache_stats = PrefixCacheStats()
    scheduler.add_request(request_of("r"))
    scheduler.schedule()
    assert scheduler.reset_connector_cache()
    stats = scheduler.make_stats()
    assert stats is not None and stats.connector_prefix_cache_stats is not None
    told = stats.connector_prefix_cache_stats
    assert (told.queries, told.hits, told.requests, told.reset) == (12, 8, 1, True)
    assert scheduler.connector_prefix_cache_stats == PrefixCacheStats()


def test_a_grammar_may_be_compiled_elsewhere() -> None:
    """It is given as a future; until that is done the request waits."""
    scheduler = scheduler_of()
    request = request_of("g", grammar=StructuredOutputsParams(regex="a*"))
    assert request.structured_output_request is not None and request.use_structured_output
    compiling: Future[Any] = Future()
    request.structured_output_request.grammar = compiling  # type: ignore[assignment]
    scheduler.add_request(request)
    assert not scheduler.schedule().num_scheduled_tokens
    assert request.status == RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    assert not request.structured_output_request.is_grammar_ready
    compiling.set_result(SimpleNamespace(accept_tokens=lambda name, tokens: tokens != [7]))
    out = scheduler.schedule()
    mask = scheduler.get_grammar_bitmask(out)
    assert mask is not None and mask.grammar_bitmask == "m"
    assert mask.structured_output_request_ids == ["g"]
    (output,) = update(scheduler, out)
    assert output.finish_reason is FinishReason.ERROR


def test_a_grammar_is_one_constraint() -> None:
    """None at all, or two, are impossible."""
    with pytest.raises(ValueError, match="one constraint"):
        StructuredOutputsParams()
    with pytest.raises(ValueError, match="one constraint"):
        StructuredOutputsParams(regex="a", choice=["b"])
    assert not StructuredOutputsParams(json_object=True).all_constraints_none()
