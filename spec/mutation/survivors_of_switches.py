"""Mutants of conditions that only ask whether a feature is there, and of what one feature alone
has, that no engine notices, and why.
"""

from nullblock.spec.mutation.reasons import (
    APART,
    NONE_BEFORE,
    NOUGHT,
    PLACES,
    SETTLED,
    YES_OR_NO,
    Reason,
)

STATED = Reason("equivalent", "statements alone read it: the machine does the same")
NO_SESSIONS = Reason(
    "equivalent",
    "where no request is a session no chunk was ever taken or is awaited, and without a connector "
    "nobody waits with blocks: what is asked then says so itself",
)
NO_MAMBA = Reason(
    "equivalent",
    "without Mamba layers no table is one of theirs, no block stands beside, and nothing is noted "
    "of states or to be zeroed: what is asked then says so itself",
)
NO_STEP_STATES = Reason(
    "equivalent",
    "where no table is aligned none is taken for one, and of others what is noted of states is "
    "read by nobody",
)
NO_CROSS = Reason(
    "equivalent",
    "no table is one of cross-attention layers without them; and of a model with no encoder and "
    "decoder the inputs are forgotten as a step is decided: none is left to be noted",
)
NO_VECTORS = Reason("equivalent", "where no request wants a vector each says so itself")
NO_CLIENTS = Reason(
    "equivalent",
    "where clients are not told of ends what is noted for them is never told",
)
LOADS_ASK = Reason(
    "equivalent",
    "it is read beside a connector alone, where each lookup sets it anew as it begins",
)
NO_LOADS = Reason(
    "equivalent",
    "without a connector nothing is offered or loaded, so that no null block lies beyond a hit, "
    "and none is lacked or given back: what is asked then says so itself",
)
ONE_TABLE = Reason(
    "equivalent",
    "of one group the text of several says the same: its only table goes by the request's name, "
    "and its unit is a block",
)
NOT_BY_NAME = Reason("equivalent", "of several groups no table goes by the request's name")
EACH_PUT_OFF = Reason(
    "equivalent",
    "where no block is put off nobody asks which step computed a request last",
)
TWO_QUEUES = Reason(
    "unreached",
    "every profile keeps two queues: of those that were passed over, or of those that hold blocks",
)
IN_TURN = Reason(
    "unobserved",
    "where outputs are made an index answers, which lists no more than the text asks for, those "
    "who came first before the others; that it answers as the text does is shown in "
    "`tests/spec/test_indexed.py`",
)
FROM_SWITCHED = Reason(
    "equivalent", "it is asked only where the switch is as the condition wants it"
)
SPANS_ARE_KNOWN = Reason(
    "equivalent",
    "where it is known how far a hit reaches that is what the remote side is asked about at both "
    "times: asked twice it says the same",
)
NONE_LOST = Reason(
    "equivalent",
    "but for sessions of vllm-0.22.1 whoever waits stands in the queue, and who runs is not asked",
)
SMALL_NOTES = Reason(
    "equivalent",
    "entries beyond the count are never looked at, and are written before they are counted",
)
PUT_OFF = Reason(
    "equivalent",
    "the first that waits never overtakes the last, and places of blocks that are put off need "
    "only rise: behind the last of a request there is one that was the last of another",
)
LOOKING = Reason(
    "equivalent",
    "while the remote side looks nobody asks what it holds, and its answer sets that (REMOTE-2)",
)
WITH_THE_VECTOR = Reason(
    "equivalent",
    "whoever has its vector ends with the same output, and what was counted of it goes with it",
)
ASKED_TO_GROW = Reason(
    "equivalent",
    "it is asked in guards alone, which it lets through more often: see the guards that ask for "
    "less",
)
EACH_CLAIM = Reason("equivalent", "claims are only compared with one another")
WITH_OTHERS = Reason(
    "unreached",
    "every profile in which whoever resumes awaits its outputs drops a session's late ones",
)
NOT_THERE = Reason(
    "equivalent",
    "the null block carries no hash, so that nobody asks whether it was made in the step",
)
NO_READER = Reason("equivalent", "nobody reads it: `sessions.awaits_grammar` says the same")
ITSELF_PASSED = Reason(
    "equivalent", "whoever is passed is at hand before it is asked whether it has to be whole"
)
BY_PLACE = Reason(
    "equivalent", "where items are not held by place nobody asks which places are held"
)

