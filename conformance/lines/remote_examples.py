"""Examples of the switches that decide about KV connectors in lines after vllm-0.22.1."""

from nullblock.conformance.engine import Feature
from nullblock.conformance.lines.example import Example

REMOTE_EXAMPLES: dict[str, Example] = {
    "loads_leave_room": Example(
        "load-finds-no-room-beside-a-prompt",
        "Scheduler._inflight_prefill_reserved_blocks, _request_remaining_blocks",
        "Whoever is admitted asks for its slots, and one rule says whether they are there. Who "
        "computes its prompt can preempt, or be preempted: it waits for a load, which ends.",
        Feature.kv_connector,
    ),
    "unread_unloaded": Example(
        "nothing-is-loaded-for-who-reads-nothing",
        "Scheduler.schedule, waiting phase: skip_reading_prefix_cache",
        "A connector knows of whom it is asked, and can offer nothing itself. A request that "
        "wants log probabilities of its prompt has to say so to both.",
        Feature.kv_connector,
    ),
    "freed_blocks_await_steps": Example(
        "freed-while-a-step-computes",
        "Scheduler.defer_block_free, deferred_frees",
        "Whatever writes to a block writes in the order in which steps were scheduled: that is "
        "assumed of workers, and of what loads for them. An engine whose loads keep no such order "
        "has to wait, as this release does.",
        Feature.kv_connector,
    ),
}
