"""Encoder inputs: readings that plug in at named points of the core.

A prompt may contain items (an image, say) whose tokens stand for embeddings that an encoder makes.
Workers keep embeddings in a cache; the scheduler says which items a step computes, and which are
forgotten. Before a request asks for slots, its inputs are planned: item by item, in order.

Where no model has an encoder (`encodes` is false), each reading says what the core says, and
whoever cares for text alone need not read on. What is written is in
`nullblock.spec.rules.encoder`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.cross import encodable_at_once, has_begun
from nullblock.spec.drafts import placeholders
from nullblock.spec.flight import concerns
from nullblock.spec.kernel import State, Value, both, either, ite, neg
from nullblock.spec.remote import loads_later


def has_inputs(s: State, r: Value) -> Value:
    """Whether r has encoder inputs."""
    return s.k.num_items(r) > 0 if s.k.encodes else False


def size(s: State, r: Value, i: Value) -> Value:
    """Embeddings of r's i-th item."""
    return s.k.item_size(r, i)


def looked_at(s: State) -> Value:
    """The number of the item that the plan looks at."""
    return s.k.item(s.planner, s.pitem)


def shift(s: State) -> Value:
    """Tokens behind a step that a draft model reads as well."""
    if s.k.sem.chunks_end_at_items or not s.k.looks_ahead:
        return 0
    return 1


@clause("ENC-1")
def is_over(s: State) -> Value:
    """A plan looks at every item of the prompt, in order, that begins within the step.

    Source: Scheduler._try_schedule_encoder_inputs. In vllm-0.22.1, under an EAGLE-like method, an
    item that begins right behind the step is looked at too.
    """
    return either(
        s.pitem >= s.k.num_items(s.planner),
        s.k.item_start(s.planner, s.pitem) >= s.pfrom + s.ptokens + shift(s),
    )


def looks_at(s: State) -> Value:
    """Whether an item is looked at."""
    return both(s.planning == 1, neg(is_over(s)))


def is_passed(s: State) -> Value:
    """Whether the item is wholly computed: the KV cache has what came of it."""
    if s.k.encoder_decoder:
        return has_begun(s)
    return s.k.item_end(s.planner, s.pitem) <= s.pfrom


def stands_right(s: State) -> Value:
    """Whether the item stands where one of an encoder-decoder model has to, once the request has
    begun: there vLLM looks, and ends.
    """
    if not s.k.encoder_decoder:
        return True
    return either(neg(has_begun(s)), s.k.item_start(s.planner, s.pitem) == 0)


def is_planned_already(s: State) -> Value:
    """Whether an earlier item of the plan is the same, and will be there for this one too."""
    if s.k.encoder_decoder:
        return False
    n = looked_at(s)
    computed = neg(
        s.k.forall("I", lambda i: s.k.item(s.planner, s.plan[i]) != n, span=lambda: (0, s.nplan))
    )
    if not s.k.loads_items:
        return computed
    loaded = neg(
        s.k.forall("I", lambda i: s.k.item(s.planner, s.loads[i]) != n, span=lambda: (0, s.nload))
    )
    return either(computed, loaded)


def is_kept(s: State) -> Value:
    """Whether the item's embeddings are in the cache, or will be before they are needed."""
    return is_in_cache(s, looked_at(s))


def is_in_cache(s: State, n: Value) -> Value:
    """Whether somebody refers to item n, or it may be evicted: of one hash with two sizes it may
    be in the cache without embeddings.
    """
    return either(s.unused[n] != 0, s.k.card(s.users[n]) > 0)


def is_at_hand(s: State) -> Value:
    """Whether nothing has to be done for the item."""
    return either(is_passed(s), both(neg(must_be_whole(s)), is_planned_already(s)))


def must_be_whole(s: State) -> Value:
    """Whether the step has to end before the item, wherever its embeddings are.

    Source: Scheduler._try_schedule_encoder_inputs. Only in vllm-0.32.0: elsewhere an item whose
    embeddings are planned, or in the cache, may be cut.
    """
    return both(would_be_cut(s), neg(is_passed(s))) if s.k.sem.whole_items_if_kept else False


def is_found(s: State) -> Value:
    """Whether the item's embeddings are in the cache, and may be counted upon."""
    return both(is_kept(s), neg(must_be_whole(s)))


def lacks_item(s: State, r: Value) -> Value:
    """Whether the next token of r stands for an item that is not in the encoder cache, and that
    the step may not compute or has no room for. Whoever was preempted later made room too late.
    """
    if not s.k.encodes:
        return False

    def is_there(i: Value) -> Value:
        embeds = s.k.item_size(r, i)
        return either(
            either(s.comp[r] < s.k.item_start(r, i), s.k.item_end(r, i) <= s.comp[r]),
            is_in_cache(s, s.k.item(r, i)),
            both(embeds <= s.ebudget, embeds <= s.efree, s.k.card(s.preempted) == 0),
        )

    return neg(s.k.forall("I", is_there, span=lambda: (0, s.k.num_items(r))))


