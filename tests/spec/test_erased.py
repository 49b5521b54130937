"""The erased form of the text does what the text does."""

from collections import Counter
from dataclasses import fields, replace
from types import FunctionType
from typing import Any

import pytest
from erased_lockstep import Form, Maps, Objects, first_difference

from nullblock.spec import kernel
from nullblock.spec.encoder_departures import ENCODER_DEFECTS
from nullblock.spec.erased.code import Break, Do, Let, Loop, Statement, counted, fold, lines
from nullblock.spec.erased.program import erased, residual
from nullblock.spec.erased.text import Unsupported, changes_state
from nullblock.spec.facts import Config, Encoder, Group, Request
from nullblock.spec.gate import fits
from nullblock.spec.kernel import RULES, loop
from nullblock.spec.machine import events
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics
from nullblock.spec.rules.lookup import begin_lookup
from nullblock.spec.rules.pool import evict_block, push_new

SMALL = Config(
    num_blocks=9,
    block_size=2,
    max_num_scheduled_tokens=8,
    max_num_seqs=3,
    max_model_len=16,
    semantics=NORMATIVE,
)
ELSEWHERE = {"LIFE-1", "LIFE-2", "LIFE-3", "LIFE-4", "LIFE-5", "LIFE-7", "LIFE-8", "LIFE-9"}
"""Rules that fire between steps, from text that is never erased."""
ELSEWHERE |= {"HASH-13", "HASH-14", "WAIT-43", "ENC-15"}
ELSEWHERE |= {"GROUP-32"}  # of sinks and cross-attention there is none
ELSEWHERE |= {"ENC-52", "ENC-54"}  # of encoder-decoder models: recordings have them
ELSEWHERE |= {"GROUP-71"}  # of the mode align, with which no trace of that line is judged
ELSEWHERE |= {"GROUP-67"}  # of several sizes, with which no trace of that line is judged
ELSEWHERE |= {"ENC-17", "ENC-19"}  # and of encoder connectors
ELSEWHERE |= {
    "UPD-60",
    "UPD-61",
}  # every step here has its tokens
ELSEWHERE |= {"UPD-53"}  # and one client, that hears of no ends
ELSEWHERE |= {rule.id for rule in RULES.values() if rule.id.startswith(("SESS-", "REMOTE-"))}
ELSEWHERE |= {"PREEMPT-8", "WAIT-54", "WAIT-55"}
# Nobody here is a session, and there is no connector.

RARE = {"PREEMPT-3", "ENC-13"}
"""Rules that so few random events do not meet."""


def test_both_forms_go_the_same_way() -> None:
    """Over random events, configurations and switches: equal outputs, equal states after every
    event, equal counts of rules, equal errors in equal places; and nearly every rule fired.
    """
    reached: Counter[str] = Counter()
    for seed in (*range(60), 83, 111):  # these last meet ENC-40 and GROUP-31
        assert first_difference(seed, reached) is None
    fired = {rule.id for rule in RULES.values() if reached[rule.id]}
    assert fired - ELSEWHERE >= {rule.id for rule in RULES.values()} - ELSEWHERE - RARE
    assert any("is not enabled" in what for what in reached)


def test_drafts_from_outside_are_taken_in_both_forms() -> None:
    """And refused in both, where nobody may have them, or as many."""
    reached: Counter[str] = Counter()
    for seed in range(32):
        assert first_difference(seed, reached, offers=0.2) is None
    assert reached["DRAFT-7"] > 5
    assert any(what.startswith("DRAFT-7 propose is not enabled") for what in reached)


def test_a_victims_inputs_are_withdrawn_in_both_forms() -> None:
    """ENC-13 fires in the erased form as in the text, in the steps of the departure it is of."""
    defect = next(d for d in ENCODER_DEFECTS if d.name == "item-never-computed")
    config = replace(defect.config, enable_prefix_caching=False, semantics=VLLM_0_22_1)
    forms = Form(config, Maps, plain=True), Form(config, Objects, plain=False)
    for n, what in enumerate(
        "add a; schedule; add b; update; schedule; update; schedule".split("; ")
    ):
        for form in forms:
            if what.startswith("add"):
                t = next(t for t in defect.templates if t.id == what[-1])
                form.s.k.requests[t.id] = Request(
                    t.id,
                    len(t.prompt),
                    t.max_tokens,
                    priority=t.priority,
                    arrival=n,
                    items=t.items,
                )
                events.add(form.s, t.id)
            else:
                form.did(getattr(form, what))
        assert forms[0].state() == forms[1].state()
    assert all(form.fired["ENC-13"] == 1 for form in forms)


