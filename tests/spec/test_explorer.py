"""The explorer sees everything, finds what is wrong by the shortest way, and is never content
with nothing.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.ledger.sources import scopes
from nullblock.spec.evidence import RELEASED
from nullblock.spec.explorer import search
from nullblock.spec.explorer.actions import Add, Evict, Step, actions, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.model import Scope, Template, beginning
from nullblock.spec.explorer.result import Counterexample
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import Search, explore
from nullblock.spec.explorer.witnesses import WITNESSES
from nullblock.spec.facts import Config
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES, Engines
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

sys.path.insert(0, str(Path(__file__).parent))
from both_forms import recorded  # noqa: E402  (a module beside this one)

PINNED = {
    "core": (21_445, 85_780, 23),
    "priority": (3_270, 13_080, 19),
    "twins": (5_780, 23_120, 16),
    "crowd": (6_007, 24_028, 16),
    "threshold": (5_180, 20_720, 19),
    "uncut": (5_655, 28_275, 15),
    "uncut-long": (543, 2_172, 12),
    "inflight": (3_839, 23_034, 17),
    "orphans": (3_946, 31_271, 14),
    "keys": (2_088, 8_352, 13),
    "stops": (4_977, 19_908, 17),
    "repetition": (478, 922, 20),
    "nocache": (376, 1_504, 16),
    "pauses": (2_736, 13_680, 18),
    "ahead": (2_283, 7_371, 21),
    "deep": (7_523, 16_494, 34),
    "resets": (1_622, 4_418, 20),
    "resets-aborts": (3_155, 13_071, 18),
    "ahead-priority": (2_810, 6_230, 24),
    "pipeline": (12_275, 25_799, 31),
    "pipeline-chunks": (1_059, 2_004, 24),
    "drafts": (3_622, 14_488, 20),
    "drafts-eagle": (692, 2_076, 18),
    "drafts-in-flight": (4_762, 12_557, 21),
    "drafts-ahead": (4_319, 13_861, 21),
    "drafts-resets": (1_395, 3_608, 21),
    "drafts-priority": (1_706, 3_840, 26),
    "drafts-deep": (2_683, 5_633, 28),
    "rules-drafts": (958, 2_597, 19),
    "rules-drafts-in-step": (90, 217, 8),
    "adapters": (3_368, 13_472, 15),
    "adapters-priority": (1_757, 7_028, 16),
    "grammars": (5_924, 28_144, 22),
    "skipped": (5_986, 27_120, 23),
    "rules-waiting": (1_536, 4_370, 23),
    "rules-ahead": (722, 2_016, 19),
    "rules": (1_136, 5_680, 12),
    "rules-priority": (568, 1_114, 22),
    "rules-pauses": (159, 579, 9),
    "window": (835, 1_506, 15),
    "chunks": (1_128, 3_384, 17),
    "window-gate": (554, 2_770, 15),
    "window-ahead": (576, 1_117, 24),
    "rules-window": (791, 3_164, 19),
    "hybrid": (12_536, 50_144, 24),
    "hybrid-chunks": (100, 155, 19),
    "split-chunks": (47, 84, 10),
    "hybrid-ahead": (322, 608, 18),
    "rules-hybrid": (1_190, 3_372, 18),
    "items": (2_562, 4_810, 24),
    "items-priority": (721, 1_378, 15),
    "items-whole": (312, 1_248, 12),
    "items-ahead": (1_981, 5_662, 30),
    "items-crowded": (601, 1_803, 18),
    "rules-items": (721, 1_378, 15),
    "items-loaded": (146, 238, 17),
    "silence": (1_393, 3_663, 21),
    "silence-ahead": (777, 2_025, 20),
    "clients": (233, 699, 15),
    "embeddings": (1_546, 6_184, 13),
    "pooling": (667, 1_887, 17),
    "pooling-ahead": (516, 1_432, 17),
    "sessions": (2_073, 7_866, 17),
    "sessions-ahead": (2_271, 5_512, 24),
    "rules-sessions": (1_787, 6_550, 17),
    "loads": (4_354, 14_758, 26),
    "sends": (1_542, 5_491, 26),
    "sends-ahead": (488, 1_088, 28),
    "lossy": (1_174, 2_490, 21),
    "lossy-now": (3_372, 11_309, 21),
    "lossy-ahead": (2_553, 8_345, 21),
    "lossy-now-ends": (2_875, 8_593, 28),
    "loads-priority": (1_552, 4_677, 23),
    "two-loads": (413, 1_244, 19),
    "loads-before-one": (258, 452, 21),
    "hybrid-eagle": (146, 584, 16),
    "hybrid-kinds": (216, 629, 12),
    "hybrid-eagle-sizes": (1_107, 4_428, 37),
    "hybrid-sizes": (1_480, 7_400, 16),
    "rules-hybrid-sizes": (308, 924, 14),
    "mamba": (2_258, 6_774, 21),
    "mamba-hybrid": (2_792, 13_960, 18),
    "mamba-ahead": (592, 1_172, 37),
    "rules-mamba": (67, 113, 13),
    "mamba-align": (171, 513, 14),
    "rules-mamba-align": (585, 968, 18),
    "mamba-within": (430, 1_290, 13),
    "rules-mamba-within": (570, 955, 17),
    "sessions-align": (1745, 6435, 19),
    "loads-mamba": (902, 2725, 19),
    "rules-loads-mamba": (90, 159, 13),
    "cross": (285, 1_140, 12),
    "cross-ahead": (98, 261, 9),
    "cross-less": (23, 115, 5),
    "rules-cross": (35, 105, 10),
    "sessions-window": (1_199, 2_554, 20),
    "sessions-hybrid": (1_155, 2_439, 27),
    "sessions-items": (730, 2_694, 16),
    "sessions-items-beyond": (328, 1_244, 21),
    "sessions-items-uncut": (1_072, 2_339, 18),
    "remote-drafts": (542, 974, 31),
    "remote-items": (933, 2_960, 20),
    "remote-clients": (416, 1_307, 16),
    "rules-remote": (2_378, 7_241, 22),
    "rules-remote-token": (616, 1_184, 37),
    "remote-window": (5_115, 14_246, 26),
    "rules-remote-window": (211, 401, 15),
    "remote-chunks": (1_276, 4_053, 22),
    "remote-hybrid": (1_216, 3_435, 28),
    "remote-sizes": (146, 441, 13),
    "drafts-grammars": (1_936, 9_025, 22),
    "rules-drafts-grammars": (1_427, 4_149, 22),
    "sessions-priority": (1_003, 2_611, 24),
    "sessions-loads": (1_709, 3_785, 25),
    "remote-ahead": (25_073, 84_010, 30),
    "rules-remote-ahead": (1_709, 3_180, 34),
    "lossy-window": (2_391, 4_796, 30),
    "lossy-window-ends": (2_305, 5_127, 24),
    "lossy-groups": (3_439, 7_961, 30),
    "lossy-groups-ends": (3_994, 10_071, 28),
    "rules-lossy-groups": (377, 673, 19),
}
"""States, transitions and depth of each scope. A change of the rules changes them: say why."""
DEAR = ("rules-hybrid", "sessions-hybrid", "remote-hybrid", "rules-remote-ahead")
"""Scopes that take the readable form minutes: what is asked of tables is asked of each pair."""
READ = [name for name in STANDARD if PINNED[name][0] <= 2_500 and name not in DEAR]
"""The scopes that the readable form searches here; `nullblock explore` takes all of them."""
REACHED_BY = (
    *("priority", "uncut", "inflight", "orphans", "pauses", "ahead", "resets"),
    *("sessions", "sessions-ahead", "sessions-hybrid", "clients"),
    *("drafts", "drafts-ahead", "chunks", "rules-waiting", "items-whole", "items-ahead"),
    "rules-cross",
    *("pooling", "rules-mamba-align", "loads", "sends", "lossy", "lossy-now", "lossy-now-ends"),
    *("remote-window", "remote-hybrid", "two-loads", "hybrid-kinds", "silence", "items-loaded"),
)
"""Scopes that together fire every rule that can fire."""
TINY = Scope("tiny", "for tests", Config(3, 2, 4, 2, 8), (Template("a", (1, 2, 3), 2),))


@pytest.mark.parametrize("name", READ)
def test_every_invariant_holds_in_every_state_of_a_scope(name: str) -> None:
    """Every reachable state and transition of a standard scope was seen, none breaks a statement,
    all promised witnesses were reached, there are as many as there were, and the ledger has just
    that. The other scopes are searched so in their compiled form, which has to count the same.
    """
    result = explore(STANDARD[name])
    assert result.counterexample is None
    assert result.complete and result.passed
    assert result.witnesses >= STANDARD[name].witnesses and not result.missing
    assert (result.states, result.transitions, result.depth) == PINNED[name]
    assert recorded("scopes")[name] == scopes.searched(STANDARD[name], result)


def test_every_witness_is_promised_by_some_scope() -> None:
    """No witness is left to chance."""
    assert set().union(*(s.witnesses for s in STANDARD.values())) == set(WITNESSES)


def test_every_rule_fires() -> None:
    """No rule is idle, and what scheduling in step never needs fires there in vllm-0.22.1; what
    takes the place of a repair fires where the repair is switched off. What fired in a standard
    scope is in the ledger, which has of each what a search of it finds.
    """
    fired = set().union(*(recorded("scopes")[name].fired for name in REACHED_BY))
    assert {r.id for r in RULES.values()} - fired == RELEASED
    left = replace(NORMATIVE, inputs_taken_back=False)
    assert "ENC-13" in explore(STANDARD["items-priority"], left, claims=frozenset()).fired
    hung = Template("a", (1, 2), 9, min_tokens=9)
    scope = replace(TINY, templates=(hung,), config=Config(6, 2, 4, 2, 5))
    assert "RUN-6" in explore(scope, VLLM_0_22_1, claims=frozenset()).fired


def test_a_witness_out_of_reach_fails() -> None:
    """A scope that promises what cannot happen does not pass."""
    result = explore(replace(TINY, witnesses=frozenset({"orphan", "stop-length"})))
    assert result.counterexample is None and result.complete
    assert result.missing == {"orphan"} and not result.passed


def test_a_search_that_was_stopped_does_not_pass() -> None:
    """With a limit on states there is no verdict."""
    result = explore(STANDARD["core"], limit=50)
    assert not result.complete and not result.passed
    assert 50 <= result.states < PINNED["core"][0]


def test_where_no_report_is_taken_nothing_is_lossy() -> None:
    """Of several groups vLLM raises for one: a pass would be one of nothing."""
    two = STANDARD["lossy-groups"]
    with pytest.raises(ValueError, match=r"lossy-groups is lossy: of several groups no report"):
        explore(two, VLLM_0_22_1)
    one = replace(two, config=replace(two.config, groups=two.config.groups[:1]))
    assert explore(one, VLLM_0_22_1, limit=1, claims=frozenset()).states >= 1


def found(scope: Scope, **statements: Any) -> Counterexample | None:
    """What a search finds with other invariants than the real ones."""
    before = dict(INVARIANTS)
    try:
        INVARIANTS.clear()
        INVARIANTS.update({id.replace("_", "-"): holds for id, holds in statements.items()})
        return explore(scope).counterexample
    finally:
        INVARIANTS.clear()
        INVARIANTS.update(before)


def three_tokens(s: Any) -> bool:
    """False once a request has taken a token."""
    return bool(s.ntok["a"] < 4)


def no_third(s: Any) -> bool:
    """False once a block is shared."""
    return all(n < 2 for n in s.ref.values())


def test_a_broken_invariant_is_found_by_a_shortest_way() -> None:
    """A claim that the first output token breaks is broken by one arrival and one step; nothing
    shorter does it, by trying everything shorter.
    """
    example = found(TINY, POOL_1=three_tokens)
    assert example is not None
    assert (example.breaks, example.actions) == ("POOL-1", (Add("a"), Step()))
    both = (TINY.templates[0], replace(TINY.templates[0], id="b"))
    two = replace(TINY, config=Config(6, 2, 6, 2, 8), templates=both)
    example = found(two, POOL_1=no_third)
    assert example is not None
    for shorter in range(len(example.actions)):
        assert not any(breaks(two, way, no_third) for way in ways(two, shorter))


def ways(scope: Scope, length: int) -> Iterator[list[Any]]:
    """Every sequence of that many actions."""
    states = [(beginning(scope, NORMATIVE), [])]
    for _ in range(length):
        states = [(s.copy(), [*way, a]) for s, way in states for a in actions(s, scope)]
        for s, way in states:
            perform(s, way[-1])
    return (way for _, way in states)


def breaks(scope: Scope, way: list[Any], holds: Any) -> bool:
    """Whether a state on the way breaks a claim."""
    s = beginning(scope, NORMATIVE)
    for action in way:
        perform(s, action)
        if not holds(s):
            return True
    return False


def test_a_rule_that_contradicts_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that fires a rule which may not fire is a counterexample, with the way there."""

    def confused(s: Any, action: Any, half: Any = None) -> None:
        perform(s, action, half)
        if isinstance(action, Step) and s.nr:
            RULES["end_running"](s)

    monkeypatch.setattr(search, "perform", confused)
    example = explore(TINY).counterexample
    assert example is not None
    assert example.breaks == "guard" and "RUN-7 end_running" in example.sentence
    assert example.actions == (Add("a"), Step())


