"""The free queue beside a plain list."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nullblock.impl.free_queue import FreeQueue


class AgainstAList(RuleBasedStateMachine):
    """Any order of calls gives the order of a list (QUEUE-10, POOL-10 to POOL-12)."""

    @initialize(num_blocks=st.integers(1, 24))
    def begin(self, num_blocks: int) -> None:
        """Blocks 1 to the last, in order of id."""
        self.queue, self.held = FreeQueue(num_blocks), list[int]()
        self.model = list(range(1, num_blocks))
        self.everybody = set(self.model)

    @rule(data=st.data())
    def popleft_n(self, data: st.DataObject) -> None:
        """The first n blocks leave, in their order."""
        n = data.draw(st.integers(0, len(self.model)))
        assert self.queue.popleft_n(n).tolist() == self.model[:n]
        self.held += self.model[:n]
        del self.model[:n]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), where=st.sampled_from(["append", "prepend"]))
    def put_back(self, data: st.DataObject, where: str) -> None:
        """Some blocks come back, in any order, at either end."""
        back = data.draw(st.lists(st.sampled_from(self.held), unique=True))
        getattr(self.queue, where)(np.array(back, np.int32))
        self.model = self.model + back if where == "append" else back + self.model
        self.held = [block for block in self.held if block not in back]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Some blocks leave from wherever they stand."""
        gone = data.draw(st.lists(st.sampled_from(self.model), unique=True))
        self.queue.remove(np.array(gone, np.int32))
        self.model = [block for block in self.model if block not in gone]
        self.held += gone

    @precondition(lambda self: self.model)
    @rule(times=st.integers(1, 40), data=st.data())
    def remove_and_append(self, times: int, data: st.DataObject) -> None:
        """The same few blocks leave from the middle and come back again and again: holes gather
        until they have to be closed."""
        few = data.draw(st.lists(st.sampled_from(self.model), unique=True, min_size=1))
        for _ in range(times):
            self.queue.remove(np.array(few, np.int32))
            self.queue.append(np.array(few, np.int32))
        self.model = [block for block in self.model if block not in few] + few

    @invariant()
    def same_order(self) -> None:
        """Order, number and membership are the list's."""
        assert self.queue.in_order() == self.model
        assert self.queue.num_free == len(self.model)
        assert {block for block in self.everybody if block in self.queue} == set(self.model)


AgainstAList.TestCase.settings = settings(
    max_examples=35, stateful_step_count=30, derandomize=True, database=None, deadline=None
)
test_any_calls_give_the_order_of_a_list = AgainstAList.TestCase


def test_holes_are_closed_and_the_ring_wraps_around() -> None:
    """A queue that holes fill keeps its order, and so does one whose positions pass the ring's end
    in either direction, however often."""
    queue, model = FreeQueue(5), [1, 2, 3, 4]
    closed = 0
    make_room = queue._make_room

    def watched(n: int) -> None:
        nonlocal closed
        before = queue._tail - queue._head
        make_room(n)
        closed += queue._tail - queue._head < before

    queue._make_room = watched  # type: ignore[method-assign]
    for turn in range(400):
        middle = np.array([model[1]], np.int32)
        queue.remove(middle)
        model.remove(int(middle[0]))
        if turn % 3:
            queue.append(middle)
            model.append(int(middle[0]))
        else:
            queue.prepend(middle)
            model.insert(0, int(middle[0]))
        assert queue.in_order() == model
    assert closed > 5
    for _ in range(400):
        front = queue.popleft_n(1)
        queue.append(front)
        queue.prepend(queue.popleft_n(2))
        model.append(model.pop(0))
        assert queue.in_order() == model


def test_more_blocks_than_there_are_cannot_be_popped() -> None:
    """The queue says so, and is as it was."""
    queue = FreeQueue(4)
    with pytest.raises(AssertionError, match="4 of 3 free blocks"):
        queue.popleft_n(4)
    assert queue.in_order() == [1, 2, 3]


def test_a_pop_looks_no_further_than_holes_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large pool a hole near the front costs as much as in a small one; and behind a thousand
    holes the next blocks are found.
    """
    queue, looked_at, arange = FreeQueue(100_000), list[int](), np.arange

    def watched(*bounds: int) -> np.ndarray:
        looked_at.append(bounds[-1] - (bounds[0] if len(bounds) > 1 else 0))
        return arange(*bounds)

    monkeypatch.setattr(np, "arange", watched)
    queue.remove(np.array([2, 5], np.int32))
    assert queue.popleft_n(4).tolist() == [1, 3, 4, 6] and max(looked_at) <= 16
    queue.remove(arange(7, 1007, dtype=np.int32))
    assert queue.popleft_n(3).tolist() == [1007, 1008, 1009] and max(looked_at) <= 4000
    assert len(looked_at) < 12