BOTH_OR_NEITHER = Reason(
    "unreached",
    "it could differ only where one of both is on alone: every profile has both or neither",
)
NONE_BEHIND = Reason("equivalent", "there is no group behind the last one")
TOLD_ANEW = Reason(
    "equivalent",
    "whoever is put in anew has told the worker nothing: `told` is 0 of a table that was released "
    "(POOL-12), or whose turn is over (SESS-6); it is written again with the step",
)
TOLD_ALL = Reason(
    "equivalent",
    "whoever is put in again is told of all its blocks, whatever was told before, and it is "
    "written anew with the step",
)
NO_BUDGET = Reason(
    "equivalent",
    "while all is paused a step has no budget (WAIT-6), without which nobody is admitted (WAIT-5)",
)
ASKED_BEFORE = Reason(
    "unobserved",
    "whether a chunk is refused is told by the world, which asks for that before it sends one; "
    "nor does it send one to a session that has ended",
)
ONLY_A_LIST = Reason(
    "unobserved",
    "who is refused is told before it is written down: the list is kept for stories, and of its "
    "length it is only asked whether it is 0",
)

OF_THE_NEXT = Reason(
    "equivalent", "it is asked in an update alone, of the request whose output is applied next"
)
NOT_FIRST = Reason(
    "unreached",
    "no profile in which loaded blocks come back frees blocks without a hash first: places at the "
    "front are opened for nobody",
)
TABLE_BY_TABLE = Reason(
    "equivalent",
    "blocks to load into are taken of one table after the other, once its hits are adopted: the "
    "order of the machine brings both with it",
)
SEVERAL_LOAD = Reason(
    "equivalent",
    "it is asked of several groups alone, and without a connector nothing is to be loaded",
)
SAME_ORDER = Reason(
    "equivalent",
    "with nothing to load hits are adopted in the same order, and nothing is taken between them",
)
NO_MORE_UNSEEN = Reason(
    "equivalent", "no more is unseen of what is hit and loaded than there is of it"
)
NO_ENTRY = Reason(
    "equivalent", "of a step that there is not yet no entry is left: where it ends is 0"
)
ONE_WAY = Reason("equivalent", "what is reported is the end of one way at a time")
ANY_ORDER = Reason(
    "equivalent",
    "each such place is held in the end, whichever is the first, and holding one is all",
)
NOUGHT_OR_LESS = Reason(
    "equivalent", "it is only asked whether the number is above one that is never below 0"
)