@pytest.mark.parametrize("switch", [f.name for f in fields(Semantics)])
@pytest.mark.parametrize("base", [NORMATIVE, VLLM_0_22_1], ids=["normative", "vllm"])
def test_every_switch_has_an_erased_form(base: Semantics, switch: str) -> None:
    """Nothing that any profile switches on keeps the text from being erased."""
    semantics = replace(base, **{switch: not getattr(base, switch)})
    for policy, encoder in (("fcfs", None), ("priority", None), ("priority", Encoder(3, 4))):
        k = Maps(replace(SMALL, semantics=semantics, policy=policy, encoder=encoder))
        k.start()
        assert callable(erased(schedule, k))
        assert callable(erased(update_from_output, k))


OVER_MANY = {"head", "is_head", "victim", "is_victim", "index_of", "anybody_ready"}
OVER_MANY |= {"is_open", "num_skipped"}
"""Readings that look for one among many: indexes answer them, their text is not inlined."""
OF_NEW = {"agreed", "taken_alone"}
"""Of several groups also what is asked once for a request."""
EVENTS = {"removed", "stored"}
"""Readings that make an event, where somebody listens."""


@pytest.mark.parametrize("ahead", [False, True], ids=["in-step", "ahead"])
@pytest.mark.parametrize(
    "semantics", [NORMATIVE, VLLM_0_22_1, VLLM_0_32_0], ids=["normative", "22", "32"]
)
def test_what_is_decided_for_each_running_request_is_inlined(
    semantics: Semantics, ahead: bool
) -> None:
    """No reading of the text is called as it is, but those over many blocks or requests: a call
    costs more than all else that a request that runs needs in a step.
    """
    config = replace(SMALL, semantics=semantics, async_scheduling=ahead)
    for policy in ("fcfs", "priority"):
        assert _called(replace(config, policy=policy)) <= OVER_MANY | EVENTS
    groups = (Group(), Group(sliding_window=5), Group(sliding_window=5))
    called = _called(replace(config, groups=groups))
    assert called <= OVER_MANY | EVENTS | OF_NEW


def _called(config: Config) -> set[str]:
    """The readings that the erased forms call."""
    k = Objects(config)
    k.start()
    names = [x for f in (schedule, update_from_output) for x in residual(f, k)[2].values()]
    found = {g.__name__ for g in names if isinstance(g, FunctionType)}
    return found - {"disabled", "broken", "pair"}


def _text(f: Any, **changes: Any) -> str:
    k = Maps(replace(SMALL, **changes))
    k.start()
    return residual(f, k)[1]


def test_guards_that_follow_from_the_text_are_gone_and_others_stay() -> None:
    """That the phase is open follows from the machine; that a table is told the truth does not."""
    text = _text(schedule)
    assert "'the running phase is open'" not in text
    assert "'the number of tokens is the one decided'" not in text.partition("RUN-7")[0]
    assert "'a block from the free queue is unreferenced'" in text
    assert "'a step is in flight'" in _text(update_from_output)


def test_what_a_configuration_rules_out_is_gone() -> None:
    """Without prefix caching nothing is looked up or hashed, and no counter is kept for it."""
    assert "HASH-12" in _text(schedule)
    assert "HASH-12" not in _text(schedule, enable_prefix_caching=False)


def test_ghosts_are_gone() -> None:
    """No ghost field is read or written."""
    from nullblock.spec.fields import GHOSTS

    text = _text(schedule) + _text(update_from_output)
    assert not [g for g in GHOSTS if f"s.{g} " in text or f"{g}[" in text.replace("nprev", "")]


def test_a_branch_that_writes_ghosts_alone_is_gone() -> None:
    """Whatever decides it. One that writes something else and that a ghost decides is refused, and
    one that is decided by what writes is followed.
    """

    def both_ways(s: Any) -> None:
        if s.since[1] <= s.cur:
            s.loadto[1] = 0
        else:
            s.loadto[1] += 1
        s.nr += 7

    def by_a_ghost(s: Any) -> None:
        if s.since[1] <= s.cur:
            s.loadto[1] = 0
            s.nr += 7

    def by_what_writes(s: Any) -> None:
        if fits_and_counts(s):
            s.loadto[1] = 0

    assert "nr + 7" in _text(both_ways) and "since" not in _text(both_ways)
    with pytest.raises(Unsupported):
        _text(by_a_ghost)
    assert "nr + 9" in _text(by_what_writes)


def fits_and_counts(s: Any) -> bool:
    """Of the machine, as far as the eraser can tell."""
    s.nr += 9
    return True


