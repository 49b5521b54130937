"""What makes an erased form quick, and what it may not change."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from erased_lockstep import Objects
from test_erased import SMALL

from nullblock.spec.erased.code import (
    ANYTHING,
    LASTING,
    Append,
    Break,
    Do,
    If,
    Let,
    Loop,
    Set,
    counted,
    fold,
    lines,
    prune,
)
from nullblock.spec.erased.invariants import hoist
from nullblock.spec.erased.program import erased, residual
from nullblock.spec.erased.records import Records
from nullblock.spec.facts import Request
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine.events import add
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.profiles import VLLM_0_32_0


class Counting(Objects):
    """An environment that counts what it is told, behind a method of its own."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.many: dict[Any, int] = {}

    def on_token(self, s: Any, r: Any) -> None:
        many = self.many.get(r, 0) + 1
        if many > 2:
            raise LookupError(f"{many} of {r}")
        self.many[r] = many


class Twice(Counting):
    """One that passes it on twice."""

    def on_token(self, s: Any, r: Any) -> None:
        super().on_token(s, r)
        super().on_token(s, r)


def test_methods_that_are_overridden_are_inlined() -> None:
    """What `super()` names is followed like any text, and a dictionary is written where it is;
    where that raises, the method that was called does.
    """

    def told(s: Any, r: Any) -> None:
        s.k.on_token(s, r)

    k = Twice(SMALL)
    s: Any = k.start()
    text = residual(told, k)[1]
    assert text.count("k_many[given_1] = ") == 2
    form = erased(told, k)
    form(s, Counter(), "a")
    assert k.many == {"a": 2}
    with pytest.raises(LookupError, match="3 of a"):
        form(s, Counter(), "a")
    assert k.many == {"a": 2}


def program(block: list[Any], **names: Any) -> dict[str, Any]:
    """What names hold after the statements."""
    fold(block, counted(block))
    exec("\n".join(["if True:", *(line for line, _ in lines(block))]), names)
    return names


def test_what_is_at_hand_is_asked_for_first() -> None:
    """Of a conjunction in a conjunction, too; what reads a map comes behind, each in its order."""
    block = [
        Let("a", "m['a']", (), total=True, root=ANYTHING),
        Let("b", "x < 1", (), total=True, root=""),
        Let("both", "{} and {}", ("a", "b"), total=True, root=""),
        Let("c", "m['c']", (), total=True, root=ANYTHING),
        Let("all", "{} and {} and {}", ("c", "both", "y"), total=True, root=""),
        Do("out.append({})", ("all",)),
    ]
    fold(block, counted(block))  # type: ignore[arg-type]
    [(line, _)] = lines(block)  # type: ignore[arg-type]
    assert line.strip() == "out.append(((x < 1) and y and (m['c']) and (m['a'])))"


def test_what_no_turn_changes_is_computed_before_the_loop() -> None:
    """And what follows from it; what a turn gives a value to, or a map says, is not."""
    turn: list[Any] = [
        Let("fixed", "{} + 1", ("x",), total=True, root=""),
        Let("moving", "{} + {}", ("i", "fixed"), total=True, root=""),
        Let("told", "m[{}]", ("x",), total=True, root=ANYTHING),
        Let("risky", "1 // {}", ("x",), total=False, root=""),
        Let("end", "{} >= {}", ("i", "fixed"), total=True, root=""),
        If("end", [Break()]),
        Do("out.append(({}, {}, {}))", ("moving", "told", "risky")),
        Let("next", "{} + 1", ("i",), total=True, root=""),
        Set([("i", "next")]),
    ]
    block: list[Any] = [Set([("i", "0")]), Loop(turn)]
    hoist(block)
    assert [s.name for s in block if isinstance(s, Let)] == ["fixed"]
    assert program(block, x=1, m={1: 7}, out=[])["out"] == [(2, 7, 1), (3, 7, 1)]