@clause("ENC-18")
def to_compute(s: State) -> Value:
    """What is loaded takes none of the embeddings that a step may compute; but an item that the
    step could not compute as well is not loaded either.

    Source: Scheduler._try_schedule_encoder_inputs: can_allocate comes before has_cache_item.
    """
    return s.pcost - s.pload if s.k.loads_items else s.pcost


def is_loaded(s: State) -> Value:
    """Whether an encoder connector has the item."""
    return s.k.has_item(looked_at(s)) if s.k.loads_items else False


def has_no_budget(s: State) -> Value:
    """Whether the step may not compute so many more embeddings."""
    return size(s, s.planner, s.pitem) > s.pbudget - to_compute(s)


def has_no_room(s: State) -> Value:
    """Whether others refer to too many embeddings for the item to be kept as well."""
    return size(s, s.planner, s.pitem) + s.pcost > s.efree


def has_room(s: State, embeds: Value) -> Value:
    """Whether so many embeddings fit beside those that somebody refers to. Where a hash comes with
    two sizes vllm-0.22.1 counts wrong, and ends here.
    """
    return both(embeds <= s.eroom, embeds <= s.efree)


def would_be_cut(s: State) -> Value:
    """Whether the step would end within the item, and may not."""
    if not s.k.whole_items:
        return False
    r, i = s.planner, s.pitem
    return both(s.pfrom < s.k.item_start(r, i), s.pfrom + s.ptokens < s.k.item_end(r, i))


@clause("ENC-2")
def must_end(s: State) -> Value:
    """A step ends before an item that it must not cut and would, or whose embeddings exceed what
    the step may still compute or what may be kept besides those that somebody refers to.

    Items that are in the cache may be cut all the same. Source:
    Scheduler._try_schedule_encoder_inputs, EncoderCacheManager.can_allocate.
    """
    return either(would_be_cut(s), has_no_budget(s), has_no_room(s))


def needs_eviction(s: State) -> Value:
    """Whether something has to be evicted for the item."""
    return size(s, s.planner, s.pitem) + s.pcost > s.eroom


@clause("ENC-3")
def is_unneeded(s: State) -> Value:
    """An item is computed only if the step computes a token of it that stands for an embedding.

    It is looked for after room was made for the item. Source:
    Scheduler._try_schedule_encoder_inputs, PlaceholderRange.get_embeds_indices_in_range.
    """
    r, i = s.planner, s.pitem
    beyond = shift(s) if s.k.sem.items_behind_counted else 0
    return embeds_between(s, r, i, s.pfrom, s.pfrom + s.ptokens + beyond) == 0


def embeds_between(s: State, r: Value, i: Value, low: Value, high: Value) -> Value:
    """Embeddings of r's i-th item among its tokens from `low` to before `high`."""
    start, end = s.k.item_start(r, i), s.k.item_end(r, i)
    first = ite(start < low, low, start)
    last = ite(high < end, high, end)
    return ite(first < last, s.k.embedded(r, i, last) - s.k.embedded(r, i, first), 0)


@clause("ENC-4")
def tokens_before(s: State) -> Value:
    """What is left of a step that ends before an item are the tokens before it, none inside it.

    A prefix hit may end inside an item. Source: Scheduler._try_schedule_encoder_inputs. In
    vllm-0.22.1, under an EAGLE-like method, it is one token less: where two items touch, the first
    is then never passed, and the request waits for ever.
    """
    left = s.k.item_start(s.planner, s.pitem) - s.pfrom - shift(s)
    return ite(left > 0, left, 0)


def oldest_unused(s: State) -> Value:
    """The item that has been referred to by nobody for longest."""
    return s.k.first("I", lambda n: s.unused[n] != 0, lambda n: s.unused[n], by="unused")


def is_oldest_unused(s: State, n: Value) -> Value:
    """Whether n is `oldest_unused(s)`."""
    return s.k.is_first("I", n, lambda m: s.unused[m] != 0, lambda m: s.unused[m], by="unused")


def is_planned(s: State, r: Value) -> Value:
    """Whether r has no encoder inputs, or those of this step are planned, or it only asks for the
    blocks to load into, and computes nothing.
    """
    planned = both(s.planning == 2, s.planner == r)
    return either(neg(has_inputs(s, r)), loads_later(s, r), planned)


def is_taken(s: State, r: Value) -> Value:
    """Whether every input that is planned for r has its room."""
    return both(is_planned(s, r), s.ntaken == s.nplan, are_loaded(s), neg(has_repeated(s, r)))


def are_loaded(s: State) -> Value:
    """Whether every item that is loaded for who is planned has its room."""
    return s.nloaded == s.nload if s.k.loads_items else True


def granted(s: State, r: Value, n: Value) -> Value:
    """Of n tokens those that a step computes of r, as far as its encoder inputs are planned."""
    if not s.k.encodes:
        return n
    return ite(both(s.planning == 2, s.planner == r), s.ptokens, n)


def gets_nothing(s: State, r: Value) -> Value:
    """Whether r cannot compute a token, for want of embeddings."""
    if not s.k.encodes:
        return False
    return both(s.planning == 2, s.planner == r, s.ptokens == 0)