SWITCHES: dict[str, Reason] = {
    "flight.has_answer.conjunct-[1345]": OF_THE_NEXT,
    "flight.has_answer.boundary-1": OF_THE_NEXT,
    "encoder.first_repeated.reverse-1": ANY_ORDER,
    "sessions.kept.boundary-2": NOUGHT,
    # statements alone -----
    "remote.computes_no_more.*": STATED,
    "remote.is_transferring.*": STATED,
    "remote.gives_back.*": STATED,
    "remote.last_*.condition-1": STATED,
    "remote.most_awaited.*": STATED,
    "sessions.may_hold.*": STATED,
    "sessions.blocks_are_kept.*": STATED,
    "pooling.has_its_vector.*": STATED,
    "state.longest.*": STATED,
    "loaded.may_be_lost.*": STATED,
    "waiting.is_put_aside.*": STATED,
    "waiting.lacks_grammar.*": NO_READER,
    # guards alone -----
    "slots.lacks_place.*": ASKED_TO_GROW,
    "aligned.grows_otherwise.*": ASKED_TO_GROW,
    "encoder.is_planned.conjunct-*": ASKED_TO_GROW,
    # sessions -----
    "rules.waiting.forget_chunks.condition-1": NO_SESSIONS,
    "later.num_pausing.condition-1": NO_SESSIONS,
    "sessions.max_tokens.condition-2": NO_SESSIONS,
    "sessions.chain.condition-1": NO_SESSIONS,
    "sessions.holds_while_waiting.condition-2": NO_SESSIONS,
    "sessions.num_waiting.condition-1": NO_SESSIONS,
    "sessions.is_lost.condition-2": NONE_LOST,
    "sessions.is_lost.conjunct-[123]": NONE_LOST,
    "sessions.has_work.conjunct-1": IN_TURN,
    "sessions.late_outputs.*": FROM_SWITCHED,
    "turns.goes_on.condition-2": NO_SESSIONS,
    "machine.update.settle.order-4": APART,
    "rules.sessions._next_turn.condition-1": NOT_BY_NAME,
    "rules.sessions._next_turn.constant-5": PLACES,
    "rules.sessions._next_turn.order-1": APART,
    "rules.sessions._let_late_outputs_go.conjunct-1": WITH_OTHERS,
    "rules.sessions._let_late_outputs_go.constant-3": YES_OR_NO,
    "machine.sessions.end_turn.condition-1": ONE_TABLE,
    "rules.sessions.refuse_chunk.skip-1": ONLY_A_LIST,
    "rules.sessions.refuse_chunk.constant-1": ONLY_A_LIST,
    "machine.sessions.send.result-*": ASKED_BEFORE,
    "machine.sessions.send.condition-2": ASKED_BEFORE,
    # several groups -----
    "groups.ends_run.boundary-1": NOUGHT,
    "hybrid.all_hits.constant-1": NONE_BEHIND,
    "machine.output.blocks.condition-[35]": TOLD_ANEW,
    "rules.lookup.admit.order-4": APART,
    "rules.pool.open_next.condition-1": ONE_TABLE,
    "rules.pool.open_next.conjunct-2": PLACES,
    "rules.pool.open_next.boundary-1": PLACES,
    "rules.pool.open_front.*": PLACES,
    "groups.cap.condition-1": ONE_TABLE,
    "hybrid.hit_table.condition-2": ONE_TABLE,
    "hybrid.hit_place.condition-2": ONE_TABLE,
    "hybrid.all_hits.condition-2": ONE_TABLE,
    "sizes.blocks_of.condition-1": ONE_TABLE,
    "sizes.full_of.condition-1": ONE_TABLE,
    "sizes.tokens_of.condition-1": ONE_TABLE,
    "sizes.cacheable.condition-1": ONE_TABLE,
    "sizes.is_left_out.condition-4": ONE_TABLE,
    "machine.groups.tell_tables.condition-1": ONE_TABLE,
    "groups.outlived.boundary-1": NOUGHT,
    "groups.to_take.boundary-1": NOUGHT,
    "groups.longest_run.conjunct-1": NONE_BEFORE,
    "hybrid.lacks.boundary-1": NOUGHT,
    "hybrid.overshoot.boundary-1": NOUGHT,
    "hybrid.hits_of.boundary-1": NOUGHT,
    "rules.groups.let_go.constant-3": PLACES,
    "rules.groups.let_go.order-1": APART,
    "rules.groups.drop_nulls.order-1": APART,
    "rules.pool.pop_block.order-1": APART,
    "rules.pool._take.order-1": APART,
    "rules.pool.publish.order-1": APART,
    # Mamba layers -----
    "mamba.is_mamba.condition-1": NO_MAMBA,
    "mamba.beside.condition-1": NO_MAMBA,
    "mamba.settled_states.condition-2": NO_MAMBA,
    "mamba.settled_states.conjunct-1": NO_MAMBA,
    "mamba.settled_states.conjunct-2": FROM_SWITCHED,
    "mamba.settled_states.boundary-1": NOUGHT,
    "sizes.needed.condition-3": NO_MAMBA,
    "hybrid.awaits_state.condition-2": NO_MAMBA,
    "hybrid.awaits_state.conjunct-1": IN_TURN,
    "rules.mamba.*.condition-1": NO_MAMBA,
    "rules.mamba.note_state.conjunct-3": NOT_THERE,
    "rules.mamba.forget_taken.skip-[12]": SMALL_NOTES,
    "machine.output.to_zero.condition-2": NO_MAMBA,
    "aligned.is_aligned.condition-1": NO_STEP_STATES,
    "aligned.lacking_states.boundary-1": NOUGHT,
    "aligned.next_to_move.boundary-1": NOUGHT,
    "aligned.would_shrink.condition-2": NO_STEP_STATES,
    "aligned.would_shrink.result-1": NO_STEP_STATES,
    "rules.lookup.ask_to_run.condition-3": NO_STEP_STATES,
    "rules.aligned.*.condition-1": NO_STEP_STATES,
    # cross-attention, encoder inputs, vectors and clients -----
    "cross.is_cross.condition-1": NO_CROSS,
    "cross.is_told_to_forget.condition-1": NO_CROSS,
    "machine.cross.note_inputs.condition-1": NO_CROSS,
    "rules.cross.close_encoder.skip-[12]": SMALL_NOTES,
    "rules.encoder.wipe_embeddings.skip-6": SMALL_NOTES,
    "rules.encoder.hold_place.condition-1": BY_PLACE,
    "rules.encoder.let_go_of.condition-1": BY_PLACE,
    "encoder.is_repeated.conjunct-[15]": NONE_BEFORE,
    "encoder.is_repeated.boundary-1": NONE_BEFORE,
    "encoder.is_repeated.off-by-one-1": NONE_BEFORE,
    "encoder.must_be_whole.conjunct-2": ITSELF_PASSED,
    "pooling.pools.condition-1": NO_VECTORS,
    "rules.pooling.take_vector.condition-3": WITH_THE_VECTOR,
    "rules.clients.note_end.condition-1": NO_CLIENTS,
    "machine.update.let_hear.condition-1": NO_CLIENTS,
    # connectors -----
    "rules.lookup.begin_lookup.condition-1": LOADS_ASK,
    "rules.lookup._forget_lookup.skip-[45]": LOADS_ASK,
    "rules.lookup._forget_lookup.constant-9": LOADS_ASK,
    "rules.lookup._forget_lookup.constant-10": LOADS_ASK,
    "rules.lookup.end_lookup.condition-1": SPANS_ARE_KNOWN,
    "hybrid.next_token.condition-2": NO_LOADS,
    "hybrid.hits_of.condition-4": NO_LOADS,
    "machine.schedule.gets_slots.condition-4": NO_LOADS,
    "machine.schedule.admit_or_make_room.condition-1": NO_LOADS,
    "reclaim.may_reclaim.condition-2": NO_LOADS,
    "reclaim.may_reclaim.result-1": NO_LOADS,
    "remote.goes_on.condition-2": NO_LOADS,
    "remote.loads_later.condition-2": NO_LOADS,
    "remote.stays.condition-2": NO_LOADS,
    "remote.awaits_load.condition-1": NO_LOADS,
    "remote.lacks_blocks.condition-1": NO_LOADS,
    "later.set_aside.condition-4": NO_LOADS,
    "lost.is_short.constant-2": NONE_BEFORE,
    "remote.anybody_running_short.constant-2": NONE_BEFORE,
    "lost.has_own.constant-2": NONE_BEFORE,
    "lost.claim_of.constant-1": EACH_CLAIM,
    "rules.loads.doubt.*": LOOKING,
    # blocks that are put off, and who waits with blocks -----
    "deferred.defers.condition-1": EACH_PUT_OFF,
    "deferred.is_due.condition-2": EACH_PUT_OFF,
    "rules.later.take_off.condition-3": EACH_PUT_OFF,
    "rules.later.leave_flight.condition-3": EACH_PUT_OFF,
    "rules.reclaim.reclaim.skip-3": NOT_FIRST,
    "rules.reclaim.reclaim.constant-[34]": NOT_FIRST,
    "rules.reclaim.reclaim.order-1": APART,
    "loaded.lacks_to_load.*": TABLE_BY_TABLE,
    "loaded.to_load.weaken-2": NO_MORE_UNSEEN,
    "machine.loaded.takes_to_load.condition-1": SEVERAL_LOAD,
    "machine.loaded.take_to_be_loaded.condition-1": SEVERAL_LOAD,
    "machine.loaded.adopt_and_load.condition-3": SAME_ORDER,
    "remote.ends_all.conjunct-2": ONE_WAY,
    "rules.remote.keep.skip-[78]": SETTLED,
    "deferred.is_due.conjunct-1": NO_ENTRY,
    "deferred.is_due.boundary-1": NO_ENTRY,
    "rules.later.leave_flight.constant-8": NOUGHT_OR_LESS,
    "rules.deferred.put_off.skip-3": TOLD_ALL,
    "rules.deferred.put_off.reverse-2": TOLD_ALL,
    "rules.deferred.put_off.sign-4": TOLD_ALL,
    "rules.deferred.put_off.constant-[78]": TOLD_ALL,
    "later.counts_flight.*": BOTH_OR_NEITHER,
    "later.is_open.conjunct-1": IN_TURN,
    "later.is_open.conjunct-5": NO_BUDGET,
    "later.still_lacks.boundary-2": NOUGHT,
    "rules.queues.requeue.constant-6": PLACES,
    "rules.deferred.take_back.weaken-2": PUT_OFF,
    "rules.deferred.take_back.condition-4": PUT_OFF,
    "rules.deferred.take_back.skip-[345]": SMALL_NOTES,
    "rules.later.*_fill*.constant-1": YES_OR_NO,
    "rules.later.fill_on.constant-1": YES_OR_NO,
    "rules.waiting.wait_apart.constant-1": PLACES,
    "rules.waiting.wait_apart.skip-2": IN_TURN,
    "rules.waiting.stand_apart.constant-1": PLACES,
    "rules.waiting.stand_apart.condition-3": TWO_QUEUES,
    "rules.waiting.leave_holders.constant-3": PLACES,
    "rules.waiting.open_gap.condition-1": PLACES,
    "rules.waiting.open_gap.constant-1": PLACES,
    "waiting.num_skipped.anybody-1": IN_TURN,
    "waiting.next_in_line.conjunct-1": TWO_QUEUES,
    "waiting.is_next.condition-6": TWO_QUEUES,
    "waiting.is_next.denied-3": TWO_QUEUES,
    "waiting.is_next.reverse-1": TWO_QUEUES,
    "waiting.is_next.anybody-3": TWO_QUEUES,
    "rules.steps.end_running.order-1": APART,
    "rules.steps.end_waiting.order-1": APART,
    "rules.steps.begin_advance.order-2": APART,
}
"""By the IDs, which may contain `*` and `[…]`."""
