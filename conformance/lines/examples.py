"""For each decision switch a golden scenario that shows it, and why its normative value is right.

Golden scenarios lie in `conformance/vectors`; what vLLM 0.32.0 prints for those named here lies
beside them, in a folder of its own.
"""

from nullblock.conformance.engine import Feature
from nullblock.conformance.lines.example import Example
from nullblock.conformance.lines.remote_examples import LATER_REMOTE_EXAMPLES, REMOTE_EXAMPLES
from nullblock.conformance.lines.state_examples import LATER_STATE_EXAMPLES, STATE_EXAMPLES

EXAMPLES: dict[str, Example] = {
    "reject_unservable": Example(
        "defect-unservable-prompt-blocks-the-queue",
        "issues 39734, 18115, 25538, 35541, 55130",
        "Whoever can never be served waits for ever, and under head-of-line blocking everybody "
        "behind it does: it is told so at once instead.",
    ),
    "withdraw_uncaches": Example(
        "defect-withdrawn-hashes-stay-beside-others",
        "pull request 43569",
        "A hash that names content which nobody computes lets another request read it.",
    ),
    "victim_shifts_index": Example(
        "defect-victim-before-the-index",
        "issue 49097, repaired in 0.32.0",
        "The list got shorter before the index whether the victim was scheduled or not.",
    ),
    "victim_by_id": Example(
        "equal-urgency-takes-the-first",
        "Scheduler.schedule, running phase; no report known",
        "Two orders of equals, one for who waits and one for who runs, let two requests preempt "
        "each other in turn, for ever.",
    ),
    "length_before_min_tokens": Example(
        "defect-min-tokens-never-end",
        "pull request 51299, repaired in 0.32.0",
        "A request that has no room left can get no more tokens, so it ends.",
    ),
    "extra_keys_tagged": Example(
        "defect-adapter-salt-collision",
        "issue 44701, repaired in 0.32.0",
        "A salt is chosen by a user: spelled like an adapter it must not open that one's cache.",
    ),
    "finds_every_item": Example(
        "defect-block-of-outputs-misses-an-item",
        "issue 51694, pull request 49448, repaired in 0.32.0",
        "Whoever has another picture must not be given what was computed of this one.",
    ),
    "frames_match_request": Example(
        "defect-output-of-an-earlier-owner",
        "issue 42492, pull request 42523",
        "A token belongs to whom it was sampled for, whatever that one's id is used for since.",
    ),
    "outputs_owed_once": Example(
        "defect-sampled-twice",
        "no report known; 0.32.0 avoids it in another way (resumes_await_output)",
        "An output in flight is a token that the request has: counted, it is not computed again.",
    ),
    "discards_add_up": Example(
        "defect-second-reset-forgets-frames",
        "no report known; repaired in 0.32.0, which counts tokens of steps (resumes_await_output)",
        "What a first reset made worthless stays so after a second.",
    ),
    "stop_check_counts_frames": Example(
        "defect-steps-whose-output-nobody-takes",
        "Scheduler.schedule, running phase",
        "All outputs in flight count: a step whose token nobody may take is work for nothing.",
    ),
    "never_scheduled_back": Example(
        "defect-drafts-with-a-step-in-flight",
        "Scheduler.schedule, running phase; no report known; repaired in 0.32.0",
        "What is not known yet cannot be scheduled again, and a number of tokens is none below "
        "zero: whose drafts are in flight waits for them.",
        Feature.drafts,
    ),
    "rejections_keep_to_their_run": Example(
        "defect-fewer-computed-than-none",
        "issues 46066, 49860, repaired in 0.32.0 but for an id that is used again",
        "A preemption has given up what its run computed. A draft of that run which turns out "
        "wrong takes nothing off what was computed since.",
        Feature.drafts,
    ),
    "discards_count_outputs": Example(
        "defect-reset-with-drafts-in-flight",
        "issues 46066, 49860, repaired in 0.32.0",
        "A step returns one output for a request, however many drafts it verifies: so many are "
        "dropped as there are steps in flight, and none that came later.",
        Feature.drafts,
    ),
    "drafts_for_running_only": Example(
        "drafts-from-outside-a-step",
        "Scheduler.update_draft_token_ids; no report known",
        "Drafts follow the last token that a request has. For whoever waits, or awaits an output, "
        "nobody knows by now what they would follow.",
        Feature.drafts,
    ),
    "windows_await_verdicts": Example(
        "defect-window-passes-with-drafts",
        "issues 47728, 47282",
        "Drafts may be rejected, and then the window is where it was: what it sees there has to "
        "be in its place.",
        Feature.windows,
    ),
    **STATE_EXAMPLES,
    "adapters_keep_places": Example(
        "defect-adapter-loses-its-place",
        "Scheduler.schedule, waiting phase: scheduled_loras; no report known",
        "Whoever pauses in this step computes in the next, with its adapter: a place that is "
        "given away meanwhile is missing then.",
        Feature.lora_cap,
    ),
    "skipped_wait_apart": Example(
        "skipped-overtakes-preempted",
        "Scheduler.skipped_waiting, which 0.32.0 has no more",
        "Whoever was passed over has come to its turn before: it is tried first, and no victim is "
        "put before it.",
        Feature.lora_cap,
    ),
    "stops_leave_every_queue": Example(
        "defect-ended-request-waits-for-a-place",
        "Scheduler.update_from_output; no report known; repaired in 0.32.0, which has one queue",
        "Who has ended waits for nothing. Aborts take a request out of both queues, and so does "
        "an end.",
        Feature.lora_cap,
    ),
    "chunks_bring_limits": Example(
        "defect-session-keeps-its-first-limit",
        "issue 37843, repaired in 0.32.0",
        "Each turn of a session is asked for with a limit of its own.",
        Feature.streaming,
    ),
    "sessions_keep_tokens": Example(
        "defect-session-loses-its-tokens",
        "Scheduler._update_request_as_session; near issues 44526, 49439, 52765",
        "What a session has said is its prompt, wherever its blocks have gone.",
        Feature.streaming,
    ),
    "chunks_rehash": Example(
        "defect-session-keeps-a-hash",
        "issues 49377, 49449, repaired in 0.32.0",
        "A hash that names other content lets another request read it.",
        Feature.streaming,
    ),
    "late_outputs_dropped": Example(
        "defect-session-is-queued-twice",
        "issues 52693, 52765, repaired in 0.32.0",
        "A turn that has stopped takes no more; what comes late was sampled for it.",
        Feature.streaming,
    ),
    "chunks_reorder": Example(
        "defect-session-arrival-breaks-the-heap",
        "Scheduler._update_request_as_session: arrival_time; issue 55162",
        "A queue in order of arrival has to be in that order, whatever changed an arrival.",
        Feature.streaming,
    ),
    "sessions_stay_queued": Example(
        "defect-session-loses-its-tokens",
        "Scheduler.update_from_output; near issues 44526, 49439, 52765",
        "Who goes on waits for its turn, and stands where others stand who do.",
        Feature.streaming,
    ),
    "inputs_taken_back": Example(
        "defect-encoder-output-never-computed",
        "Scheduler.schedule, running phase: encoder inputs of a victim; no report known",
        "The cache has what workers have computed: what nobody computes is not in it.",
        Feature.encoder_inputs,
    ),
    "encoder_budget_comes_back": Example(
        "defect-encoder-budget-is-lost",
        "Scheduler.schedule: encoder_compute_budget; no report known",
        "A budget is its limit less what the step computes, as it is for tokens.",
        Feature.encoder_inputs,
    ),
    "chunks_end_at_items": Example(
        "defect-eagle-stops-between-items",
        "Scheduler._try_schedule_encoder_inputs: shift_computed_tokens; a comment in issue 47738",
        "Whoever fits alone is served. A draft model that lacks one position proposes what is "
        "rejected, and no more.",
        Feature.encoder_inputs,
    ),
    "item_room_returns_once": Example(
        "defect-encoder-decoder-room-grows",
        "EncoderDecoderCacheManager.free_encoder_input; issues 51228, 55733",
        "Workers forget an item before the step after the one that computed it, so each step has "
        "all the room there is, and never more.",
        Feature.encoder_decoder,
    ),
    **REMOTE_EXAMPLES,
    "silence_starts_over": Example(
        "defect-nothing-sampled-with-drafts",
        "Scheduler.update_from_output; pull request 42722, closed unmerged",
        "What was computed behind a token that nobody knows is worth nothing, and who waits for a "
        "token that never comes waits for ever.",
        Feature.silence,
    ),
    "min_tokens_hold_stops": Example(
        "min-tokens-hold-back-every-stop",
        "check_stop; pull requests 47489, 49521, 51299",
        "What a request was promised is kept by whoever ends it. That the sampler keeps it too, "
        "as 0.32.0 relies on, is another component's promise.",
    ),
    "tells_common_prefix": Example(
        "common-prefix-counts-all-owners",
        "SchedulerOutput.num_common_prefix_blocks, which 0.32.0 leaves empty",
        "The number is right and cheap, and cascade attention has nothing else to go by.",
    ),
    **LATER_REMOTE_EXAMPLES,
    **LATER_STATE_EXAMPLES,
    "events_tell_origin": Example(
        "events-of-every-kind",
        "BlockStored.locality, ownership, session_id",
        "Without a connector nobody knows them: fields that are always empty say nothing.",
    ),
    "holders_wait_apart": Example(
        "session-waits-before-others",
        "Scheduler.kv_holding_waiting",
        "Everybody stands in one queue in the order of arrival there, and a pause of admissions "
        "is one for whoever does not run. It leaves blocks with sessions for longer.",
        Feature.streaming,
    ),
    "pausing_sessions_keep_seats": Example(
        "session-gives-its-seat-up",
        "Scheduler.schedule, waiting phase: num_waiting_for_streaming_input",
        "Whoever computes nothing keeps nobody from running. That workers keep a place for it is "
        "their own matter.",
        Feature.streaming,
    ),
    "second_runner_keeps_tokens": Example(
        "second-runner-sat-out-a-step",
        "Scheduler._make_cached_request_data: use_v2_model_runner",
        "Whoever was not in the step before is told as a whole, whichever runner it is.",
        Feature.v2_model_runner,
    ),
    "pipeline_paces_tokens": Example(
        "tokens-paced-by-the-pipeline",
        "Scheduler.schedule, running phase: next_decode_eligible_step",
        "A step that finds work does some of it (RUN-20), and passes over nobody who has some "
        "(RUN-28). When a token is where the next step needs it is for whoever runs the pipeline "
        "to wait for.",
        Feature.v2_model_runner,
    ),
    "freed_unhashed_first": Example(
        "prompt-in-chunks",
        "BlockPool.free_blocks",
        "One queue in one order is the smaller rule, and evicts nothing too early that is proved "
        "of it. Which blocks are reused first is a matter of speed; every invariant that does not "
        "name the order holds either way.",
    ),
    "windows_await_outputs": Example(
        "window-awaits-what-is-in-flight",
        "KVCacheManager.allocate_slots: num_in_flight_tokens; issues 47728, 47282",
        "Workers compute the steps in their order: what one in flight still reads is written by a "
        "later one. Only drafts may be taken back, and those are waited for "
        "(windows_await_verdicts).",
        Feature.windows,
    ),
    "caps_count_flight": Example(
        "window-gate-counts-one-step",
        "VllmConfig.max_in_flight_tokens, max_admission_blocks_per_request",
        "Blocks go back when the next step is decided, so that no more are held at once than a "
        "window and a step need.",
        Feature.windows,
    ),
    "narrow_windows_uncached": Example(
        "window-of-one-token",
        "SlidingWindowManager.reachable_block_mask",
        "A window of one token is no case of its own, and its blocks are hit like others.",
        Feature.windows,
    ),
    "last_hash_stands": Example(
        "groups-of-unequal-blocks",
        "BlockHashListWithBlockSize",
        "Either tells the whole prefix, and no two groups share keys.",
        Feature.block_sizes,
    ),
    "prompt_ends_cached": Example(
        "prompt-ends-within-a-block",
        "FullAttentionManager._cache_partial_tail_block, BlockPool.cache_partial_block",
        "Only Mamba, aligned, looks a block up by such a key. Elsewhere it is told, and taken "
        "back for nothing.",
        Feature.block_sizes,
    ),
    "dropped_hits_reach_on": Example(
        "dropped-hit-ends-before-the-last-token",
        "HybridKVCacheCoordinator.find_longest_cache_hit, get_num_cacheable_tokens; "
        "SlidingWindowManager.reachable_block_mask",
        "One limit holds for whatever is looked up and cached, and a single group has the same "
        "one. It costs a block of a prompt of whole blocks that comes again, and beside larger "
        "blocks whatever a window of an EAGLE-like method could hit.",
        Feature.hybrid,
    ),
    "lone_prefill_uncut": Example(
        "lone-prompt-beyond-the-threshold",
        "Scheduler.schedule: num_eligible_reqs",
        "A limit that holds always is the smaller rule, and what a step may take then does not "
        "hang on who else is there. It costs steps where nobody competes, and no law.",
    ),
    "grants_not_negative": Example(
        "defect-full-length-prompt-ahead",
        "Scheduler._reserve_prefill_lookahead",
        "Nobody that long is taken in (reject_unservable), so there is nothing to clamp; a clamp "
        "would let such a request wait for ever where it should be refused.",
    ),
    "least_token_budget": Example(
        "more-scheduled-than-batched",
        "Scheduler.schedule: input_budget",
        "One number is the budget, the one that is set for it; that it exceeds the worker's "
        "buffers is for the configuration to refuse, and no decision of a step.",
    ),
    "vectors_take_no_place": Example(
        "vectors-take-no-place",
        "Scheduler.num_sampled_tokens_per_step",
        "One limit holds for whatever is made of a prompt: longer ones are refused "
        "(reject_unservable), and wait for nothing. What is in flight counts, token or vector.",
        Feature.pooling,
    ),
    "resumes_await_output": Example(
        "others-pass-whom-output-is-owed",
        "Scheduler.schedule: num_stale_output_tokens; pull requests 46066, 49860",
        "With outputs counted (outputs_owed_once) a request can be resumed at once, and nobody "
        "overtakes it.",
    ),
    "admission_watermark": Example(
        "watermark-keeps-blocks-free",
        "KVCacheManager.allocate_slots: watermark_blocks",
        "A watermark trades preemptions for waiting. It is a setting for speed, off by default, "
        "and without it the rule for admission is ALLOC-1 alone.",
    ),
    "resets_report_preempted": Example(
        "reset-preempts-the-running",
        "Scheduler.reset_preempted_req_ids",
        "Whoever is resumed is sent all its blocks and tokens (OUT-2, OUT-3): workers need not "
        "hear of it before.",
    ),
    "admissions_look_ahead": Example(
        "admitted-with-room-for-drafts",
        "Scheduler.schedule, waiting phase: effective_lookahead_tokens",
        "A step that admits a request has no drafts of it to verify: slots for the next step are "
        "asked for with that.",
        Feature.drafts,
    ),
    "admissions_padded": Example(
        "admitted-among-decodes",
        "Scheduler.schedule, waiting phase: pad_spec_decode",
        "Placeholders that nobody proposed are computed and rejected. It keeps the steps of a "
        "captured graph alike, and decides nothing else; a threshold below 1 + num_spec_tokens "
        "makes it raise.",
        Feature.drafts,
    ),
    "drafting_takes_slots": Example(
        "draft-model-takes-places",
        "Scheduler.schedule: draft_slots; SpeculativeConfig.max_num_new_slots_for_drafting",
        "One number is the budget of a step. What a draft model needs besides is for the "
        "configuration to leave.",
        Feature.drafts,
    ),
    "items_held_by_place": Example(
        "item-at-two-places",
        "EncoderCacheManager.request_cached_ids",
        "What is evicted too early is computed once more: that costs work, and no law. One "
        "reference for a request and an item is the smaller rule.",
        Feature.encoder_inputs,
    ),
    "whole_items_if_kept": Example(
        "cached-item-is-cut",
        "Scheduler._try_schedule_encoder_inputs: disable_chunked_mm_input",
        "An item is not cut so that it is computed whole. What is in the cache is computed.",
        Feature.encoder_inputs,
    ),
    "items_behind_counted": Example(
        "defect-eagle-reads-an-item-too-soon",
        "Scheduler._try_schedule_encoder_inputs: encoder_window_end; pull request 46315",
        "No chunk is cut for what a draft model reads behind it (chunks_end_at_items), so no item "
        "is looked at there. A draft that lacks an embedding is rejected, and no more.",
        Feature.encoder_inputs,
    ),
    "passed_items_known": Example(
        "item-passed-in-flight",
        "Scheduler._free_encoder_inputs: spec_lookahead, num_output_placeholders",
        "Whatever is in flight stands behind the prompt, and workers compute in order: what they "
        "are told to forget is not asked for by a step before.",
        Feature.encoder_inputs,
    ),
    "evictions_told_if_gone": Example(
        "evicted-and-cached-again",
        "EncoderCacheManager.get_freed_mm_hashes",
        "Workers forget what is evicted before they compute what the step asks for, and that is "
        "all of it that is in the cache again.",
        Feature.encoder_inputs,
    ),
    "drafts_counted_by_place": Example(
        "drafts-counted-by-place",
        "SpecDecodingStats.num_draft_tokens_per_pos",
        "What is counted for statistics decides nothing, and cannot fail.",
        Feature.drafts,
    ),
}
