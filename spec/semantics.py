"""The decision switches: what a release may do one way or the other.

Their values are in `nullblock.spec.profiles`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Semantics:
    """The decision switches. Defaults are normative."""

    reject_unservable: bool = True
    """LIFE-2: refuse at arrival, with a reason, what could never be served to its length limit."""
    withdraw_uncaches: bool = True
    """PREEMPT-3: a victim that was already scheduled this step takes back the hashes of blocks
    not yet computed.
    """
    victim_shifts_index: bool = True
    """PREEMPT-2: a victim before the index moves it; if False, only one scheduled in this step."""
    victim_by_id: bool = True
    """PREEMPT-1: of equal priority and arrival time the greatest id is preempted, as the waiting
    queue has it; if False, the first in the running list.
    """
    length_before_min_tokens: bool = True
    """UPD-4: the length limits stop a request even below `min_tokens`."""
    extra_keys_tagged: bool = True
    """HASH-1: an adapter name and a cache salt that are spelled alike give different keys."""
    finds_every_item: bool = True
    """HASH-1: every encoder input in a block identifies it; if False, they are looked for from a
    place on, and some are missed (HASH-24).
    """
    frames_match_request: bool = True
    """UPD-2: an output belongs to the request that was scheduled, not to a later one of its id."""
    outputs_owed_once: bool = True
    """UPD-17: outputs in flight are counted under synchronous scheduling too, so that a request
    preempted and resumed meanwhile does not sample one position twice.
    """
    discards_add_up: bool = True
    """LIFE-3: a reset adds the outputs in flight to those that will be dropped already; if False,
    it forgets the latter.
    """
    stop_check_counts_frames: bool = True
    """RUN-25: a request is passed over when the outputs in flight are all it may still get; if
    False, only when one of them would be.
    """
    never_scheduled_back: bool = True
    """DRAFT-2: a request whose drafts are in flight waits for them; if False it is, in step,
    scheduled a negative number of tokens.
    """
    rejections_keep_to_their_run: bool = True
    """DRAFT-8: a rejection lowers the counters of the run in which its drafts were scheduled, and
    nothing is scheduled ahead of an earlier run's drafts; if False, it lowers whatever is there
    and not zero.
    """
    discards_count_outputs: bool = True
    """LIFE-3: a reset drops the outputs in flight; if False, as many as there are tokens in them.
    """
    drafts_for_running_only: bool = True
    """DRAFT-6: drafts are taken for a running request that awaits no output; if False, for
    everybody who is known.
    """
    windows_await_verdicts: bool = True
    """GROUP-6: a block goes back when no token will see it, whatever becomes of the drafts in
    flight; if False, when none will if all of them are taken.
    """
    gate_asks_behind_hits: bool = True
    """GROUP-3: of layers that see a part of the past the gate asks for what a request takes at
    once behind its hits; if False, hits are taken off what it ever holds at once.
    """
    sinks_are_nobodys: bool = True
    """GROUP-34: a reset of the prefix cache does not wait for the blocks of a sink; if False, it
    does, for ever.
    """
    short_chunks_go_on: bool = True
    """GROUP-29: a prefill whose steps never have room for a block of Mamba layers goes on within
    it; if False, it computes nothing, for ever.
    """
    states_stay_within: bool = True
    """GROUP-36: a hit of Mamba layers is no longer than that of full attention; if False it may be
    by a block, under an EAGLE-like method, and full attention reads what nobody computed.
    """
    chunks_asked_again: bool = True
    """GROUP-61: where chunks end within a block a hit ends where the blocks are cached that its
    next token sees; if False, beside one kind of full attention, in a chunk none of whose blocks
    was looked for.
    """
    hits_cut_alike: bool = True
    """GROUP-65: the hits of every kind of full attention end where all kinds agree; if False,
    those of the first alone.
    """
    adapters_keep_places: bool = True
    """WAIT-41: the adapter of a running request keeps its place while the request is passed over;
    if False, another may take it, and the step that computes both raises.
    """
    skipped_wait_apart: bool = True
    """WAIT-40: whoever was passed over stands in a queue of its own, which is served first; if
    False, everybody stays in the one queue, where it stood.
    """
    stops_leave_every_queue: bool = True
    """UPD-6: a request that stops while it waits leaves the skipped queue too; if False, it stays
    there, ended, and the step that would admit it raises.
    """
    chunks_bring_limits: bool = True
    """SESS-2: a chunk brings its own max_tokens; if False, that of the first chunk holds."""
    sessions_keep_tokens: bool = True
    """SESS-3: a session keeps all its tokens but the last output; if False, those that are
    computed, which are none once it is preempted.
    """
    chunks_rehash: bool = True
    """SESS-4: the hash of a block goes with the tokens that a session drops; if False, it stays,
    and names other content from then on.
    """
    late_outputs_dropped: bool = True
    """SESS-5: outputs in flight when a session stops are dropped; if False, its next turn takes
    them for its own.
    """
    chunks_reorder: bool = True
    """WAIT-53: a session that takes a chunk stands, under PRIORITY, where its arrival puts it; if
    False, it may stay at the head of its queue, and one that came before is overtaken.
    """
    sessions_stay_queued: bool = True
    """SESS-7: a session that goes on with a chunk stands in one queue; if False, one that stops
    while it waits is taken out of the queue that it has just joined.
    """
    inputs_taken_back: bool = True
    """ENC-14: what a victim was to compute of encoder inputs is taken back out of the cache,
    unless somebody else refers to it; if False, it is taken out of the step alone.
    """
    encoder_budget_comes_back: bool = True
    """ENC-12: what a victim gives back of the encoder budget may be spent in the same step; if
    False, not by whom it was preempted for, nor after that one if it has encoder inputs.
    """
    chunks_end_at_items: bool = True
    """ENC-4: a step may end right before an item; if False, under an EAGLE-like method, it ends
    one token sooner.
    """
    item_room_returns_once: bool = True
    """ENC-53: each step of an encoder-decoder model has the whole encoder cache; if False, what an
    item takes of it comes back with every output of its request, and again when that leaves.
    """
    failed_loads_start_over: bool = True
    """REMOTE-20: whoever runs and lacks blocks that were not loaded gives all back and starts
    over, and what it computed from them leaves the prefix cache; if False, it computes them again
    in place, the first of those that share them, and their hashes stay.
    """
    last_block_cached_last: bool = True
    """REMOTE-12: the block of the last token of a prompt that was loaded as a whole is cached when
    it is computed again; if False, as soon as it is loaded."""
    failed_loads_leave_a_token: bool = True
    """REMOTE-8: the last token is computed again, whatever came of the load; if False, of a load
    that failed all that is left counts as computed.
    """
    last_token_sees_back: bool = True
    """REMOTE-50: where all tokens of a prompt were loaded, its last one has what it sees of them;
    if False, what the token after it would see.
    """
    hits_precede_loads: bool = True
    """REMOTE-51: of several groups all adopt their hits before any takes blocks to load into, and
    none does of whose load no token is seen; if False, it is done group by group, so that a hit of
    a later group may be taken, and for a block of which a part would be seen all the same.
    """
    loads_not_zeroed: bool = True
    """REMOTE-57: workers zero no block that a load over several steps writes to; if False, any."""
    transfers_end_apart: bool = True
    """REMOTE-18: blocks that are kept for a load and to be sent go when both have ended; if False,
    when the first has, and the other report raises. Those of a request that stops by an output
    while it is loaded go at once then.
    """
    loaded_blocks_come_back: bool = True
    """REMOTE-46: where nobody runs who could be preempted, whoever waits with loaded blocks gives
    them back; if False, it keeps them, and nobody goes on who lacks them.
    """
    silence_starts_over: bool = True
    """UPD-61: whoever a step brings no token starts over; if False, all of it stays counted."""
    min_tokens_hold_stops: bool = True
    """UPD-4: below `min_tokens` neither eos nor a stop id stops a request; if False, that is left
    to the sampler.
    """
    tells_common_prefix: bool = True
    """OUT-4: workers are told how many leading blocks everybody shares."""
    loads_leave_room: bool = False
    """REMOTE-40: a load over several steps leaves room for the prompts that others bring in."""
    unread_unloaded: bool = False
    """REMOTE-41: for whoever refuses prefix hits nothing is loaded."""
    freed_blocks_await_steps: bool = False
    """REMOTE-42: where a connector loads, blocks of a request that a step in flight computes are
    free when the output of that step has come, and nobody is preempted before for want of them.
    """
    windows_zeroed: bool = False
    """GROUP-26: beside Mamba layers workers zero what any attention takes; if False, what full
    attention does.
    """
    states_noted_by_place: bool = False
    """GROUP-25: states are noted by their places: blocks of a prompt beyond them raise."""
    chunks_end_at_junctions: bool = False
    """GROUP-69: a prefill of Mamba layers in the mode `align` ends a step where the layers that
    were asked first hit more than all agree on, so that the state there can be hit.
    """
    prefills_end_in_blocks: bool = False
    """GROUP-29: of that mode the last state that a prefill stops for is before its last token, and
    up to that steps end with blocks; if False, it is that of the last full block.
    """
    blocks_before_items: bool = False
    """GROUP-29: a step is cut to whole blocks before its encoder inputs are planned; if False,
    after.
    """
    prompt_states_awaited: bool = False
    """GROUP-70: the state that a prompt can be hit by is not hit in a step that computes nothing
    but a part of a block behind it, if its request has it still.
    """
    gaps_swept: bool = False
    """GROUP-28: whichever state is behind the last settled one goes back; if False, those before
    a null block stay.
    """
    inner_states_kept: bool = True
    """GROUP-72: a step of more than one block may keep the state before its last one too, where
    the kind of layers can, and a prefill is not cut for that one; if False, none can.
    """
    long_tables_stay: bool = False
    """GROUP-27: a table that has more places than its tokens need keeps them; if False, the step
    raises.
    """
    states_shorten_quietly: bool = False
    """GROUP-62: Mamba layers of an EAGLE-like method count at first as a kind that drops its last
    hit: where they shorten the length, no other kind drops its last hit again.
    """
    events_tell_origin: bool = False
    """OUT-8: events have fields for where a block lies, who owns it and whose session stored it;
    without a connector they are empty.
    """
    holders_wait_apart: bool = False
    """WAIT-60: whoever waits with blocks, a session or one that is loaded, stands in a queue of
    its own, which is served first, and alone while no new requests are admitted.
    """
    pausing_sessions_keep_seats: bool = False
    """WAIT-61: a session that waits for its next chunk keeps one of max_num_seqs places."""
    second_runner_keeps_tokens: bool = False
    """OUT-3: the second model runner is sent no tokens again of a request that it knows."""
    pipeline_paces_tokens: bool = False
    """RUN-43: scheduled ahead for the second model runner, beside a pipeline, a request that
    samples is passed over until there have been as many steps as the pipeline has stages.
    """
    freed_unhashed_first: bool = False
    """POOL-12: freed blocks without a hash go to the front of the free queue, in their order."""
    windows_await_outputs: bool = False
    """GROUP-6: a block goes back when no token will see it that is computed or in flight; if
    False, those in flight count as computed.
    """
    caps_count_flight: bool = False
    """GROUP-3: the gate reckons with as many steps in flight as there may be; if False, with
    one.
    """
    narrow_windows_uncached: bool = False
    """GROUP-19: of a window of one token no block is cached, whatever the size of blocks."""
    last_hash_stands: bool = False
    """GROUP-40: a block that several hashes cover is known by the last of these; if False, by all
    of them.
    """
    prompt_ends_cached: bool = False
    """GROUP-41, GROUP-67: a block of full attention in which a prompt ends, that several hashes
    cover, is known by the last whole one of the prompt too.
    """
    dropped_hits_reach_on: bool = False
    """GROUP-63, GROUP-18: what is dropped may be the block of the last token, and is cached behind
    where a hit may end; if False, it ends before that token, and nothing is cached there.
    """
    lone_prefill_uncut: bool = False
    """RUN-40: the long-prefill threshold does not bind a request that nobody competes with."""
    grants_not_negative: bool = False
    """RUN-41: a request that is beyond max_model_len gets no token, instead of less than none."""
    least_token_budget: bool = False
    """RUN-42: max_num_batched_tokens bounds a step even where max_num_scheduled_tokens is more."""
    vectors_take_no_place: bool = False
    """RUN-44: a step of a model that makes no tokens leaves no place for one, neither below
    max_model_len nor among what is in flight.
    """
    resumes_await_output: bool = False
    """WAIT-30: a request preempted with output in flight is resumed when that has arrived, and is
    passed by others until then.
    """
    admission_watermark: bool = False
    """WAIT-31: while somebody runs, an admission leaves a share of all blocks free."""
    resets_report_preempted: bool = False
    """LIFE-3: whom a reset preempts is reported as preempted with the next step."""
    admissions_look_ahead: bool = False
    """DRAFT-4: whoever is admitted gets slots for the drafts that will be proposed, too."""
    admissions_padded: bool = False
    """DRAFT-41: whoever is admitted with one token to compute, beside requests that decode, gets
    placeholders for as many drafts as these may have.
    """
    drafting_takes_slots: bool = False
    """DRAFT-42: a draft model takes one of max_num_batched_tokens places for each request."""
    items_held_by_place: bool = False
    """ENC-41: a request that has an item twice refers to its embeddings for the sake of each
    place, until it has passed the last; if False, until it has passed the first.
    """
    whole_items_if_kept: bool = False
    """ENC-2: an item that must not be cut is not, even if its embeddings are in the cache."""
    items_behind_counted: bool = False
    """ENC-3: under an EAGLE-like method an item is computed that begins right behind the step."""
    passed_items_known: bool = False
    """ENC-14: an item is passed once what is behind it is known, whatever is in flight, and the
    draft model has read on.
    """
    evictions_told_if_gone: bool = False
    """OUT-15: an item that was evicted in a step, and is in the cache again, is not reported."""
    drafts_counted_by_place: bool = False
    """DRAFT-8: statistics have a place for each of num_spec_tokens drafts; more of them raise."""
