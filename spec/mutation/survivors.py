"""Mutants that no engine notices, and why: one by one, or a kind at a time where one reason holds
for all of a kind.

A reason is an argument, and not a search that came to nothing: it says why the machine cannot go
another way, or what would have to be added to see it.
"""

from fnmatch import fnmatch

from nullblock.spec.mutation.generate import Mutant
from nullblock.spec.mutation.guards import asks_less
from nullblock.spec.mutation.reasons import (
    APART,
    NO_HASHES,
    NONE_HELD,
    NOUGHT,
    ONLY_A_GUARD,
    ONLY_STATED,
    OUTLINE,
    PLACES,
    SAME_CUT,
    SEES_ALL,
    SETTLED,
    WATERMARK_AND_WINDOW,
    WEAKER_GUARD,
    YES_OR_NO,
    Reason,
)
from nullblock.spec.mutation.survivors_of_features import FEATURES
from nullblock.spec.mutation.survivors_of_services import SERVICES
from nullblock.spec.mutation.survivors_of_switches import SWITCHES


def reason(m: Mutant) -> Reason | None:
    """Why a mutant goes unnoticed, if that is known."""
    for pattern, why in ONE_BY_ONE.items():
        if fnmatch(m.id, pattern):
            return why
    return WEAKER_GUARD if asks_less(m) else None


GHOST = Reason(
    "equivalent",
    "a ghost field is written for the invariants alone, and decides nothing; what they say of it "
    "still holds, or says less",
)
REFUSALS = Reason(
    "unobserved",
    "who was refused is told by what `add` returns; the list is kept for stories alone",
)
EMPTY_TURN = Reason(
    "equivalent", "the first turn is for nobody, who is not scheduled; the next is as before"
)
WITHIN_STEP = Reason(
    "equivalent",
    "the field is set in the step that admits, and emptied when that step is advanced; a request "
    "is forgotten only between steps and in updates, when it is empty",
)
ONE_LEAVER = Reason(
    "equivalent", "it is asked between operations, when nobody is half-way out (LIFE-12)"
)

IN_THE_LIST = Reason(
    "equivalent",
    "indices begin at 0, the running list has no entries beyond its length, and nobody stands in "
    "it twice (RUN-10)",
)
ANEW = Reason(
    "equivalent", "what a request that is gone leaves behind is set anew when its id arrives again"
)
NOTHING_TO_WITHDRAW = Reason(
    "equivalent",
    "between steps every cached block is computed or in flight (HASH-5): there is nothing to "
    "withdraw, so when it is tried does not matter",
)
ENDED = Reason(
    "equivalent",
    "with no token in flight a request that has all its tokens has stopped already (LIFE-14)",
)
BORN_LATER = Reason(
    "equivalent",
    "a request that is gone has arrival 0, and every entry's is above it; a later owner of the id "
    "has arrived later: only equality is left",
)
FROM_NOUGHT = Reason(
    "equivalent",
    "it is asked only whether any step is in flight, or of the step scheduled last, which the "
    "explorer numbers from 0",
)
SKIPPED_ONE_BY_ONE = Reason(
    "equivalent", "with no budget left everybody gets 0 tokens, and is passed over one by one"
)
KNOWN_ALREADY = Reason(
    "equivalent",
    "not ahead, a computed token is a known one, and its block was cached as it was scheduled; a "
    "request that does not run has nothing computed (RUN-17): there is nothing to publish",
)
BY_INDEX = Reason(
    "unobserved",
    "where outputs are made an index answers how many hold blocks, and not this text; that the "
    "index answers as the text does is shown in `tests/spec/test_indexed.py`",
)
PIPELINE = Reason(
    "unreached",
    "it takes several steps in flight without scheduling ahead, a request preempted with its last "
    "token in flight, and resumed in chunks: no scope has all three",
)


