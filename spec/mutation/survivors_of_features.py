"""Mutants of several KV-cache groups and of encoder inputs that no engine notices, and why."""

from nullblock.spec.mutation.reasons import (
    APART,
    NO_HASHES,
    NONE_BEFORE,
    NONE_HELD,
    NOUGHT,
    ONLY_A_GUARD,
    ONLY_STATED,
    OUTLINE,
    PLACES,
    SAME_CUT,
    SEES_ALL,
    WATERMARK_AND_WINDOW,
    YES_OR_NO,
    Reason,
)

NO_ITEMS = Reason(
    "equivalent",
    "where no model has an encoder, or a request no items, nothing is planned, referred to or let "
    "go of: what is asked then says so itself",
)
BEHIND_IT = Reason(
    "equivalent",
    "the guards behind the condition are not asked, and every firing of the machine satisfies "
    "them: the scopes are searched with all of them",
)
ONE_GROUP = Reason(
    "equivalent",
    "of one group the text of several says the same: its only table goes by the request's name",
)
OF_SEVERAL = Reason("equivalent", "it is asked only where there are several groups")
MIDWAY = Reason(
    "equivalent",
    "while hits are adopted statements alone read what is computed, and allow for it; with the "
    "last hit, of two groups at least, it is what all of them cover",
)
ALIKE = Reason(
    "equivalent",
    "the tables of a request are of one length (GROUP-16): where one lacks nothing none does, and "
    "what is less than nothing fits as nothing does",
)
ANEW_EACH_STEP = Reason(
    "equivalent",
    "entries beyond the count are never looked at, and are written before they are counted",
)
PROMPT_DONE = Reason(
    "equivalent",
    "whoever gets no token before its inputs are planned has its prompt computed or in flight, as "
    "has whoever ends: no item is left that it has not passed, or refers to",
)
BEHIND_THE_LAST = Reason(
    "equivalent",
    "behind the last item, and before the first, there is number 0, which ends where the prompt "
    "begins and to which nobody refers: a plan passes it, and is over",
)
IN_THE_STEP = Reason(
    "equivalent",
    "an item that is looked at begins before the step ends, and ends behind where it begins",
)
WHOSE_PLAN = Reason(
    "equivalent",
    "it is asked of a request only once the plan for it is made, which is forgotten before the "
    "next one is looked at",
)
TAKEN_OUT = Reason(
    "equivalent",
    "in vllm-0.22.1 the step has none of a victim's inputs any more when it lets go of them "
    "(ENC-13): there is nothing to take back",
)
EACH_ONCE = Reason(
    "equivalent",
    "all inputs of a victim are taken out, and the step tells what is left in its own order: "
    "which goes first is seen by nobody",
)
LEFT_TO_EAGLE = Reason(
    "equivalent",
    "whoever waits refers to something only in vllm-0.22.1 under EAGLE, where it stands inside an "
    "item, and has no output in flight then: no update lets it go",
)


