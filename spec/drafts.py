"""The readings of speculative decoding: what drafts add to a decision.

A draft is a token that is proposed for a position before the model has sampled it. A step computes
the drafts it is given behind the tokens that are known, and its output says how many of them the
model agrees with: these are taken, the others rejected, and one token is sampled as ever.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import RUN_PHASE, RUNNING
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.remote import keeps_what_it_has, loads_later
from nullblock.spec.sessions import continues


def placeholders(s: State, r: Value) -> Value:
    """Tokens of r in flight, if the model agrees with every draft: num_output_placeholders."""
    return s.ph[r] + s.pd[r]


def tokens_ahead(s: State, r: Value) -> Value:
    """Of those, what scheduling ahead may compute: none in step."""
    return ite(s.k.asynchronous, placeholders(s, r), 0)


def computable(s: State, r: Value) -> Value:
    """The most tokens of r that can be computed: those known, drafts in flight, and scheduling
    ahead all that is in flight; while outputs of an earlier run are in flight, those known.
    """
    return s.ntok[r] + ite(s.old[r] > 0, 0, s.pd[r] + ite(s.k.asynchronous, s.ph[r], 0))


@clause("DRAFT-1")
def relied_on(s: State, r: Value) -> Value:
    """Scheduling ahead, tokens in flight are computed before they are known, unless a request that
    was preempted meanwhile has drafts among them: how many tokens they will be is not known.

    Source: Scheduler.schedule, running phase. vllm-0.22.1 computes them all the same.
    """
    if not s.k.asynchronous:
        return 0
    if s.k.sem.rejections_keep_to_their_run:
        return ite(s.old[r] > 0, 0, placeholders(s, r))
    return placeholders(s, r)


@clause("DRAFT-2")
def behind(s: State, r: Value) -> Value:
    """A running request is behind by the tokens that are known or in flight, and by its drafts;
    never by fewer than none.

    Source: Scheduler.schedule, num_tokens_with_spec. In vllm-0.22.1, in step, a request whose
    drafts are in flight is behind by a negative number of tokens, and is scheduled for it.
    """
    n = s.ntok[r] + relied_on(s, r) + s.spec[r] - s.comp[r]
    return ite(n > 0, n, 0) if s.k.sem.never_scheduled_back else n


@clause("DRAFT-3")
def drafts_granted(s: State, r: Value) -> Value:
    """Of the tokens that a request is granted those beyond the known ones are drafts, the first of
    those proposed; the others are lost.

    Source: Scheduler.schedule, scheduled_spec_decode_tokens.
    """
    n = s.asked + s.comp[r] - s.ntok[r] - relied_on(s, r)
    return ite(n > 0, least(s.spec[r], n), 0)


@clause("DRAFT-4")
def lookahead(s: State) -> Value:
    """A running request gets slots for the drafts that will be proposed, where what proposes them
    writes to the cache; a request that is admitted gets none, unless it continues a session or
    what was loaded for it.

    Source: Scheduler.schedule, num_lookahead_tokens: as many as drafts for EAGLE-like methods and
    draft models, none for ngram. In vllm-0.32.0 whoever is admitted gets them too, but for whom
    something is to be loaded.
    """
    if s.k.sem.admissions_look_ahead:
        return ite(loads_later(s, s.actor), 0, s.k.lookahead)
    goes_on = either(continues(s, s.actor), keeps_what_it_has(s, s.actor))
    return ite(either(s.phase == RUN_PHASE, goes_on), s.k.lookahead, 0)


@clause("DRAFT-5")
def reach(s: State, tokens: Value) -> Value:
    """A request that may grow to so many computed tokens needs slots for drafts beyond them; with
    drafts in flight, ahead of what is known, for all that max_model_len allows.

    Source: our decision, for `servable`.
    """
    most = least(tokens + s.k.num_spec + s.k.lookahead, s.k.max_len)
    return ite(both(s.k.asynchronous, s.k.num_spec > 0), s.k.max_len, most)


def remembers_chunks(s: State) -> Value:
    """Whether it decides something that the last step left a request short of a token."""
    asked = either(not s.k.sem.drafts_for_running_only, s.k.sem.admissions_padded)
    return both(s.k.drafts, asked)


def may_take(s: State, r: Value) -> Value:
    """Whether no token is unsettled that was taken before r's next one."""
    return either(s.open == 0, both(s.open == 2, r == s.taker))


@clause("DRAFT-6")
def may_propose(s: State, r: Value) -> Value:
    """Drafts are taken for a running request that awaits no output and has one token to compute.

    Source: Scheduler.update_draft_token_ids. vllm-0.22.1 keeps them for whoever is known, and
    forgets them where the last step left tokens uncomputed. Scheduling ahead a request has as many
    as it may have, without being told.
    """
    if s.k.sem.drafts_for_running_only:
        return both(
            neg(s.k.asynchronous),
            s.stage[r] == RUNNING,
            s.ph[r] == 0,
            s.comp[r] + 1 == s.ntok[r],
        )
    return True