NEVER_COUNTED = Reason(
    "equivalent",
    "where the switch is off no output is stale, no watermark is set, and whoever a reset "
    "preempted is forgotten as a step begins: what is counted besides is asked by nobody",
)
STALE_BY_RESET = Reason(
    "equivalent",
    "whoever runs with stale output was let in because that output is worthless (WAIT-30)",
)
SET_WITH_STALE = Reason(
    "equivalent", "the flag is read of stale output alone, and set whenever output becomes stale"
)
NO_CUT = Reason("equivalent", "a threshold that is not above 0 cuts nothing")
BY_READY = Reason(
    "unobserved",
    "where requests are passed by, an index answers who is ready, and not this text; that the "
    "index answers as the text does is shown in `tests/spec/test_indexed.py`",
)

ONLY_ONE = Reason("equivalent", "it is only asked whether the flag is 1")
NOBODY_ASKS = Reason(
    "equivalent",
    "only vllm-0.22.1 asks for the flag, and whoever pads admissions, and only where drafts come: "
    "elsewhere it is remembered for nobody",
)
TOGETHER = Reason(
    "unreached",
    "it could differ only where rejections keep to their run and outputs are not counted: every "
    "profile has both or neither",
)
KEPT_PROMISE = Reason(
    "equivalent", "a promise that is kept is asked for less often: nothing that is done is other"
)
NONE_LEFT = Reason("equivalent", "it is only asked whether a draft of the entry is left")
GONE_WITH_IT = Reason(
    "equivalent",
    "whoever stops on a draft is gone at the end of the same output, and of its counters only "
    "their difference is asked for before, which stays",
)
AWAITED = Reason(
    "equivalent", "a running request that has computed all of its tokens awaits an output (RUN-18)"
)

NOBODY_SKIPPED = Reason(
    "equivalent",
    "where nobody waits for anything but its turn nobody lacks anything, nobody is passed over "
    "and nobody stands in the skipped queue: what is asked then says so itself",
)
REFUSED_ANYHOW = Reason(
    "equivalent",
    "whoever the gate lets in against its last block asks for that block at once, and has to "
    "stay as if the gate had held it back: it holds nothing, so it has given nothing back",
)
STATED = Reason("equivalent", "statements alone read it: the machine does the same")
AWAITED_OR_NOT_COME = Reason(
    "equivalent", "nothing has come for a request that awaits nothing (WAIT-47)"
)
PROMOTED_FIRST = Reason(
    "equivalent",
    "whoever has what it awaited is promoted before it is asked whether it has to wait; and what "
    "is there may come again, which changes nothing",
)
ANSWERED = Reason(
    "unobserved",
    "whether a grammar was awaited is told by what `compiled` returns, and nobody asks for that",
)
ONE_IN_STEP = Reason(
    "equivalent",
    "in step a request has one output in flight at most: until that has come it has no token to "
    "compute beyond the known ones, and owes none; vllm-0.22.1 does not count it at all (UPD-17)",
)

