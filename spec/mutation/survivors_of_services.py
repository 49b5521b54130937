"""Mutants of KV connectors, sessions and later lines' drafts that no engine notices, and why."""

from nullblock.spec.mutation.reasons import APART, NOUGHT, SETTLED, Reason

WORLD = Reason(
    "unobserved",
    "which blocks a load writes to is asked by statements, and by the world, to know what may be "
    "reported as not loaded; the machine never asks",
)
NO_CONNECTOR = Reason(
    "equivalent",
    "without a connector nothing is offered, loaded or kept, and nobody lacks a block: what is "
    "read says so itself, and what is written is what is there",
)
OFFER = Reason(
    "equivalent",
    "what is offered is asked anew where a lookup ends, and read until its request has its slots, "
    "of that request alone: what is left of it afterwards nobody reads before that",
)
ENDS_ANYHOW = Reason(
    "equivalent",
    "in normative whoever lacks blocks ends with the update, and all that it is owed with it; "
    "vllm-0.22.1 leaves the output counted",
)
IN_THE_LIST = Reason(
    "equivalent", "it is asked of places in the table, or of seats in the running list, alone"
)
NO_SLOTS = Reason(
    "equivalent",
    "what drafts take of a batch is nothing then, and a batch has room for the whole budget",
)
LESS_THAN_NOTHING = Reason(
    "equivalent",
    "whoever asks whether something is left stops at less than nothing as at nothing",
)


SERVICES: dict[str, Reason] = {
    # loads, by where they write -----
    "rules.loads.arrive.*": WORLD,
    "rules.loads.stop_loading.*": WORLD,
    "rules.reclaim.reclaim.skip-6": WORLD,
    "rules.loads.forget_load.skip-3": WORLD,
    "rules.loads.forget_load.constant-[56]": WORLD,
    "rules.remote.end_one_way.condition-1": WORLD,
    "rules.loads.end_load.skip-2": WORLD,
    "rules.loads.end_load.constant-[34]": WORLD,
    "rules.remote.let_kept_go.skip-1": WORLD,
    "rules.remote.let_kept_go.constant-[12]": WORLD,
    "rules.loads.begin_load.skip-1": WORLD,
    "rules.loads.forget_load.skip-5": WORLD,
    "rules.loads.forget_load.constant-9": WORLD,
    "rules.loads.forget_load.constant-10": WORLD,
    "rules.remote.keep.condition-5": WORLD,
    "loaded.is_written_to.*": WORLD,
    "rules.steps.pass_over.skip-2": WORLD,
    "rules.steps.pass_over.order-2": WORLD,
    "rules.steps.drop_token.skip-1": WORLD,
    "rules.steps.take_token.skip-1": WORLD,
    # without a connector -----
    "rules.loads.forget_load.condition-1": NO_CONNECTOR,
    "rules.loads.forget_offer.condition-1": NO_CONNECTOR,
    "rules.loads.forget_report.condition-1": NO_CONNECTOR,
    "rules.loads.ask_remote.condition-1": NO_CONNECTOR,
    "rules.loads.take_loaded.condition-1": NO_CONNECTOR,
    "machine.update.end_failed.condition-1": NO_CONNECTOR,
    "remote.is_unsure.condition-2": NO_CONNECTOR,
    "remote.loaded_at_once.condition-2": NO_CONNECTOR,
    "remote.is_transferring.condition-2": NO_CONNECTOR,
    # offers -----
    "rules.loads.forget_offer.*": OFFER,
    "rules.lookup._forget_lookup.skip-7": OFFER,
    "remote._is_loaded_for.conjunct-[12]": OFFER,
    "remote.loaded_at_once.conjunct-1": OFFER,
    "remote.offered.boundary-1": NOUGHT,
    # who lacks blocks -----
    "rules.loads.forgive.*": ENDS_ANYHOW,
    "rules.drafts.forgive_drafts.*": ENDS_ANYHOW,
    "rules.steps.pass_over.skip-1": ENDS_ANYHOW,
    "lost.is_missing.conjunct-[12]": IN_THE_LIST,
    "lost.is_missing.boundary-2": IN_THE_LIST,
    "remote.is_found_running.*": IN_THE_LIST,
    # who is gone, or kept -----
    "rules.remote.keep.skip-[56]": SETTLED,
    "rules.remote.keep.constant-[789]": SETTLED,
    "rules.remote.keep.constant-10": SETTLED,
    # what drafts take of a batch -----
    "later.left.boundary-1": NOUGHT,
    "later.left.condition-4": NO_SLOTS,
    "later.left.condition-5": LESS_THAN_NOTHING,
    "later.left.constant-2": LESS_THAN_NOTHING,
    # order -----
    "rules.queues._erase.order-[123]": APART,
    "rules.lookup.schedule_running.order-[12]": APART,
    "rules.lookup.admit.order-[23]": APART,
    "rules.steps.begin_step.order-2": APART,
    "rules.steps.end_update.order-1": APART,
    "rules.steps.pass_over.order-1": APART,
    "rules.sessions.end_running_turn.order-1": APART,
    "rules.sessions.end_waiting_turn.order-1": APART,
    "rules.sessions._take_next.boundary-1": NOUGHT,
}