def refers(s: State, r: Value, i: Value) -> Value:
    """Whether r has an i-th item, and refers to its embeddings."""
    if s.k.sem.items_held_by_place:
        return both(0 <= i, i < s.k.num_items(r), s.holds[r, i] == 1)
    return both(0 <= i, i < s.k.num_items(r), s.k.mem(s.users[s.k.item(r, i)], r))


def refers_to_any(s: State, r: Value) -> Value:
    """Whether r refers to any embeddings."""
    return s.k.exists("I", lambda i: refers(s, r, i), by="items") if s.k.encodes else False


def first_referred(s: State, r: Value) -> Value:
    """The first of r's items to whose embeddings it refers."""
    return s.k.first("I", lambda i: refers(s, r, i), lambda i: s.k.letting_go(s, r, i), by="items")


def has_passed(s: State, r: Value, i: Value) -> Value:
    """Whether r refers to the embeddings of an item that is wholly computed."""
    if s.k.sem.passed_items_known:
        ahead = 1 if s.k.looks_ahead else 0
        return both(refers(s, r, i), s.k.item_end(r, i) + ahead <= s.comp[r] - placeholders(s, r))
    return both(refers(s, r, i), s.k.item_end(r, i) <= s.comp[r])


def has_passed_any(s: State, r: Value) -> Value:
    """Whether there is such an item."""
    return s.k.exists("I", lambda i: has_passed(s, r, i), by="items") if s.k.encodes else False


def has_let_go(s: State, r: Value) -> Value:
    """Whether the next output, if it concerns r, whose it is, finds no such item any more."""
    found = both(concerns(s, s.cur), has_passed_any(s, r))
    if s.k.sem.passed_items_known:
        # With the drafts that it took, more is known than when it looked.
        return either(s.open == 2, neg(found))
    return neg(found)


def first_passed(s: State, r: Value) -> Value:
    """The first such item."""
    return s.k.first(
        "I", lambda i: has_passed(s, r, i), lambda i: s.k.letting_go(s, r, i), by="items"
    )


@clause("ENC-41")
def is_held_elsewhere(s: State, r: Value, n: Value) -> Value:
    """A request that has an item at several places refers to its embeddings as long as one of
    them is held.

    Source: EncoderCacheManager.request_cached_ids. Only in vllm-0.32.0.
    """
    if not s.k.sem.items_held_by_place:
        return False
    return s.k.exists("I", lambda i: both(refers(s, r, i), s.k.item(r, i) == n), by="items")


def is_repeated(s: State, r: Value, i: Value) -> Value:
    """Whether the plan has passed r's i-th item because an earlier one is the same, and this
    place is not held yet.
    """
    return both(
        0 <= i,
        i < s.pitem,
        s.holds[r, i] == 0,
        either(
            _is_before(s, r, i, s.plan, s.nplan),
            _is_before(s, r, i, s.loads, s.nload) if s.k.loads_items else False,
        ),
    )


def _is_before(s: State, r: Value, i: Value, places: Value, many: Value) -> Value:
    """Whether an item before r's i-th, at one of so many places, is the same."""
    return s.k.exists(
        "I",
        lambda j: both(0 <= j, j < many, places[j] < i, s.k.item(r, places[j]) == s.k.item(r, i)),
        by="items",
    )


def has_repeated(s: State, r: Value) -> Value:
    """Whether there is such an item: an encoder-decoder model refers to none."""
    if s.k.encoder_decoder or not s.k.sem.items_held_by_place:
        return False
    return s.k.exists("I", lambda i: is_repeated(s, r, i), by="items")


def first_repeated(s: State, r: Value) -> Value:
    """The first such item."""
    return s.k.first("I", lambda i: is_repeated(s, r, i), lambda i: i, by="items")


def is_input_of(s: State, r: Value, i: Value) -> Value:
    """Whether the i-th input of the open step is r's."""
    return both(0 <= i, i < s.ninput, s.inputs[i] != 0, s.inputof[i] == r)


def has_scheduled(s: State, r: Value) -> Value:
    """Whether the open step computes an input of r."""
    return s.k.exists("I", lambda i: is_input_of(s, r, i), by="items") if s.k.encodes else False


def last_scheduled(s: State, r: Value) -> Value:
    """The last of them."""
    return s.k.first("I", lambda i: is_input_of(s, r, i), lambda i: -i, by="items")


@clause("ENC-16")
def encodable(s: State, r: Value) -> Value:
    """A request can be served only if each of its items alone can be computed in a step and kept,
    and fits a step where it must not be cut.

    Source: our decision; vLLM lets such a request wait for ever.
    """
    if not s.k.encodes:
        return True
    if s.k.encoder_decoder:
        return encodable_at_once(s, r)
    most = ite(both(0 < s.k.threshold, s.k.threshold < s.k.budget), s.k.threshold, s.k.budget)

    def fits(i: Value) -> Value:
        n = size(s, r, i)
        whole = s.k.item_end(r, i) - s.k.item_start(r, i) <= most if s.k.whole_items else True
        return both(n <= s.k.encoder_budget, n <= s.k.encoder_slots, whole)

    return s.k.forall("I", fits, span=lambda: (0, s.k.num_items(r)))
