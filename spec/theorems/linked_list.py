"""The surgery of a doubly linked free queue, for any number of blocks: code against a sequence.

The code is that of an engine: a class with the methods of vLLM's `FreeKVCacheBlockQueue`. Each
method is run as it stands, on links that are terms: a block is a handle on a node, reading one of
its links gives another handle or None, and an `if` follows both ways. A loop over a symbolic
number of blocks is cut: its body runs once, from any state that the loop may have come to.

What the code must do is said of a sequence: the members of the queue by place. Places are what the
stamps of the specification stand for (QUEUE-1, QUEUE-2, THEOREM-10): who is appended comes after
all, who is removed leaves the order of the others alone.
"""

import builtins
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, FunctionType
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.catalogue import register
from nullblock.spec.prover.paths import Forks, PathEnd, attached
from nullblock.spec.prover.report import Checked, Status
from nullblock.spec.prover.symbols import Term
from nullblock.spec.theorems.sequence import (
    HEAD,
    NODE,
    NONE,
    TAIL,
    Gap,
    Heap,
    Order,
    linked,
    order,
)
from nullblock.spec.theorems.theorem import ANY, Effort, Found, follows

GLANCE = ((0, 0.05),)
"""Enough to see that a way cannot be gone; if it is not seen, the way is followed all the same."""
IN_HAND: dict[Gap, tuple[str, ...]] = {
    "back": ("last", "last_block"),
    "front": ("block", "following", "curr_block"),
}
"""Names of the local variable that holds the block at the gap while a loop goes on."""


class Block:
    """A handle on a node. Its links are read and written as those of a block."""

    def __init__(self, surgeon: "Surgeon", node: Term) -> None:
        self.surgeon, self.node = surgeon, node

    def _read(self, links: Term) -> "Block | None":
        node = links[self.node]
        return None if self.surgeon.branch(node == NONE) else Block(self.surgeon, node)

    @property
    def next_free_block(self) -> "Block | None":
        """The block behind this one."""
        return self._read(self.surgeon.heap.next)

    @next_free_block.setter
    def next_free_block(self, other: "Block | None") -> None:
        heap = self.surgeon.heap
        heap.next = z3.Store(heap.next, self.node, NONE if other is None else other.node)

    @property
    def prev_free_block(self) -> "Block | None":
        """The block before this one."""
        return self._read(self.surgeon.heap.prev)

    @prev_free_block.setter
    def prev_free_block(self, other: "Block | None") -> None:
        heap = self.surgeon.heap
        heap.prev = z3.Store(heap.prev, self.node, NONE if other is None else other.node)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a loop over n blocks has done after i rounds."""

    gap: Gap
    after: Callable[[Term], Order]
    takes: Callable[[Term], Term]
    """The node that round i puts into a list, if the loop has one."""


class Blocks:
    """A list of symbolic length."""

    def __init__(self, surgeon: "Surgeon", nodes: Order) -> None:
        self.surgeon, self.nodes = surgeon, nodes

    def __iter__(self) -> Iterator[Block]:
        return self.surgeon.rounds(self.nodes.hi, sys._getframe(1), self._nth)

    def __reversed__(self) -> Iterator[Block]:
        last = self.nodes.hi - 1
        return self.surgeon.rounds(self.nodes.hi, sys._getframe(1), lambda i: self._nth(last - i))

    def _nth(self, i: Term) -> Block:
        return Block(self.surgeon, self.nodes.at(i))


class Queue:
    """The object whose methods run: its links are those of the surgeon's heap."""

    def __init__(self, surgeon: "Surgeon", code: type[Any]) -> None:
        self.surgeon, self.code = surgeon, code
        self.fake_free_list_head = Block(surgeon, HEAD)
        self.fake_free_list_tail = Block(surgeon, TAIL)

    @property
    def num_free_blocks(self) -> Term:
        """The counter."""
        return self.surgeon.heap.count

    @num_free_blocks.setter
    def num_free_blocks(self, count: Term) -> None:
        self.surgeon.heap.count = count

    def __getattr__(self, name: str) -> Callable[..., Any]:
        f = getattr(self.code, name)
        words = {"range": self.surgeon.range, "reversed": reversed, "len": self.surgeon.len}
        run = FunctionType(f.__code__, f.__globals__ | words, name, f.__defaults__, f.__closure__)
        return lambda *args: run(self, *args)


