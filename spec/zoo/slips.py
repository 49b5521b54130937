"""What each systematic mutant that stands for a defect changes, as `nullblock mutate` says it.

The ID of a mutant counts places in a function: where the function gets a line more, an ID may come
to name another place, and an entry another slip. Tests hold the IDs to these sentences.
"""

SLIPS: dict[str, str] = {
    "encoder.has_passed.conjunct-4": "`s.k.item_end(r, i) <= s.comp[r]` is dropped",
    "groups.ends_run.sign-1": (
        "`blocks_of(s, t, window(s, t) - 1) + drops` becomes "
        "`blocks_of(s, t, window(s, t) - 1) - drops`"
    ),
    "groups.is_padding.negate-1": "`s.hit[s.na] == s.k.NULL` becomes `s.hit[s.na] != s.k.NULL`",
    "hybrid.agreed.anybody-1": (
        "`both(n <= last, of_all(s, r, lambda t: accepts(s, t, n * unit, 0)))` is not asked for"
    ),
    "hybrid.agreed.condition-1": "`hits_nothing(s, r)` holds always",
    "hybrid.awaits_state.condition-1": "`not s.k.mamba` holds always",
    "hybrid.lacks.condition-4": "`n > 0` never holds",
    "machine.blocks.free_table.condition-4": "`awaits_steps(s, s.k.owner(t))` never holds",
    "machine.encoder.plan_to_enter.skip-2": "`let_inputs_go(s, r)` is left out",
    "machine.events.num_unfinished.condition-4": "`s.pause == UNPAUSED` never holds",
    "machine.output._cached.negate-1": "`s.fresh[r] == RESUMED` becomes `s.fresh[r] != RESUMED`",
    "machine.output.evicted_items.condition-4": "`s.k.sem.evictions_told_if_gone` never holds",
    "machine.output.tokens_again.condition-5": "`s.k.mem(s.prev, r)` holds always",
    "machine.remote.received.condition-2": "`s.stage[r] == KEPT` never holds",
    "machine.schedule.schedule_or_preempt.condition-4": (
        "`awaits_steps(s, s.run[victim(s)])` never holds"
    ),
    "machine.update.publish_known_of.skip-3": "`s.k.tell(stored, s, t, first)` is left out",
    "machine.update.settle.condition-2": "`neg(owes_token(s, s.cur))` never holds",
    "remote.counted_on.reverse-1": "`least(s.comp[r], s.ntok[r] - 1)` takes the greater",
    "remote.keeps_what_it_has.condition-2": "`s.k.connector` never holds",
    "remote.stays.conjunct-1": "`is_loading(s, r)` is dropped",
    "rules.aligned.move_state.skip-2": "`s.tab[t, n] = b` is left out",
    "rules.pool._enqueue.constant-3": "a 1 becomes 2",
    "rules.pool._enqueue.skip-4": "`s.back += 1` is left out",
    "rules.pool._enqueue.skip-5": "`s.nfree += 1` is left out",
    "rules.pool._publish.skip-2": "`_know(s, b, chain(s, t, i))` is left out",
    "rules.pool._unhash.skip-1": "`s.k.tell(removed, s, b)` is left out",
    "rules.pool.adopt.skip-5": "`_append(s, t, b)` is left out",
    "rules.pool.pop_block.skip-1": "`s.tlen[t] = n - 1` is left out",
    "rules.pool.pop_block.skip-3": "`s.told[t] = least(s.told[t], n - 1)` is left out",
    "rules.pool._take.skip-2": "`_unhash(s, b)` is left out",
    "rules.pool.release.condition-1": "`s.ref[b] == 0` holds always",
    "rules.pool.wipe.skip-2": "`s.hsh = s.k.blank('hsh')` is left out",
    "rules.queues.add_request.guard-3": "the guard 'the id is not in use' is dropped",
    "rules.queues.preempt.skip-5": "`s.sched[v] = 0` is left out",
    "rules.steps.advance.boundary-2": (
        "`s.comp[r] < s.ntok[r] + placeholders(s, r)` becomes `s.comp[r] <= "
        "s.ntok[r] + placeholders(s, r)`"
    ),
    "sessions.blocks_are_kept.condition-1": "`not s.k.sessions` holds always",
    "sizes.blocks_of.condition-2": "`s.k.several` never holds",
    "sizes.cacheable.condition-2": "`s.k.several` never holds",
    "sizes.full_of.condition-2": "`s.k.several` never holds",
    "state.cached.twin-1": "the order by `s.hstamp[b]` is reversed, here and in is_cached",
    "state.may_admit.negate-4": (
        "`later.seats(s) < s.k.max_seqs` becomes `later.seats(s) >= s.k.max_seqs`"
    ),
    "waiting.has_come.conjunct-2": "`s.came[r] != 0` is dropped",
    "waiting.next_in_line.condition-8": "`both(two_queues(s), anybody_skipped(s))` never holds",
}
