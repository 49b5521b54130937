"""Remote KV: what is offered, what is loaded, what workers report.

The rules of the core call `ask_remote`, `take_loaded`, `forget_offer`, `forget_load` and
`forget_report` where a lookup ends, a request is admitted, a lookup is over, a request is gone,
and an update ends. Rules that move requests are in `nullblock.spec.rules.remote`.
"""

from nullblock.spec.fields import IDLE, KEPT, PARTLY, REMOTE, RUNNING, TOKEN, WHOLLY
from nullblock.spec.hybrid import may_be_miscounted, surplus
from nullblock.spec.kernel import State, Value, both, either, ite, neg, require, rule
from nullblock.spec.loaded import keeps_nothing
from nullblock.spec.lost import claim_of, first_cutoff, is_own, is_short, left_of
from nullblock.spec.remote import offered
from nullblock.spec.rules.drafts import forgive_drafts
from nullblock.spec.rules.later import end_filling
from nullblock.spec.sizes import hit_tokens
from nullblock.spec.state import is_waiting


def ask_remote(s: State, r: Value) -> None:
    """What of r is to be loaded, now that its local hit is known."""
    if s.k.connector:
        s.ext = offered(s, r)


def take_loaded(s: State, r: Value) -> None:
    """r counts what is loaded as computed; it is not offered again."""
    if s.k.connector:
        s.comp[r] += s.ext
        if s.ext > 0:
            begin_load(s, r)


def begin_load(s: State, r: Value) -> None:
    """What is loaded for r, and counts as computed, is on its way; it is not offered again. Of a
    table that reaches on the load takes fewer blocks than none, and the free ones count as more.

    Source: BlockPool.get_new_blocks, FreeKVCacheBlockQueue.popleft_n.
    """
    s.remote[r] = 0
    s.loadfrom[r] = hit_tokens(s)
    s.loadto[r] = s.comp[r]
    if may_be_miscounted(s):
        s.nfree += surplus(s, r)


def arrive(s: State) -> None:
    """What a step loads is there when its output is."""
    if s.k.connector:
        r = s.frame[s.cur]
        if both(s.stage[r] == RUNNING, s.since[r] <= s.cur):
            s.loadto[r] = 0


def forgive(s: State) -> None:
    """The output of who lacks blocks is owed no longer, nor are its drafts. In vllm-0.22.1 they
    stay counted.
    """
    if s.k.connector:
        r = s.frame[s.cur]
        if both(s.k.mem(s.missing, r), s.due[s.cur] == TOKEN, s.ph[r] > 0, s.drop[r] == 0):
            if s.k.sem.outputs_owed_once:
                s.ph[r] -= 1
                s.base[r] += 1
                forgive_drafts(s, r)


def stop_loading(s: State, r: Value) -> None:
    """No load writes to the blocks of r, who gives them back."""
    if s.k.connector:
        s.loadto[r] = 0
        end_filling(s, r)


def forget_offer(s: State) -> None:
    """Nothing is loaded for whom nobody looks up."""
    if s.k.connector:
        s.ext = 0


def forget_load(s: State, r: Value) -> None:
    """Nothing is loaded for, or sent of, a request that is gone."""
    if s.k.connector:
        s.failed[r] = 0
        s.kept_for[r] = 0
        s.loadto[r] = 0
        end_filling(s, r)
        forget_answer(s, r)


def forget_answer(s: State, r: Value) -> None:
    """What the remote side holds of a request that has ended matters no more. Whoever still stands
    in a queue, as in vllm-0.22.1 it may, is asked for again there until something is computed.
    """
    if either(neg(is_waiting(s, r)), s.comp[r] != 0):
        s.remote[r] = 0
        s.unsure[r] = 0


def forget_report(s: State) -> None:
    """What workers reported with the update is over. Who is to end for it is still to end."""
    if s.k.connector:
        s.invalid = s.k.blank("invalid")
        s.claimed = s.k.blank("claimed")
        s.evict = s.k.blank("evict")
        s.seen = s.k.empty("R")
        if not s.k.fails_loads:
            s.missing = s.k.empty("R")


@rule("REMOTE-10", "RI")
def learn(s: State, r: Value, n: Value) -> None:
    """What the remote side holds of a request becomes known between any two steps.

    Source: KVConnectorBase_V1.get_num_new_matched_tokens, which is asked in every step.
    """
    require(s.phase == IDLE, "between steps")
    require(n >= 0, "a number of tokens")
    s.remote[r] = n
    s.unsure[r] = 0