class Surgeon:
    """Follows one method along every path, and collects what must be shown."""

    conj, neg, ite, implies = z3.And, z3.Not, z3.If, z3.Implies

    def __init__(self, where: str, cut: Cut | None) -> None:
        self.where, self.cut = where, cut
        self.forks = Forks()
        self.found: dict[str, Checked] = {}
        self.heap = Heap.of("0")
        self.known: list[Term] = []

    # obligations -----------------------------------------------------------------------------
    def branch(self, condition: Term) -> bool:
        """Which way an `if` goes: a way that cannot be gone is not."""
        for way in (True, False):
            if follows(self.known, condition if way else z3.Not(condition), GLANCE):
                return way
        way, assumed = self.forks.decide(condition)
        if assumed is not None:
            self.known.append(assumed)
        return way

    def prove(self, goal: Term, what: str) -> None:
        """Show `goal`."""
        began = time.process_time()
        status: Status = "proved" if follows(self.known, goal, Effort.attempts) else "unknown"
        old = self.found.get(what)
        if old is None or old.status == "proved":
            took = time.process_time() - began
            self.found[what] = Checked(self.where, what, ANY, status, took)

    def hold(self, q: Order, when: str, gap: Gap | None = None) -> None:
        """Show that the links follow a sequence."""
        for name, goal in linked(self.heap, q, gap).items():
            self.prove(goal, f"{when}: {name}")

    # loops -----------------------------------------------------------------------------------
    def range(self, *bounds: Any) -> Any:
        """`range`, of a symbolic number too."""
        if isinstance(bounds[0], int):
            return builtins.range(*bounds)
        return self.rounds(bounds[0], sys._getframe(1), lambda i: i)

    def len(self, members: Any) -> Any:
        """`len`, of a list of symbolic length too."""
        return members.nodes.hi if isinstance(members, Blocks) else builtins.len(members)

    def _in_hand(self, frame: FrameType) -> Block:
        assert self.cut is not None
        names = frame.f_locals
        (block,) = [names[n] for n in IN_HAND[self.cut.gap] if isinstance(names.get(n), Block)][:1]
        return block  # type: ignore[no-any-return]

    def _standing(self, frame: FrameType, i: Term, when: str) -> None:
        assert self.cut is not None
        q = self.cut.after(i)
        self.hold(q, when, self.cut.gap)
        edge = q.node(q.hi - 1) if self.cut.gap == "back" else q.node(q.lo)
        self.prove(self._in_hand(frame).node == edge, f"{when}: the block in hand")

    def rounds(self, n: Term, frame: FrameType, member: Callable[[Term], Any]) -> Iterator[Any]:
        """Cut a loop of n rounds: none, any one but the last, or the last."""
        cut = self.cut
        assert cut is not None, "a loop that nobody expects"
        self._standing(frame, z3.IntVal(0), "before the loop")
        if self.branch(n == 0):
            return
        i, hand = z3.Int("round"), self._in_hand(frame)
        count, self.heap = self.heap.count, Heap.of("1")
        self.heap.count, hand.node = count, z3.Const("in_hand", NODE)
        q = cut.after(i)
        self.known += [0 <= i, i < n, *linked(self.heap, q, cut.gap).values()]
        self.known.append(hand.node == (q.node(q.hi - 1) if cut.gap == "back" else q.node(q.lo)))
        last = self.branch(i == n - 1)
        lists = [x for x in frame.f_locals.values() if isinstance(x, list)]
        yield member(i)
        self._standing(frame, i + 1, "after a round")
        for taken in lists:
            one = len(taken) == 1 and isinstance(taken[0], Block)
            given = taken[0].node == cut.takes(i) if one else z3.BoolVal(False)
            self.prove(given, "a round takes the next block")
        if not last:
            raise PathEnd


@dataclass(frozen=True, slots=True)
class Operation:
    """One method: its arguments, what holds before, and the sequence after."""

    method: str
    arguments: Callable[[Surgeon], tuple[Any, ...]]
    before: Callable[[Order], Term]
    after: Callable[[Order], Order]
    cut: Callable[[Order], Cut] | None = None
    gives: Callable[[Order], Term] | None = None
    """The node that it returns."""
    raises: type[Exception] | None = None


Q, NEW = order("queue"), order("new")
ONE, COUNT = z3.Const("one", NODE), z3.Int("n")
SINGLE = Order(
    lambda i: ONE, lambda y: z3.IntVal(0), lambda y: y == ONE, z3.IntVal(0), z3.IntVal(1)
)


