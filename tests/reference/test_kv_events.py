"""What the prefix cache tells: fields, order, batches, and the two spellings of a hash."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from vllm_shaped_driver import Driver, Names

from nullblock.reference import kv_cache_utils
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.kv_events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventPublisherFactory,
    KVEventBatch,
    NullEventPublisher,
)
from nullblock.spec.profiles import NORMATIVE

NAMES = Names("nullblock.reference")
CONFIG = {"block_size": 4, "num_blocks": 8, "kv_events": True}
STEP, RESET = {"op": "step"}, {"op": "reset_prefix_cache"}


def add(name: str = "a", lo: int = 0, hi: int = 10, **options: Any) -> dict[str, Any]:
    """A request with tokens lo to hi."""
    return {"op": "add", "id": name, "prompt": {"range": [lo, hi]}, **options}


def run(*events: dict[str, Any], **config: Any) -> Driver:
    """The driver after those events."""
    driver = Driver(NAMES, {"config": CONFIG | config, "events": [*events]})
    assert not events or driver.run()[-1]["ev"] != "EXCEPTION"
    return driver


def batches(driver: Driver) -> list[Any]:
    """By update, the batches that were published."""
    return [line["batches"] for line in driver.lines if line["ev"] == "update"]


def test_a_stored_range_is_told_in_one_event() -> None:
    """Hashes in order, no parent at the front, all tokens, and which layers they belong to."""
    driver = run(add(max_tokens=2), STEP)
    hashes = driver.scheduler.requests["a"].block_hashes
    ((told,),) = batches(driver)[0][0:1]
    assert told == {
        "t": "BlockStored",
        "block_hashes": [kv_cache_utils.maybe_convert_block_hash(h) for h in hashes],
        "parent_block_hash": None,
        "token_ids": [*range(8)],
        "block_size": 4,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None, None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        "kv_cache_spec_sliding_window": None,
    }


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_later_block_names_its_parent(asynchronous: bool) -> None:
    """The block that outputs complete hangs on the one before, whichever way it got cached."""
    events = [add(max_tokens=4), {"op": "run"}]
    driver = run(*events, async_scheduling=asynchronous)
    first, second = [e for update in batches(driver) for batch in update for e in batch]
    assert second["parent_block_hash"] == first["block_hashes"][-1]
    assert second["token_ids"][:2] == [8, 9] and len(second["token_ids"]) == 4


def test_an_adapter_and_a_salt_are_told_by_block() -> None:
    """The adapter's number and name in every event; its key in every block, the salt in one.
    Where keys are tagged, events leave the tags out, as later releases do.
    """
    driver = run(add(lora="X", salt="s"), STEP)
    ((told,),) = batches(driver)[0]
    assert (told["lora_name"], told["extra_keys"]) == ("X", [["X", "s"], ["X"]])
    assert isinstance(told["lora_id"], int)
    tagged = Driver(NAMES, {"config": CONFIG, "events": []}, semantics=NORMATIVE)
    tagged.do_add(add(lora="X", salt="s"))
    tagged.do_step({})
    ((told,),) = batches(tagged)[0]
    assert told["extra_keys"] == [["X", "s"], ["X"]]


def test_a_slot_that_is_used_again_tells_what_it_loses() -> None:
    """One event for each block, before the event for what is stored there."""
    driver = run(add(max_tokens=1), STEP, add("b", 50, 74, max_tokens=1), STEP)
    (told,) = batches(driver)[1]
    assert [event["t"] for event in told] == ["BlockRemoved", "BlockStored"]
    stored = batches(driver)[0][0][0]["block_hashes"]
    assert told[0] == {
        "t": "BlockRemoved",
        "block_hashes": stored[1:],
        "medium": "GPU",
        "group_idx": 0,
    }


def test_each_copy_is_stored_and_removed_for_itself() -> None:
    """Two equal prompts in one step: the stream tells the same hashes twice, the cache has two."""
    twice = [add(skip_cache_read=True, max_tokens=1), add("b", skip_cache_read=True, max_tokens=1)]
    driver = run(*twice, STEP, {"op": "evict_blocks", "ids": [1, 4]}, STEP)
    (told,), (removed,) = batches(driver)
    assert told[0]["block_hashes"] == told[1]["block_hashes"]
    assert removed[0] == removed[1]


def test_events_wait_for_the_next_update_and_leave_in_one_batch() -> None:
    """What evictions and resets tell between steps goes out with the next step's output."""
    driver = run(add(max_tokens=1), STEP, {"op": "evict_blocks", "ids": [1, 2]}, RESET)
    driver.do_step({})
    (told,) = batches(driver)[1]
    assert [event["t"] for event in told] == ["BlockRemoved", "BlockRemoved", "AllBlocksCleared"]
    driver.do_step({})
    assert batches(driver)[2] == [], "nothing happened: nothing is published"


def test_a_reset_that_is_refused_tells_nothing() -> None:
    """The cache is as it was."""
    driver = run(add(max_tokens=9), STEP, RESET, STEP)
    assert batches(driver)[1] == []


def test_without_events_nothing_is_queued() -> None:
    """Nothing grows where nobody will take it."""
    driver = run(add(), STEP, kv_events=False)
    assert driver.scheduler.kv_cache_manager.block_pool.kv_event_queue == []
    assert batches(driver) == [[]]


def test_hashes_may_be_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default their low 64 bits as a number, with vLLM's variable at 0 all bytes."""
    monkeypatch.setenv("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "0")
    driver = run()
    driver.do_add(add())
    driver.scheduler.schedule()
    (told,) = driver.scheduler.kv_cache_manager.take_events()
    assert told.block_hashes == driver.scheduler.requests["a"].block_hashes


def test_a_prompt_beyond_the_model_cannot_be_told() -> None:
    """More full blocks than the table has: 0.22.1 raises, but only while events are on."""
    for events, kind in ((True, "EXCEPTION"), (False, "schedule")):
        config = CONFIG | {"max_model_len": 16, "kv_events": events, "num_blocks": 32}
        scenario = {"config": config, "events": [add(hi=22), {"op": "schedule"}]}
        assert Driver(NAMES, scenario).run()[-1]["ev"] == kind


def test_a_batch_is_written_as_vllm_writes_it() -> None:
    """Arrays, the event's name first."""
    stored = BlockStored([7], None, [1, 2], 2, None, "GPU", None)
    batch = KVEventBatch(1.5, [stored, BlockRemoved([7], "GPU", 0), AllBlocksCleared()])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(batch)) == [
        1.5,
        [
            ["BlockStored", [7], None, [1, 2], 2, None, "GPU", None, None, None, None, None],
            ["BlockRemoved", [7], "GPU", 0],
            ["AllBlocksCleared"],
        ],
        None,
    ]


def test_only_nobody_can_be_configured_as_a_listener() -> None:
    """Who wants to listen puts a publisher in its place; the network's is refused by name."""
    assert isinstance(EventPublisherFactory.create(None), NullEventPublisher)
    off = SimpleNamespace(enable_kv_cache_events=False, publisher="zmq")
    assert isinstance(EventPublisherFactory.create(off), NullEventPublisher)
    on = SimpleNamespace(enable_kv_cache_events=True, publisher="zmq")
    with pytest.raises(UnsupportedFeature, match="network"):
        EventPublisherFactory.create(on)
    NullEventPublisher(3).publish(KVEventBatch(0.0, []))
    NullEventPublisher(3).shutdown()