@pytest.mark.parametrize("name", ["twins-two", "orphans-two"])
def test_with_and_without_names_the_same_states_are_reached(name: str) -> None:
    """A search in which blocks keep their names reaches states whose canonical forms are those of
    the other search: none more, none less.
    """
    whole = STANDARD[name.removesuffix("-two")]
    scope = replace(
        whole, templates=whole.templates[:2], config=replace(whole.config, num_blocks=4)
    )
    named = Search(scope, NORMATIVE, canonical=False)
    seen, keys = set(), Identity()
    fresh = named.successor

    def successor(s: Any, action: Any) -> Any:
        key, t, new = fresh(s, action)
        if new:
            seen.add(keys.key(t.copy())[0])
        return key, t, new

    named.successor = successor  # type: ignore[method-assign]
    seen.add(keys.key(beginning(scope, NORMATIVE))[0])
    outer, Engines.after_rule = Engines.after_rule, named.after_rule
    try:
        assert named.run(None, None) == (None, True)
    finally:
        Engines.after_rule = outer
    short = explore(scope)
    assert len(seen) == short.states < len(named.origin)


def test_blocks_on_a_way_are_called_as_they_are() -> None:
    """In a counterexample an eviction names the block of the real run, not its canonical id: what
    is broken is broken when the actions are performed plainly.
    """

    def unevicted(s: Any) -> bool:
        return not s.evicted or not any(s.hsh[b] for b in s.freeset)

    scope = STANDARD["orphans"]
    example = found(scope, POOL_1=unevicted)
    assert example is not None and isinstance(example.actions[-1], Evict)
    s = beginning(scope, NORMATIVE)
    for action in example.actions:
        assert unevicted(s)
        if isinstance(action, Evict):
            assert s.hsh[action.block] is not None
        perform(s, action)
    assert not unevicted(s)
