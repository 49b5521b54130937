"""Theorems hold, their false variants do not, and what they assume can be met."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nullblock.spec.carriers import Zero
from nullblock.spec.catalogue import CATALOGUE, everything
from nullblock.spec.explorer.actions import Add, Schedule, Update, perform
from nullblock.spec.explorer.model import Scope, Template, beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.facts import Config
from nullblock.spec.kernel import RULES, Broken, Engines
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.theorems import (
    THEOREMS,
    audit,
    chain,
    conjecture,
    content,
    outputs,
    pool,
    progress,
    schedule,
    sliding_window,
    steps,
    sums,
)
from nullblock.spec.theorems.theorem import CONTRADICTION, hurried, instances, objection

sys.path.insert(0, str(Path(__file__).parent))
from world import observed, random_run  # noqa: E402

PAGE = Path(audit.__file__).parents[1] / "THEOREMS.md"
CANARIES = [(id, name) for id, t in THEOREMS.items() for name in t.canaries]


@pytest.mark.parametrize("id", THEOREMS)
def test_every_theorem_holds(id: str) -> None:
    """Every obligation is proved: THEOREM-1, THEOREM-2, THEOREM-3, THEOREM-4, THEOREM-5,
    THEOREM-6, THEOREM-7, THEOREM-8, THEOREM-10, THEOREM-11, THEOREM-12, THEOREM-13, and those
    that carry the ID of a statement about steps.
    """
    found = THEOREMS[id].check()
    assert found
    assert [f"{c} {c.status}" for c in found if c.status != "proved"] == []


@pytest.mark.parametrize(("id", "name"), CANARIES)
def test_every_canary_falls(id: str, name: str) -> None:
    """A false variant of each theorem is not shown, and not for want of premises alone."""
    found = THEOREMS[id].canary(name)
    assert [c for c in found if c.status != "proved" and c.what != CONTRADICTION]


def test_every_theorem_has_a_canary_and_says_what_it_rests_on() -> None:
    """What is never seen to fail shows nothing; what it rests on exists."""
    everything()
    for t in THEOREMS.values():
        assert t.canaries and t.engine and t.rests_on, t.id
        assert set(t.rests_on) <= CATALOGUE.keys(), t.id
        assert t.sentence == CATALOGUE[t.id].sentence


def test_the_page_is_what_the_theorems_say() -> None:
    """spec/THEOREMS.md is generated, not typed."""
    assert PAGE.read_text() == audit.markdown(), "python -m nullblock.spec.theorems > the page"


# premises that can be met ----------------------------------------------------------------------


def walk(name: str, steps: int) -> Iterator[Any]:
    """The states of a scope after every rule of some steps, requests arriving again and again."""
    s = beginning(STANDARD[name], NORMATIVE)
    seen: list[Any] = []

    def run() -> None:
        for n in range(steps):
            for t in STANDARD[name].templates:
                if s.stage[t.id] == 0 and n % 3 == 0:
                    perform(s, Add(t.id))
            perform(s, Schedule())
            perform(s, Update())

    observed(lambda t, id: seen.append(t.copy()), run)
    yield from seen


STATE_TEXTS = (
    *chain.STATE_TEXTS,
    *content.STATE_TEXTS,
    (conjecture.holder_holds_parent, "RB"),
    (conjecture.one_child, "RBB"),
    (conjecture.one_of_a_hash, "RBB"),
)


@pytest.fixture(scope="module")
def states() -> list[Any]:
    """Every fourth state of two scopes, rule by rule."""
    return [*walk("core", 14), *walk("twins", 10)][::4]


@pytest.mark.parametrize(("text", "sorts"), STATE_TEXTS, ids=lambda x: getattr(x, "__name__", x))
def test_texts_about_states_meet_their_premises(text: Any, sorts: str, states: list[Any]) -> None:
    """The text that Z3 proves runs on reached states: its premises are met, and it is true."""
    met = sum(1 for s in states for _ in instances(s, text, sorts))
    assert met > 10, f"{text.__name__} met its premises {met} times"


def test_false_texts_are_seen_to_be_false() -> None:
    """A counterexample in hand: a parent may be held by fewer than its child, where one request
    that reads no cache has made a second one; hash by hash the sum is as THEOREM-5 says.
    """
    templates = (
        Template("x", (1, 4), 1),
        Template("a", (1, 2, 3), 1, skip_cache_read=True),
        Template("b", (1, 2, 3), 1),
    )
    s = beginning(
        Scope("second", "a second parent", Config(12, 1, 9, 3, 16), templates), NORMATIVE
    )
    for t in templates:
        perform(s, Add(t.id))
    perform(s, Schedule())
    assert objection(s, chain.parent_is_held, "B") is not None
    assert objection(s, chain.no_orphan, "B") is None
    assert conjecture.outnumbered(s) is None


RELATIONS = tuple(
    dict.fromkeys((*(r for p in schedule.PLANS for r in p.relations), *progress.RELATIONS))
)


def test_outlines_hold_on_what_happens() -> None:
    """From rule to rule of real steps every relation of an outline is true: the hypotheses of the
    two-state proofs are met.
    """
    begun: dict[str, Any] = {}
    checked = {"schedule": 0, "update": 0}

    def look(s: Any, id: str) -> None:
        was, kind = begun.get("was"), begun.get("kind")
        if kind == "schedule" and steps.under_way(s):
            assert [r.__name__ for r in RELATIONS if not r(was, s)] == []
            assert progress.idle_pool_is_free(s) and progress.no_output_owed(s)
        elif kind == "update" and outputs.under_way(s):
            assert [r.__name__ for r in outputs.RELATIONS if not r(was, s)] == []
            assert all(holds(s) for holds in outputs.KEPT)
        else:
            return
        checked[kind] += 1

    s = beginning(STANDARD["core"], NORMATIVE)

    def run() -> None:
        for n in range(12):
            for t in STANDARD["core"].templates:
                if s.stage[t.id] == 0 and n % 3 == 0:
                    perform(s, Add(t.id))
            for kind, action in (("schedule", Schedule()), ("update", Update())):
                begun.update(was=s.copy(), kind=kind)
                perform(s, action)

    observed(look, run)
    assert min(checked.values()) > 30


@pytest.mark.parametrize("relation", [pool.first_in_first_out, pool.admitted_before_preemptions])
def test_rules_relate_states_as_they_are_said_to(relation: Callable[..., bool]) -> None:
    """THEOREM-10 and THEOREM-11, rule by rule on a random run."""
    last: list[Any] = []

    def look(s: Any, id: str) -> None:
        if last and last[-1].k is s.k:
            assert relation(last[-1], s), id
        last.append(s.copy())

    observed(look, lambda: random_run(3))
    assert len(last) > 200


# axioms ----------------------------------------------------------------------------------------


class Words:
    """The words of the laws, on integers."""

    def total(self, m: Any, low: int, high: int) -> int:
        return sum(m[i] for i in range(low, high))

    def summed(self, sort: str, m: Any) -> int:
        return sum(m.values())

    def among(self, m: Any, low: int, high: int, x: Any) -> bool:
        return x in [m[i] for i in range(low, high)]

    def seat(self, m: Any, low: int, high: int, x: Any) -> Any:
        return next((i for i in range(low, high) if m[i] == x), low)

    def somebody(self, m: Any) -> Any:
        return min(m, key=lambda r: (m[r] >= 0, m[r] == 0))

    def put(self, m: Any, at: Any, x: Any) -> Any:
        return Zero(m | {at: x})


MEMBERS = {
    str(sums.SEQUENCE): [Zero({0: 3, 1: -1}), Zero({1: 2, 2: 5})],
    str(sums.MEMBERS): [Zero({0: "a", 1: "b", 2: "a"}), Zero({1: "a"})],
    str(sums.AMOUNTS): [Zero({"a": 0, "b": 2}), Zero({"a": -1, "b": 4}), Zero({"a": 0})],
    "Int": [-1, 0, 1, 2, 3],
    "R": ["a", "b"],
}


@pytest.mark.parametrize("law", sums.LAWS, ids=lambda law: law.name)
def test_laws_of_sums_hold_on_integers(law: sums.Law) -> None:
    """The text that the theorems assume, evaluated."""
    choices = [MEMBERS[str(sort)] for sort in law.sorts]
    assert all(law.text(Words(), *xs) for xs in itertools.product(*choices))


def test_axioms_of_finite_sets_hold_of_finite_sets() -> None:
    """Disjoint sets add up, a subset has no more members, two that share the blocks out have as
    many as there are: and each axiom says something.
    """
    k = beginning(STANDARD["twins"], NORMATIVE).k
    everybody, blocks = list(k.domain("R")), list(k.domain("B"))
    sets = [frozenset(x) for n in range(4) for x in itertools.combinations(everybody, n)]
    for a, b in itertools.product(sets, sets):
        assert conjecture.counted_together(k, a, b, a | b)
        assert conjecture.no_fewer(k, a, b)
    assert not conjecture.counted_together(k, sets[1], sets[2], sets[1])
    parts = [frozenset(x) for n in range(len(blocks)) for x in itertools.combinations(blocks, n)]
    assert all(pool.shared_out(k, a, frozenset(blocks) - a) for a in parts)


# the conjecture --------------------------------------------------------------------------------


def test_references_along_chains_on_what_happens() -> None:
    """THEOREM-5 in every state after every rule of two scopes, and it is about something."""
    met = 0
    for s in (*walk("core", 14), *walk("twins", 10)):
        assert conjecture.outnumbered(s) is None
        for h in {s.k.par(x) for x in s.hsh.values() if x is not None} - {s.k.ROOT}:
            parents, children = conjecture.references(s, h)
            met += parents > children > 0
    assert met > 10


def test_an_eviction_from_outside_outnumbers_parents() -> None:
    """Without its premise THEOREM-5 is false: evict a held parent, and its child has more."""
    for s in walk("orphans", 6):
        for b in s.k.domain("B"):
            if s.phase == 0 and s.leaving == 0 and s.ref[b] > 0 and s.hsh[b] is not None:
                t = s.copy()
                RULES["evict_block"](t, b)
                if conjecture.outnumbered(t):
                    return
    pytest.fail("no eviction outnumbers anybody")


# equal hashes ----------------------------------------------------------------------------------


def test_collisions_without_an_assumption() -> None:
    """THEOREM-4: with two small tables a collision is found, and none with a good one."""
    good = {(0, "x"): 1, (0, "y"): 2, (1, "x"): 3, (1, "y"): 4, (2, "x"): 5, (2, "y"): 6}
    assert chain.collision(good, 0, 2) is None
    into_none = {(0, "x"): 1, (1, "x"): 0, (0, "y"): 2, (1, "y"): 3, (2, "x"): 4, (2, "y"): 5}
    assert chain.collision(into_none, 0, 3) == "the prefixes '' and 'xx' have the chain hash 0"
    assert chain.collision(good | {(0, "y"): 1}, 0, 1) == (
        "the prefixes 'x' and 'y' have the chain hash 1"
    )


# sliding windows -------------------------------------------------------------------------------


def test_a_sliding_window_makes_an_orphan_in_seven_steps() -> None:
    """THEOREM-13: the shortest way, and the theorem for full attention objects to where it
    leads.
    """
    way, wrong, _ = sliding_window.search(sliding_window.SLIDING)
    assert len(way) == 7 and ("slide", "a") in way
    s = sliding_window.empty()
    for name, r in way:
        assert sliding_window.SLIDING[name](s, r)
    assert sliding_window.orphan(s) == wrong
    assert sliding_window.objection_of(s) is not None
    assert wrong in sliding_window.story()


def test_without_slides_the_same_model_has_no_orphan() -> None:
    """Exhaustive to three blocks, two a request."""
    way, _, states = sliding_window.search(sliding_window.FULL)
    assert way == () and states > 100


# planted defects -------------------------------------------------------------------------------


def after(rule: str, change: Callable[..., None]) -> Callable[..., None]:
    """A rule that does something else besides."""
    honest = RULES[rule].body

    def body(s: Any, *args: Any) -> None:
        honest(s, *args)
        change(s, *args)

    return body


def overwrite(s: Any, r: Any, b: Any) -> None:
    s.tab[r, 0] = b


def jump(s: Any, r: Any) -> None:
    s.run[0] = r


def spend_more(s: Any, r: Any) -> None:
    s.sched[r] = s.sched[r] + 1


def take_two(s: Any, r: Any) -> None:
    s.ntok[r] = s.ntok[r] + 1


def to_the_front(s: Any, r: Any, b: Any) -> None:
    s.stamp[b] = s.front


def compute_less(s: Any, r: Any) -> None:
    s.comp[r] = s.comp[r] - 1


def admit_after_all(s: Any, r: Any) -> None:
    s.turned = s.turned + 1


def forget_a_block(s: Any, r: Any, b: Any) -> None:
    s.nfree = s.nfree - 1


def block(s: Any) -> None:
    s.blocked = s.nr * 0 + 1


DEFECTS = [
    ("RUN-20", "begin_step", block),
    ("TABLE-10", "push_new", overwrite),
    ("RUN-22", "admit", jump),
    ("RUN-23", "schedule_running", spend_more),
    ("UPD-15", "take_token", take_two),
    ("UPD-14", "advance", compute_less),
    ("THEOREM-10", "pop_block", to_the_front),
    ("THEOREM-11", "admit", admit_after_all),
    ("THEOREM-12", "adopt", forget_a_block),
]


@pytest.mark.parametrize(("id", "rule", "change"), DEFECTS, ids=lambda x: str(x)[:16])
def test_a_defect_in_a_rule_is_not_proved(
    id: str, rule: str, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a defect planted in a rule its theorem stays open, at that rule."""
    monkeypatch.setattr(RULES[rule], "body", after(rule, change))
    with hurried():
        found = THEOREMS[id].check()
    assert any(c.status != "proved" and c.where.endswith(rule) for c in found)


def test_a_text_that_is_false_is_broken_on_a_state() -> None:
    """`objection` reports what `ensure` finds, and `instances` raises it."""
    s = next(walk("core", 1))

    def wrong(s: Any, b: Any) -> None:
        from nullblock.spec.kernel import ensure

        ensure(s.ref[b] > 99, "everybody holds it")

    assert objection(s, wrong, "B") == "1: everybody holds it"
    with pytest.raises(Broken):
        list(instances(s, wrong, "B"))
    assert Engines.prover is None