ONE_BY_ONE: dict[str, Reason] = {
    **FEATURES,
    **SERVICES,
    **SWITCHES,
    "groups.is_null.condition-1": SEES_ALL,
    "groups.is_padding.condition-1": SEES_ALL,
    "groups.is_pending.condition-1": SEES_ALL,
    "groups.is_pending.conjunct-1": STATED,
    "groups.is_pending.negate-1": STATED,
    "groups.is_pending.boundary-1": STATED,
    "groups.is_pending.off-by-one-1": STATED,
    "groups.stands_still.condition-1": SEES_ALL,
    "groups.in_table.condition-1": SEES_ALL,
    "groups.in_table.conjunct-1": IN_THE_LIST,
    "groups.ends_run.boundary-2": NOUGHT,
    "groups.ends_run.off-by-one-1": NOUGHT,
    "groups.missing.sign-[2356]": NONE_HELD,
    "groups.missing.boundary-1": NOUGHT,
    "groups.missing.off-by-one-1": REFUSED_ANYHOW,
    "groups.missing.condition-3": WATERMARK_AND_WINDOW,
    "groups.missing.constant-2": WATERMARK_AND_WINDOW,
    "rules.lookup.look.condition-1": SEES_ALL,
    "rules.lookup.look.condition-2": Reason(
        "equivalent",
        "the machine passes over what the next token does not see before it looks, and every hit "
        "brings the lookup further: the guard holds wherever it is asked",
    ),
    "rules.lookup.begin_lookup.conjunct-[12]": WEAKER_GUARD,
    "state.head.condition-3": NOBODY_SKIPPED,
    "state.head.twin-4": NOBODY_SKIPPED,
    "state.is_head.condition-3": NOBODY_SKIPPED,
    "state.is_tried.conjunct-[1-5]": ONLY_A_GUARD,
    "waiting.comes_before.condition-[24]": STATED,
    "waiting.comes_before.conjunct-[12]": STATED,
    "waiting.comes_before.boundary-[123]": STATED,
    "waiting.comes_before.off-by-one-[123]": STATED,
    "waiting.has_come.conjunct-1": AWAITED_OR_NOT_COME,
    "waiting.lacks.conjunct-2": PROMOTED_FIRST,
    "waiting.masked_later.conjunct-1": ONE_IN_STEP,
    "waiting.nobody_to_serve.condition-1": NOBODY_SKIPPED,
    "machine.waiting.passed_over.condition-2": NOBODY_SKIPPED,
    "machine.events.compiled.result-[12]": ANSWERED,
    "rules.waiting.enter_skipped.constant-1": PLACES,
    "rules.steps.take_token.order-1": APART,
    "rules.steps.advance.constant-14": ONLY_ONE,
    "rules.drafts.forget_drafts.constant-4": ONLY_ONE,
    "rules.drafts.mark_chunk.condition-1": NOBODY_ASKS,
    "drafts.remembers_chunks.conjunct-[34]": NOBODY_ASKS,
    "rules.drafts.take_back.condition-5": TOGETHER,
    "rules.drafts.cut_off.condition-7": TOGETHER,
    "rules.drafts.take_draft.condition-4": KEPT_PROMISE,
    "rules.drafts.cut_off.constant-8": NONE_LEFT,
    "rules.drafts.take_back.skip-7": GHOST,
    "rules.drafts.take_back.sign-7": GHOST,
    "rules.drafts.take_back.condition-1[12]": GHOST,
    "rules.drafts.take_back.negate-4": GHOST,
    "rules.drafts.take_back.boundary-3": GHOST,
    "rules.drafts.take_back.off-by-one-4": GHOST,
    "rules.drafts.take_back.constant-[78]": GHOST,
    "machine.drafts.reject_rest.condition-1": GONE_WITH_IT,
    "drafts.computable.*": ONLY_STATED,
    "drafts.tokens_ahead.condition-1": ONLY_STATED,
    "drafts.behind.boundary-1": NOUGHT,
    "drafts.drafts_granted.boundary-1": NOUGHT,
    "drafts.may_take.conjunct-[34]": ONLY_A_GUARD,
    "drafts.may_propose.weaken-2": AWAITED,
    "rules.queues.preempt_for_reset.constant-9": YES_OR_NO,
    "rules.later.outdate.constant-[13]": YES_OR_NO,
    "rules.later.outdate.conjunct-1": STALE_BY_RESET,
    "rules.later.leave_flight.skip-3": SET_WITH_STALE,
    "rules.later.leave_flight.constant-[56]": SET_WITH_STALE,
    "rules.later.*.condition-1": NEVER_COUNTED,
    "later.anybody_ready.condition-1": NEVER_COUNTED,
    "later.is_stale.condition-1": NEVER_COUNTED,
    "later.is_worthless.condition-1": NEVER_COUNTED,
    "later.headroom.condition-1": NEVER_COUNTED,
    "later.threshold.constant-2": NO_CUT,
    "later.granted.boundary-1": NOUGHT,
    "later.is_ready.conjunct-1": BY_READY,
    "rules.queues.preempt_for_reset.order-*": APART,
    "state.index_of.*": IN_THE_LIST,
    "state.victim.conjunct-1": IN_THE_LIST,
    "state.victim.twin-*": IN_THE_LIST,
    "state.is_victim.*": ONLY_A_GUARD,
    "state.turn.conjunct-1": ONLY_A_GUARD,
    "state.at_rest.conjunct-*": ONLY_A_GUARD,
    "rules.queues._erase.skip-3": ANEW,
    "rules.queues._erase.constant-3": ANEW,
    "rules.queues._erase.constant-9": ANEW,
    "rules.queues._erase.constant-10": ANEW,
    "rules.pool.wipe.constant-1": GHOST,
    "machine.blocks.settled.condition-*": OUTLINE,
    "machine.blocks.settled.result-1": OUTLINE,
    "machine.schedule.schedule_or_preempt.sign-1": OUTLINE,
    "machine.events.reset_prefix_cache.*": NOTHING_TO_WITHDRAW,
    "state.last_in_flight.conjunct-1": ENDED,
    "state.last_in_flight.boundary-1": ENDED,
    "state.last_in_flight.condition-2": PIPELINE,
    "state.cut.boundary-2": SAME_CUT,
    "state.lookup_over.condition-2": NO_HASHES,
    "flight.answers.*": BORN_LATER,
    "flight.in_flight.sign-1": FROM_NOUGHT,
    "flight.begins.*": FROM_NOUGHT,
    "machine.schedule.schedule_running_requests.conjunct-2": SKIPPED_ONE_BY_ONE,
    "flight.caches_what_is_known.conjunct-*": KNOWN_ALREADY,
    "machine.output.common_prefix.*": BY_INDEX,
    "rules.pool._publish.constant-1": PLACES,
    "rules.queues.add_request.constant-[12]": PLACES,
    "rules.queues.requeue.constant-8": PLACES,
    "rules.pool._enqueue.constant-2": PLACES,
    "rules.queues.leave_running.condition-1": PLACES,
    "rules.queues.leave_running.constant-2": PLACES,
    "rules.queues.preempt.constant-10": PLACES,
    "rules.pool.release.constant-[167]": GHOST,
    "rules.pool.release.condition-[35]": GHOST,
    "rules.pool.release.boundary-[12]": GHOST,
    "rules.pool.wipe.skip-4": GHOST,
    "rules.lookup.admit.skip-10": GHOST,
    "rules.lookup.admit.constant-5": GHOST,
    "rules.steps.begin_step.skip-[57]": GHOST,
    "rules.lookup.admit.order-1": APART,
    "rules.queues.*_waiting.order-1": APART,
    "rules.pool.wipe.negate-2": WEAKER_GUARD,
    "rules.pool.wipe.conjunct-2": WEAKER_GUARD,
    "rules.pool.wipe.off-by-one-2": WEAKER_GUARD,
    "rules.steps.end_update.skip-[345678]": SETTLED,
    "rules.queues.reject.*": REFUSALS,
    "rules.steps.begin_update.skip-3": REFUSALS,
    "rules.steps.begin_update.constant-[12]": REFUSALS,
    "rules.steps.begin_advance.constant-2": EMPTY_TURN,
    "rules.queues._erase.skip-6": WITHIN_STEP,
    "rules.deferred.put_off.skip-[45]": GHOST,
    "rules.deferred.put_off.constant-9": GHOST,
    "rules.deferred.put_off.constant-10": GHOST,
    "rules.remote.report_unloaded.constant-1": GHOST,
    "rules.remote.evict_lacking.skip-2": GHOST,
    "rules.remote.evict_lacking.constant-[12]": GHOST,
    "rules.later.outdate.skip-5": GHOST,
    "rules.queues._erase.skip-4": ANEW,
    "rules.queues._erase.constant-[78]": ANEW,
    "rules.queues.forget.condition-[35]": ANEW,
    "rules.queues.forget.constant-3": ANEW,
    "hybrid.lacking.sign-[14]": NONE_HELD,
    "hybrid.lacking_whole.sign-2": NONE_HELD,
    "state.lookup_over.condition-4": NO_HASHES,
    "state.live.conjunct-2": ONE_LEAVER,
}
"""By the IDs, which may contain `*` and `[…]`."""