def fills_a_row(s: Any, t: Any) -> None:
    """So is this, which has no assignment."""
    s.k.fill_row(s.tab, t, 0, 2, s.k.NULL)


def looks_at_a_row(s: Any, t: Any) -> Any:
    """This changes nothing."""
    return s.k.among(s.tab, 0, 2, t)


for text_of_ours in (fits_and_counts, fills_a_row, looks_at_a_row):
    text_of_ours.__module__ = push_new.body.__module__


def test_what_fills_a_map_changes_the_state() -> None:
    """It is inlined, or nothing is erased; what only reads may be called as it is."""
    found = [changes_state(f) for f in (fits_and_counts, fills_a_row, looks_at_a_row)]
    assert found == [True, True, False]


def test_a_rule_keeps_its_guard_where_nothing_says_that_it_holds() -> None:
    """Fired out of the blue, a rule tests what it asks for, in its own words."""

    def careless(s: Any) -> None:
        push_new(s, s.run[0], 1)

    text = _text(careless)
    for words in ("the request is being given slots", "a block is still missing"):
        assert words in text


def test_unknown_constructs_are_refused() -> None:
    """What the eraser does not know it does not guess."""

    def tries(s: Any) -> Any:
        try:
            return fits(s, s.actor)
        finally:
            begin_lookup(s, s.actor)

    def counts(s: Any) -> None:
        for i in range(3):
            evict_block(s, i)

    def ghostly(s: Any) -> Any:
        return s.used

    def writes(s: Any) -> None:
        while s.nr > 0:
            s.nr -= 1

    for f in (tries, counts, ghostly, writes):
        with pytest.raises(Unsupported):
            _text(f)


def test_a_text_that_never_comes_to_its_end_is_refused() -> None:
    """A loop that nothing leaves has no form to run; the text is run as it is."""

    def never_ends(s: Any) -> Any:
        for _ in loop(s, until=lambda: False, decreases=lambda: 0, changes=frozenset({"nr"})):
            s.nr += 1
        return s.nr

    with pytest.raises(Unsupported, match="never reached"):
        _text(never_ends)


def test_a_comprehension_makes_what_the_text_makes() -> None:
    """A tuple is a tuple and a list a list, filtered or not, whatever it runs over."""

    def spans(s: Any) -> Any:
        return tuple(i for i in range(s.nr) if s.run[i] != "b")

    def listed(s: Any) -> Any:
        return [s.run[i] for i in range(s.nr)]

    def of_pairs(s: Any) -> Any:
        pairs = tuple((s.run[i], i) for i in range(s.nr))
        return tuple(r for r, i in pairs if i != 1)

    def of_list(s: Any) -> Any:
        names = [s.run[i] for i in range(s.nr)]
        return tuple(r for r in names if r != "b")

    k = Maps(SMALL)
    s: Any = k.start()
    s.run[:3] = "abc"
    for s.nr in (0, 3):
        for f in (spans, listed, of_pairs, of_list):
            by_form, by_text = erased(f, k)(s, Counter()), f(s)
            assert (type(by_form), by_form) == (type(by_text), by_text), f.__name__


def test_what_only_the_text_behind_a_loop_asks_for_is_computed_before_the_loop_is_left() -> None:
    """A loop with one way out defines what is read behind it on that way."""
    found = Let("found", "x + 1", (), total=True, root="")
    block: list[Statement] = [Loop([found, Break()]), Do("out.append({})", ("found",))]
    fold(block, counted(block))
    out: list[int] = []
    exec("\n".join(["if True:", *(line for line, _ in lines(block))]), {"x": 1, "out": out})
    assert out == [2]


def test_an_emptied_field_is_empty() -> None:
    """A field that is blanked forgets what it said of every request; the others do not."""
    k = Objects(SMALL)
    s: Any = k.start()
    s.told["a"], s.comp["a"] = 2, 3
    for field in ("told", "frame"):
        setattr(s, field, k.blank(field))
        assert list(getattr(s, field).items()) == []
    assert s.told["a"] == 0 and s.comp["a"] == 3


def test_loops_that_check_their_outline_are_left_alone() -> None:
    """An environment that asks for the checks gets the text that has them."""
    k = Maps(SMALL)
    k.start()
    k.checks = True
    with pytest.raises(Unsupported):
        erased(schedule, k)


def test_nothing_is_left_attached() -> None:
    """Neither erasing nor the lockstep leaves an observer behind."""
    assert kernel.Engines.after_rule is None and kernel.Engines.prover is None
