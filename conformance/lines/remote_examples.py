"""Examples of the switches that decide about KV connectors."""

from nullblock.conformance.engine import Feature
from nullblock.conformance.lines.example import Example

REMOTE_EXAMPLES: dict[str, Example] = {
    "failed_loads_start_over": Example(
        "defect-hashes-of-a-failed-load-stay",
        "Scheduler._handle_invalid_blocks; issue 49250",
        "A hash names content that is computed, or will be by somebody who runs. Who lacks what "
        "others share computes nothing right before it is there, and its outputs in flight are of "
        "what was not there.",
        Feature.kv_connector,
    ),
    "last_block_cached_last": Example(
        "defect-loaded-block-is-cached-too-soon",
        "Scheduler._update_waiting_for_remote_kv; no report known",
        "A block that can be hit is not written to. The last token is computed again, into its "
        "block.",
        Feature.kv_connector,
    ),
    "failed_loads_leave_a_token": Example(
        "defect-nothing-left-to-compute",
        "Scheduler._update_waiting_for_remote_kv; the sharing of blocks: pull request 37827, not "
        "taken; repaired in 0.32.0",
        "Who shares a block that was not loaded is found like any other, and has at least its "
        "last token to compute: it samples from that.",
        Feature.kv_connector,
    ),
    "last_token_sees_back": Example(
        "defect-last-token-lacks-its-window",
        "SingleTypeKVCacheManager.allocate_new_computed_blocks, called with all tokens of a "
        "prompt that is loaded as a whole; no report known",
        "The last token is computed again, and sees what its window shows.",
        Feature.kv_connector,
    ),
    "hits_precede_loads": Example(
        "defect-hit-given-to-a-load",
        "KVCacheCoordinator.allocate_new_computed_blocks; issue 33775, repaired in 0.32.0",
        "A hit is what it was when it was looked up: nobody is given it before it is adopted.",
        Feature.kv_connector,
    ),
    "loads_not_zeroed": Example(
        "defect-zeroed-while-loaded",
        "SingleTypeKVCacheManager.allocate_new_computed_blocks; pull request 48481, merged",
        "What a load writes to a block is there when it has ended. When the load writes it, and "
        "when workers zero what is told with the step, nobody says.",
        Feature.kv_connector,
    ),
    "transfers_end_apart": Example(
        "defect-aborted-load-is-sent-too",
        "Scheduler._update_from_kv_xfer_finished; issues 46240, 56089",
        "Blocks are kept for as long as a transfer needs them, and each transfer ends by itself.",
        Feature.kv_connector,
    ),
    "loaded_blocks_come_back": Example(
        "load-is-not-taken-back",
        "no block is taken from who waits; issue 45387, repaired in 0.32.0 by `loads_leave_room` "
        "and `holders_wait_apart`",
        "Nobody waits for ever. Whether what is promised to loads is always to be had depends on "
        "who else is tried, and who first; that blocks come back does not.",
        Feature.kv_connector,
    ),
}
LATER_REMOTE_EXAMPLES: dict[str, Example] = {
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
"""Of the switches that no line before vllm-0.32.0 has."""