FEATURES: dict[str, Reason] = {
    # several groups -----
    "groups.window.condition-1": ONE_GROUP,
    "groups.chunk.condition-1": ONE_GROUP,
    "groups.sees_part.condition-1": ONE_GROUP,
    "groups.most_held.condition-1": ONE_GROUP,
    "groups.most_held.condition-2": ONE_GROUP,
    "groups.tokens_passed.conjunct-2": NONE_BEFORE,
    "groups.tokens_passed.boundary-2": NOUGHT,
    "groups.passed_over_to.condition-2": SEES_ALL,
    "groups.missing.sign-4": NONE_HELD,
    "groups.missing.condition-5": WATERMARK_AND_WINDOW,
    "machine.groups.let_outlived_go.condition-1": SEES_ALL,
    "hybrid.of_all.condition-1": ONE_GROUP,
    "hybrid.comes_next.off-by-one-1": ONLY_A_GUARD,
    "hybrid.agreed.conjunct-1": NO_HASHES,
    "hybrid.covered.conjunct-2": MIDWAY,
    "hybrid.covered.off-by-one-1": MIDWAY,
    "hybrid.covered.weaken-[12]": MIDWAY,
    "hybrid.hit_table.condition-1": ONE_GROUP,
    "hybrid.is_for.condition-[12]": ONLY_A_GUARD,
    "hybrid.is_for.weaken-[12]": ONLY_A_GUARD,
    "hybrid.hit_place.condition-1": ONE_GROUP,
    "hybrid.wanted.condition-2": ONE_GROUP,
    "hybrid.scannable.sign-1": OUTLINE,
    "hybrid.scannable.constant-2": OUTLINE,
    "hybrid.adopted.boundary-1": NOUGHT,
    "hybrid.computed_blocks.*": ONLY_STATED,
    "hybrid.pending.condition-1": OF_SEVERAL,
    "hybrid.pending.sign-1": NONE_HELD,
    "hybrid.pending.sign-2": OF_SEVERAL,
    "hybrid.lacking.condition-2": ONE_GROUP,
    "hybrid.lacking.sign-3": NONE_HELD,
    "hybrid.lacking.boundary-1": NOUGHT,
    "hybrid.lacking_whole.condition-2": ONE_GROUP,
    "hybrid.lacking_whole.sign-1": NONE_HELD,
    "hybrid.held_at_most.condition-2": ONE_GROUP,
    "machine.output.blocks.condition-2": ONE_GROUP,
    "machine.output.common_prefixes.condition-4": ONE_GROUP,
    # encoder inputs -----
    "rules.lookup.*_to_*.condition-1": NO_ITEMS,
    "rules.lookup.hold_back.condition-1": NO_ITEMS,
    "rules.lookup.give_up.condition-1": NO_ITEMS,
    "rules.lookup.schedule_running.condition-3": NO_ITEMS,
    "rules.lookup.admit.condition-3": NO_ITEMS,
    "rules.queues.requeue.condition-1": NO_ITEMS,
    "rules.queues.*_waiting.condition-1": NO_ITEMS,
    "rules.queues.forget.condition-1": NO_ITEMS,
    "rules.steps.skip.condition-1": NO_ITEMS,
    "rules.steps.pass_over.condition-1": NO_ITEMS,
    "rules.steps.*_token.condition-1": NO_ITEMS,
    "rules.encoder.open_encoder.condition-1": NO_ITEMS,
    "rules.encoder.forget_plan.condition-1": NO_ITEMS,
    "rules.encoder.forget_inputs.condition-1": NO_ITEMS,
    "encoder.has_inputs.condition-1": NO_ITEMS,
    "encoder.has_inputs.boundary-1": NO_ITEMS,
    "encoder.refers_to_any.condition-1": NO_ITEMS,
    "encoder.has_passed_any.condition-1": NO_ITEMS,
    "encoder.has_scheduled.condition-1": NO_ITEMS,
    "encoder.granted.condition-2": NO_ITEMS,
    "encoder.gets_nothing.condition-2": NO_ITEMS,
    "encoder.encodable.condition-2": NO_ITEMS,
    "machine.encoder.*.condition-1": NO_ITEMS,
    "machine.output.encoder_inputs.condition-2": NO_ITEMS,
    "machine.output.evicted_items.condition-1": NO_ITEMS,
    "rules.lookup.*_to_*.condition-2": BEHIND_IT,
    "rules.lookup.hold_back.condition-2": BEHIND_IT,
    "rules.lookup.give_up.condition-2": BEHIND_IT,
    "rules.lookup.schedule_running.condition-[24]": BEHIND_IT,
    "rules.lookup.admit.condition-[24]": BEHIND_IT,
    "rules.pool.pop_block.condition-2": BEHIND_IT,
    "rules.queues.requeue.condition-2": BEHIND_IT,
    "rules.queues.*_waiting.condition-2": BEHIND_IT,
    "rules.queues.forget.condition-2": BEHIND_IT,
    "rules.steps.skip.condition-2": BEHIND_IT,
    "rules.steps.pass_over.condition-2": BEHIND_IT,
    "rules.steps.*_token.condition-2": BEHIND_IT,
    "rules.lookup._stay.order-1": APART,
    "rules.steps.begin_step.order-1": APART,
    "rules.steps.begin_advance.order-1": APART,
    "machine.schedule.preempt_one.order-[23]": APART,
    "machine.update.settle.order-[13589]": APART,
    "machine.events.abort.order-2": APART,
    "rules.encoder.forget_plan.skip-2": ANEW_EACH_STEP,
    "rules.encoder.forget_inputs.skip-[125]": ANEW_EACH_STEP,
    "rules.encoder.begin_plan.constant-4": BEHIND_THE_LAST,
    "rules.encoder.begin_plan.condition-2": PROMPT_DONE,
    "rules.encoder.begin_plan.skip-8": PROMPT_DONE,
    "rules.encoder.begin_plan.constant-8": PROMPT_DONE,
    "rules.encoder.pass_item.conjunct-[567]": ONLY_A_GUARD,
    "rules.encoder.end_before.conjunct-[12]": ONLY_A_GUARD,
    "rules.encoder.evict_item.conjunct-[12]": ONLY_A_GUARD,
    "rules.encoder.plan_item.conjunct-[12345]": ONLY_A_GUARD,
    "rules.encoder.take_input.constant-4": YES_OR_NO,
    "rules.encoder._leave.conjunct-1": TAKEN_OUT,
    "rules.encoder._leave.constant-3": PLACES,
    "encoder.is_over.boundary-1": BEHIND_THE_LAST,
    "encoder.is_over.off-by-one-1": BEHIND_THE_LAST,
    "encoder.looks_at.conjunct-[12]": ONLY_A_GUARD,
    "encoder.embeds_between.boundary-[123]": NOUGHT,
    "encoder.embeds_between.condition-5": IN_THE_STEP,
    "encoder.tokens_before.boundary-1": NOUGHT,
    "encoder.is_planned.conjunct-[34]": ONLY_A_GUARD,
    "encoder.is_taken.*": ONLY_A_GUARD,
    "encoder.granted.conjunct-2": WHOSE_PLAN,
    "encoder.gets_nothing.conjunct-[12]": WHOSE_PLAN,
    "encoder.refers.conjunct-[12]": BEHIND_THE_LAST,
    "encoder.refers.boundary-2": BEHIND_THE_LAST,
    "encoder.refers.conjunct-[45]": BEHIND_THE_LAST,
    "encoder.refers.boundary-4": BEHIND_THE_LAST,
    "rules.encoder.forget_inputs.condition-3": NO_ITEMS,
    "rules.pooling.take_vector.condition-1": NO_ITEMS,
    "rules.pooling.take_vector.condition-2": BEHIND_IT,
    "machine.output.evicted_items.condition-2": NO_ITEMS,
    "encoder.is_input_of.conjunct-[12]": BEHIND_THE_LAST,
    "encoder.is_input_of.boundary-2": BEHIND_THE_LAST,
    "encoder.last_scheduled.reverse-1": EACH_ONCE,
    "encoder.encodable.boundary-2": SAME_CUT,
    "encoder.encodable.constant-2": BEHIND_THE_LAST,
    "planning.runs_next.*": ONLY_A_GUARD,
    "planning.enters_next.*": ONLY_A_GUARD,
    "planning.is_turned_away.*": ONLY_A_GUARD,
    "planning.is_settled_next.*": ONLY_A_GUARD,
    "planning.gives_up_all.conjunct-*": ONLY_A_GUARD,
    "planning.gives_up_all.negate-4": LEFT_TO_EAGLE,
    "machine.update.settle.skip-15": PROMPT_DONE,
    "machine.update.settle.skip-18": LEFT_TO_EAGLE,
}
"""By the IDs, which may contain `*` and `[…]`."""