def _apart(new: Order) -> Term:
    """Blocks that are not queued: none twice, none of them a sentinel."""
    x = z3.Const("x_new", NODE)
    return z3.And(
        new.lo == 0, new.sound(), z3.ForAll([x], z3.Implies(new.has(x), z3.Not(Q.has(x))))
    )


def _stranger(x: Term) -> Term:
    return z3.And(z3.Not(Q.has(x)), x != HEAD, x != TAIL, x != NONE)


def _front(q: Order) -> Cut:
    return Cut("front", q.dropped, lambda i: q.node(q.lo + i))


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "remove", lambda k: (Block(k, ONE),), lambda q: q.has(ONE), lambda q: q.without(ONE)
    ),
    Operation(
        "remove",
        lambda k: (Block(k, ONE),),
        lambda q: _stranger(ONE),
        lambda q: q,
        raises=RuntimeError,
    ),
    Operation(
        "append",
        lambda k: (Block(k, ONE),),
        lambda q: _stranger(ONE),
        lambda q: q.followed(SINGLE, z3.IntVal(1)),
    ),
    Operation(
        "append_n",
        lambda k: (Blocks(k, NEW),),
        lambda q: _apart(NEW),
        lambda q: q.followed(NEW, NEW.hi),
        lambda q: Cut("back", lambda i: q.followed(NEW, i), NEW.at),
    ),
    Operation(
        "prepend_n",
        lambda k: (Blocks(k, NEW),),
        lambda q: _apart(NEW),
        lambda q: q.preceded(NEW, NEW.hi),
        lambda q: Cut("front", lambda i: q.preceded(NEW, i), NEW.at),
    ),
    Operation(
        "popleft",
        lambda k: (),
        lambda q: q.lo < q.hi,
        lambda q: q.dropped(z3.IntVal(1)),
        gives=lambda q: q.at(q.lo),
    ),
    Operation("popleft", lambda k: (), lambda q: q.lo == q.hi, lambda q: q, raises=ValueError),
    Operation(
        "popleft_n",
        lambda k: (COUNT,),
        lambda q: z3.And(0 <= COUNT, COUNT <= q.hi - q.lo),
        lambda q: q.dropped(COUNT),
        _front,
    ),
)
"""`INT` places, any number of blocks."""


def _followed(op: Operation, code: type[Any]) -> Iterator[Checked]:
    """Every path of one method."""
    name = op.method + (f" raises {op.raises.__name__}" if op.raises else "")
    surgeon = Surgeon(f"{code.__name__}.{name}", op.cut(Q) if op.cut else None)
    with attached(surgeon):
        while True:
            surgeon.forks.start()
            surgeon.heap = Heap.of("0")
            surgeon.known = [z3.Distinct(HEAD, TAIL, NONE), Q.sound(), op.before(Q)]
            surgeon.known += linked(surgeon.heap, Q).values()
            _path(op, surgeon, code)
            if not surgeon.forks.next_path():
                break
    yield from surgeon.found.values()


def _path(op: Operation, surgeon: Surgeon, code: type[Any]) -> None:
    queue = Queue(surgeon, code)
    try:
        given = getattr(queue, op.method)(*op.arguments(surgeon))
    except PathEnd:
        return
    except Exception as error:
        if op.raises is None or not isinstance(error, op.raises):
            surgeon.prove(z3.BoolVal(False), f"it does not raise {type(error).__name__}")
            return
    else:
        surgeon.prove(z3.BoolVal(op.raises is None), "it raises what it should")
        if op.gives is not None:
            surgeon.prove(given.node == op.gives(Q), "it returns the block")
    surgeon.prove(op.after(Q).sound(), "what it makes is a sequence")
    surgeon.hold(op.after(Q), "at the end")


def surgery(code: type[Any], *methods: str) -> Found:
    """The links of a free queue follow the sequence that its methods are said to make of it,
    however long the queue and the lists are.

    `code` is a class with the methods of FreeKVCacheBlockQueue; those that it has are shown.
    """
    return tuple(
        checked
        for op in OPERATIONS
        if hasattr(code, op.method) and (not methods or op.method in methods)
        for checked in _followed(op, code)
    )


ID = "THEOREM-9"
ENGINE = "Z3, unbounded, over the code's own methods; loops cut at their rounds"
ASSUMES = (
    "a list of blocks names none twice, and only such as are not queued (QUEUE-2, POOL-3)",
    "blocks are compared by `is None` alone; a handle is no sentinel to `is`",
)
register(ID, "theorem", surgery)