@pytest.mark.parametrize(
    ("root", "stored", "stays"),
    [
        *(("*m", "*others", True), ("*m", "*m", False), ("*m", ANYTHING, False)),
        *((ANYTHING, "*others", False), (LASTING, "*others", True), (LASTING, ANYTHING, True)),
    ],
)
def test_what_no_turn_changes_is_read_before_the_loop(root: str, stored: str, stays: bool) -> None:
    """As far as the loop's head, to which every turn comes."""
    others = root == LASTING or stored == "*others"
    turn: list[Any] = [
        Let("told", "m[{}]", ("x",), total=True, root=root),
        Let("end", "{} >= {}", ("i", "told"), total=True, root=""),
        If("end", [Break()]),
        Let("late", "m[{}]", ("x",), total=True, root=root),
        Do("{}[{}] = {}", ("others" if others else "m", "x", "1"), stored),
        Do("out.append({})", ("late",), ""),
        Let("next", "{} + 1", ("i",), total=True, root=""),
        Set([("i", "next")]),
    ]
    block: list[Any] = [Set([("i", "0")]), Loop(turn)]
    hoist(block)
    assert [s.name for s in block if isinstance(s, Let)] == (["told"] if stays else [])
    assert program(block, x=1, m={1: 2}, others={}, out=[])["out"] == [2] * (2 if others else 1)


def test_so_it_is_before_a_loop_within_a_loop() -> None:
    """What the outer loop gives a value to, and the inner one does not, stays between them."""
    inner: list[Any] = [
        Let("fixed", "{} + 1", ("x",), total=True, root=""),
        Let("outer", "{} * 10", ("i",), total=True, root=""),
        Do("out.append({} + {} + {})", ("fixed", "outer", "j")),
    ]
    turn: list[Any] = [Loop(inner, "j", "range({})", ("x",))]
    block: list[Any] = [Loop(turn, "i", "range({})", ("x",))]
    hoist(block)
    assert [s.name for s in block if isinstance(s, Let)] == ["fixed"]
    assert [s.name for s in turn if isinstance(s, Let)] == ["outer"]
    assert program(block, x=2, out=[])["out"] == [3, 4, 13, 14]


def test_a_list_that_nobody_asks_for_is_not_made() -> None:
    """Nor what it is made of, nor its loop; one that is asked for is made as it was."""

    def listing(*behind: Any) -> list[Any]:
        twice = Let("twice", "2 * {}", ("x",), total=True, root="")
        more = Append("{}.append({})", ("list", "twice"), "")
        block: list[Any] = [Set([("list", "[]")]), Loop([twice, more], "x", "{}", ("xs",))]
        block += [Let("sum", "sum({})", ("list",), total=True, root=ANYTHING), *behind]
        prune(block)
        return block

    assert listing() == []
    assert program(listing(Do("out.append({})", ("sum",))), xs=[1, 2], out=[])["out"] == [6]


def test_a_sum_over_all_requests_is_written_out_where_it_decides() -> None:
    """Those who wait ask once each what others lack; those who run, all of them, ask for nothing
    (REMOTE-40): nor do they call the text, which goes through all requests.
    """
    k = Objects(replace(SMALL, semantics=VLLM_0_32_0, connector=True))
    k.start()
    _, text, names = residual(schedule, k)
    assert "set_aside" not in names and "still_lacks" not in names
    running, end, waiting = text.partition("RUN-7 end_running")
    assert end and "sum(list_" in waiting
    assert " in k_requests" not in running


def test_a_form_takes_many_rows() -> None:
    """One after the other, each from the state that the one before has left, up to an error."""
    k = Objects(SMALL)
    s: Any = k.start()
    for r in "abc":
        k.requests[r] = Request((0.0, 0), 4, 4)
        k.records.make(r)
    fired: Counter[str] = Counter()
    form = erased(add, k, each=True)
    with pytest.raises(Disabled, match="in use"):
        form(s, fired, iter([("a",), ("b",), ("a",), ("c",)]))
    assert (s.nwait, list(s.rank), fired["LIFE-1"]) == (2, ["a", "b"], 2)


def test_objects_of_tables_are_found_both_ways() -> None:
    """By their names, and by group in that of their request: whichever is asked for first."""
    for first in ("a", ("a", 1)):
        records = Records(2)
        records.make(first)
        assert [records["a", g] for g in (0, 1)] == records["a"].tables
        assert records["a", 0] is not records["a", 1]
        assert records["b"].tables and "b" not in records
    assert not Records(1)["a"].tables
