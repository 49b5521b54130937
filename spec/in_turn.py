"""The readings of a lookup that asks one kind of layers after the other: under an EAGLE-like
method, and where vLLM 0.22.1 does not see to it that all agree (GROUP-61, GROUP-65).

What the kinds of layers then agree on has no closed form: each kind is asked in its turn how far a
hit reaches, within what the one before it has said, and whether it drops its last hit depends on
what was said before. So the lookup is a walk (`nullblock.spec.rules.in_turn`): `span` is the
length at hand, `tried` the one with which the round began, `kind` the kind that is asked next,
`calm` how many were asked since one shortened the length, and `reach` what each has said last.
Each reading asks `s.k.in_turn` first; whoever has no such method need not read on.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.groups import accepts, are_cached, passed, sees_part, window
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.mamba import is_mamba
from nullblock.spec.remote import was_loaded
from nullblock.spec.sessions import continues
from nullblock.spec.sizes import blocks_of, full_of

ASKING = 3
"""The value of `looking` while the kinds are asked."""


def hit_by(s: State, t: Value) -> Value:
    """Tokens that the hits of table t cover: of full attention no more than all agree on."""
    if not s.k.in_turn:
        return at_hand(s)
    said = s.reach[s.k.kind_of(t)]
    return ite(either(sees_part(s, t), reaches_on(s, t)), said, least(said, at_hand(s)))


def at_hand(s: State) -> Value:
    """The length of the hit that is found so far, of which there may be less than none."""
    return ite(s.span < 0, 0, s.span)


@clause("GROUP-65")
def reaches_on(s: State, t: Value) -> Value:
    """Where there are several kinds of full attention, the hits of each end where all kinds agree.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit. In vllm-0.22.1 only those of the first
    kind are cut: the tables of the others go on with what is cached of them, and a request writes
    to blocks that it shares.
    """
    return both(neg(s.k.sem.hits_cut_alike), s.k.kind_of(t) > 0, neg(sees_part(s, t)))


def looked_from(s: State, t: Value) -> Value:
    """The length that says which blocks of table t a lookup passes over: that of the hit, or with
    chunks that are not asked again the one within which they were.
    """
    if both(s.k.asks_once, s.k.chunk_of(t)):
        return s.reach[0]
    return hit_by(s, t)


def hits_nothing(s: State, r: Value) -> Value:
    """Whether the prefix of r is not looked up."""
    return either(neg(s.k.caching), s.k.skip_read(r), continues(s, r), was_loaded(s, r))


def first_hit(s: State, r: Value) -> Value:
    """Tokens that the first kind of layers is hit by alone."""

    def is_hit(g: Value, tokens: Value) -> Value:
        t = s.k.table(r, g)
        return either(s.k.kind_of(t) != 0, accepts(s, t, tokens, 0))

    unit, last = s.k.span_unit, ite(s.ntok[r] > 0, s.ntok[r] - 1, 0)
    n = s.k.first(
        "I",
        lambda n: both(n * unit <= last, s.k.forall("G", lambda g: is_hit(g, n * unit))),
        lambda n: -n,
        by="said",
    )
    return n * unit


def asked(s: State, r: Value) -> Value:
    """The table by which the kind goes that is asked next: that of its first group."""
    return s.k.table(r, s.k.lead(s.kind))


def all_have_said(s: State) -> Value:
    """Whether every kind was asked in this round."""
    return s.kind > s.k.last_kind if s.k.in_turn else True


def is_last(s: State) -> Value:
    """Whether no round comes after this one."""
    return either(s.span >= s.tried, s.k.asks_once) if s.k.in_turn else True


def has_said(s: State, r: Value, t: Value) -> Value:
    """Whether layers like those of table t are asked no more: full attention is asked once, since
    every shorter hit of it is one too.
    """
    return both(s.tried < s.ntok[r] - 1, neg(sees_part(s, t)))


@clause("GROUP-62")
def is_settled(s: State) -> Value:
    """A kind drops its last hit once for each length that is tried: not again while no kind that
    drops none has shortened the length since.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit, eagle_verified. In vLLM Mamba layers
    of an EAGLE-like method count as a kind that drops one, and what they shorten nobody tries
    anew: in vllm-0.22.1 because they look further (GROUP-36), in vllm-0.32.0 all the same.
    """
    return s.calm > s.k.last_kind


def drops_now(s: State, t: Value) -> Value:
    """How many hits the kind of table t drops at this visit: one, or none."""
    return ite(is_settled(s), 0, s.k.drops_of(t))


def shortens_quietly(s: State, t: Value) -> Value:
    """Whether other kinds need not drop their last hits again where the kind of table t shortens
    the length: it drops one itself, or counts as one that does (GROUP-62).
    """
    if not (s.k.mamba and s.k.sem.states_shorten_quietly):
        return looks_on(s, t)
    counts = both(neg(is_settled(s)), is_mamba(s, t), s.k.marked_of(t) == 1)
    return either(looks_on(s, t), counts)


@clause("GROUP-36")
def outruns(s: State, t: Value) -> Value:
    """Mamba layers, which drop no hit, look no further than full attention reaches.

    Source: MambaManager.find_longest_cache_hit. In vllm-0.22.1 they look one block further under
    an EAGLE-like method, and what they find there is taken for a hit of all (upstream 43559).
    """
    if either(not s.k.mamba, s.k.sem.states_stay_within):
        return False
    return both(is_mamba(s, t), s.k.marked_of(t) == 1)


def looks_on(s: State, t: Value) -> Value:
    """Whether the kind of table t looks one block further than the length at hand."""
    return both(neg(is_settled(s)), either(s.k.drops_of(t) == 1, outruns(s, t)))


@clause("GROUP-63")
def most(s: State, r: Value, t: Value) -> Value:
    """A kind that drops its last hit looks one block further than the length at hand, but not
    beyond where any hit ends.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit. In vllm-0.32.0 what is looked at
    further may be the block of the last token, since it is dropped.
    """
    left = 0 if s.k.sem.dropped_hits_reach_on else 1
    further = least(s.span + s.k.size_of(t), s.ntok[r] - left)
    return ite(looks_on(s, t), further, s.span)


@clause("GROUP-64")
def cut_twice(s: State, t: Value, tokens: Value, drops: Value) -> Value:
    """Where blocks of a window are smaller than a hit's unit, a run that begins with the prompt,
    and is shorter than the window, is cut to whole units before its last block is dropped, and
    after: for a hit of so many tokens a unit more has to be there.

    Source: SlidingWindowManager.find_longest_cache_hit.
    """
    unit, size = s.k.span_unit, s.k.size_of(t)
    masked = both(s.k.window_of(t) > 0, neg(is_mamba(s, t)))
    run = blocks_of(s, t, window(s, t) - 1) + drops
    short = both(masked, unit > size, drops > 0, full_of(s, t, tokens) + drops < run)
    return ite(short, unit, 0)


def is_shown(s: State, r: Value, t: Value, tokens: Value) -> Value:
    """Whether the kind of table t says of a hit of so many tokens that there is one."""
    drops = drops_now(s, t)
    end = tokens + cut_twice(s, t, tokens, drops)

    def shows(g: Value) -> Value:
        u = s.k.table(r, g)
        return goes_on_to(s, u, end, drops) if s.k.kind_of(u) == s.kind else True

    within = end + drops * s.k.size_of(t) <= most(s, r, t)
    some = either(0 <= most(s, r, t), sees_part(s, t))
    return both(some, either(tokens == 0, both(within, s.k.forall("G", shows))))


def goes_on_to(s: State, t: Value, tokens: Value, drops: Value) -> Value:
    """Whether the blocks are cached that a kind looks at to say so: with chunks those from the
    chunk on in which the length at hand ends.
    """
    if s.k.chunk_of(t) == 0:
        return accepts(s, t, tokens, drops)
    return are_cached(s, t, passed(s, t, at_hand(s)), full_of(s, t, tokens))


def said(s: State, r: Value, t: Value) -> Value:
    """How many tokens a hit has, says the kind of table t."""
    if has_said(s, r, t):
        return s.span
    unit = s.k.span_unit
    n = s.k.first("I", lambda n: is_shown(s, r, t, n * unit), lambda n: -n, by=("said", t))
    return n * unit


def to_ask(s: State) -> Value:
    """More questions are not asked: each round but the last shortens what is tried."""
    kinds = s.k.last_kind + 1
    return ite(s.looking == ASKING, 1 + s.tried * (kinds + 1) + kinds - s.kind, 0)