@rule("REMOTE-11", "R")
def doubt(s: State, r: Value) -> None:
    """The remote side may have to look first what it holds of a request.

    Source: KVConnectorBase_V1.get_num_new_matched_tokens, which then says None.
    """
    require(s.phase == IDLE, "between steps")
    s.remote[r] = 0
    s.unsure[r] = 1


@rule("REMOTE-13", "R")
def end_load(s: State, r: Value) -> None:
    """That a load has ended, well or not, is reported with an output, and taken in once that is
    applied.

    Source: Scheduler._update_from_kv_xfer_finished.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.awaits[r] == REMOTE, "it waits for a load")
    s.came[r] = 1
    s.loadto[r] = 0


@rule("REMOTE-24", "R")
def find_short(s: State, r: Value) -> None:
    """Whoever counts on blocks that were not loaded is found once: first those that wait, in the
    order of the queue, then those that run.

    Source: Scheduler._handle_invalid_blocks.
    """
    require(s.phase == IDLE, "between steps")
    require(neg(s.k.mem(s.seen, r)), "it was not found before")
    require(is_short(s, r), "it counts on a block that was not loaded")
    s.seen = s.k.add(s.seen, r)
    s.left = left_of(s, r)
    s.cutoff = 0 if s.k.several else first_cutoff(s, r)


@rule("REMOTE-25", "RI")
def claim(s: State, r: Value, i: Value) -> None:
    """The first who is found to lack a block computes it again.

    Only vllm-0.22.1: in the normative profile all who run start over. Source:
    Scheduler._update_requests_with_invalid_blocks: marked_invalid_block_ids.
    """
    require(s.k.mem(s.seen, r), "it was found")
    require(neg(s.k.sem.failed_loads_start_over), "those that run do not start over")
    require(is_own(s, r, i), "it lacks a block that nobody computes again")
    s.claimed[s.tab[r, i]] = claim_of(s, r)


@rule("REMOTE-26", "R")
def lose_load(s: State, r: Value) -> None:
    """Of a request that waits for a load what lies before the first block that it lacks stays,
    unless that block is not its own; of one that was loaded, nothing, nor where there are several
    groups: what one of them has left need not be what the others can go on from.

    Source: Scheduler._update_requests_with_invalid_blocks, _handle_invalid_blocks. In vllm-0.22.1
    a block that others hold is kept too, to be computed again; and one that was loaded is not
    looked at.
    """
    require(s.phase == IDLE, "between steps")
    require(s.k.mem(s.seen, r), "it was found")
    require(s.stage[r] != RUNNING, "it does not run")
    whole = both(s.k.sem.failed_loads_start_over, keeps_nothing(s, r))
    s.comp[r] = s.left
    if s.stage[r] != KEPT:
        s.failed[r] = ite(either(whole, s.awaits[r] != REMOTE), WHOLLY, PARTLY)
        if s.awaits[r] != REMOTE:
            s.awaits[r] = REMOTE
            s.came[r] = 1
        if s.k.fails_loads:
            s.missing = s.k.add(s.missing, r)


@rule("REMOTE-27", "R")
def lack(s: State, r: Value) -> None:
    """A running request that lacks blocks takes nothing of the output that comes: it goes back to
    the first of them, or ends.

    Source: Scheduler._update_requests_with_invalid_blocks, update_from_output. In the normative
    profile it starts over, unless it ends.
    """
    require(s.phase == IDLE, "between steps")
    require(s.k.mem(s.seen, r), "it was found")
    require(s.stage[r] == RUNNING, "it runs")
    require(
        either(s.k.fails_loads, neg(s.k.sem.failed_loads_start_over)), "it does not start over"
    )
    s.comp[r] = s.left
    s.missing = s.k.add(s.missing, r)


@rule("REMOTE-29", "R")
def give_up_on(s: State, r: Value) -> None:
    """Where failed loads fail requests, all that lack blocks end once the output is applied.

    Source: Scheduler.update_from_output. Their order is the engine's own; vLLM walks over a set.
    """
    require(s.phase == IDLE, "between steps")
    require(s.k.fails_loads, "failed loads fail requests")
    require(s.k.mem(s.missing, r), "it lacks blocks")
    s.missing = s.k.remove(s.missing, r)
    s.k.note_failed(s, r)
