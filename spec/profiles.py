"""What ought to be, and what is: semantics as a value.

A profile is a frozen set of named decision switches. `normative` is what every invariant holds
for; `vllm-0.22.1` and `vllm-0.32.0` do what those releases do, decision for decision. A switch
that has another value there than in `normative` is a *departure*.
"""

from nullblock.spec.semantics import Semantics

__all__ = [
    "NORMATIVE",
    "PROFILES",
    "VLLM_0_22_1",
    "VLLM_0_32_0",
    "Semantics",
    "UnknownSwitch",
    "profile",
]

NORMATIVE = Semantics()
VLLM_0_22_1 = Semantics(
    reject_unservable=False,
    withdraw_uncaches=False,
    victim_shifts_index=False,
    victim_by_id=False,
    length_before_min_tokens=False,
    extra_keys_tagged=False,
    finds_every_item=False,
    frames_match_request=False,
    outputs_owed_once=False,
    discards_add_up=False,
    stop_check_counts_frames=False,
    never_scheduled_back=False,
    rejections_keep_to_their_run=False,
    discards_count_outputs=False,
    drafts_for_running_only=False,
    windows_await_verdicts=False,
    gate_asks_behind_hits=False,
    sinks_are_nobodys=False,
    short_chunks_go_on=False,
    states_stay_within=False,
    inner_states_kept=False,
    chunks_asked_again=False,
    hits_cut_alike=False,
    adapters_keep_places=False,
    stops_leave_every_queue=False,
    chunks_bring_limits=False,
    sessions_keep_tokens=False,
    chunks_rehash=False,
    chunks_reorder=False,
    late_outputs_dropped=False,
    sessions_stay_queued=False,
    inputs_taken_back=False,
    encoder_budget_comes_back=False,
    chunks_end_at_items=False,
    item_room_returns_once=False,
    failed_loads_start_over=False,
    last_block_cached_last=False,
    failed_loads_leave_a_token=False,
    last_token_sees_back=False,
    hits_precede_loads=False,
    loads_not_zeroed=False,
    transfers_end_apart=False,
    loaded_blocks_come_back=False,
    silence_starts_over=False,
)
VLLM_0_32_0 = Semantics(
    reject_unservable=False,
    withdraw_uncaches=False,
    victim_by_id=False,
    frames_match_request=False,
    outputs_owed_once=False,
    stop_check_counts_frames=False,
    rejections_keep_to_their_run=False,
    drafts_for_running_only=False,
    chunks_asked_again=False,
    adapters_keep_places=False,
    skipped_wait_apart=False,
    gate_asks_behind_hits=False,
    # Sinks are not followed in this line.
    sinks_are_nobodys=False,
    sessions_keep_tokens=False,
    chunks_reorder=False,
    sessions_stay_queued=False,
    inputs_taken_back=False,
    encoder_budget_comes_back=False,
    chunks_end_at_items=False,
    item_room_returns_once=False,
    failed_loads_start_over=False,
    last_block_cached_last=False,
    last_token_sees_back=False,
    transfers_end_apart=False,
    loaded_blocks_come_back=False,
    silence_starts_over=False,
    min_tokens_hold_stops=False,
    tells_common_prefix=False,
    loads_leave_room=True,
    unread_unloaded=True,
    freed_blocks_await_steps=True,
    windows_zeroed=True,
    states_noted_by_place=True,
    chunks_end_at_junctions=True,
    prefills_end_in_blocks=True,
    blocks_before_items=True,
    prompt_states_awaited=True,
    gaps_swept=True,
    long_tables_stay=True,
    states_shorten_quietly=True,
    events_tell_origin=True,
    holders_wait_apart=True,
    pausing_sessions_keep_seats=True,
    second_runner_keeps_tokens=True,
    pipeline_paces_tokens=True,
    freed_unhashed_first=True,
    windows_await_outputs=True,
    caps_count_flight=True,
    narrow_windows_uncached=True,
    last_hash_stands=True,
    prompt_ends_cached=True,
    dropped_hits_reach_on=True,
    lone_prefill_uncut=True,
    grants_not_negative=True,
    least_token_budget=True,
    vectors_take_no_place=True,
    resumes_await_output=True,
    admission_watermark=True,
    resets_report_preempted=True,
    admissions_look_ahead=True,
    admissions_padded=True,
    drafting_takes_slots=True,
    items_held_by_place=True,
    whole_items_if_kept=True,
    items_behind_counted=True,
    passed_items_known=True,
    evictions_told_if_gone=True,
    drafts_counted_by_place=True,
)
PROFILES: dict[str, Semantics] = {
    "normative": NORMATIVE,
    "vllm-0.22.1": VLLM_0_22_1,
    "vllm-0.32.0": VLLM_0_32_0,
}


class UnknownSwitch(ValueError):
    """The name or value of a profile or switch is not known; the text says what is."""


def profile(name: str) -> Semantics:
    """The profile called `name`. Raises UnknownSwitch."""
    try:
        return PROFILES[name]
    except KeyError:
        raise UnknownSwitch(f"no profile {name!r}: choose from {', '.join(PROFILES)}") from None
