"""The recorder around a scheduler of vLLM's shape: the reference's."""

import random
import weakref
from itertools import chain
from pathlib import Path

import pytest
from recorded_engine import Recorded, engine, records, request

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, RequestNumbers, Ties
from nullblock.conformance.checker import check
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    End,
    Error,
    Evict,
    Header,
    Part,
    Reset,
    State,
)
from nullblock.reference.request import RequestStatus
from nullblock.spec.profiles import profile


class TestRequestNumbers:
    """Request ids become numbers, and are forgotten."""

    def test_equal_ids_have_equal_numbers_while_they_are_remembered(self) -> None:
        """An id keeps its number for a while after its request ended, and then no longer."""
        numbers = RequestNumbers()
        assert [numbers.number(id) for id in ("x", "y", "x")] == [0, 1, 0]
        numbers.finished(1, ["x"])
        for step in range(2, numbers.REMEMBERED + 1):
            numbers.finished(step, ())
        assert numbers.number("x") == 0
        numbers.finished(numbers.REMEMBERED + 1, ())
        assert numbers.of == {"y": 1}
        assert numbers.number("x") == 2

    def test_an_id_in_use_is_not_forgotten(self) -> None:
        """A request that has an id again keeps its number."""
        numbers = RequestNumbers()
        numbers.number("x")
        numbers.finished(1, ["x"])
        numbers.finished(numbers.REMEMBERED + 1, (), {"x"})
        assert numbers.of == {"x": 0}


class TestChainNumbers:
    """Block hashes become numbers, and are forgotten when no block can carry them."""

    def test_equal_hashes_have_equal_numbers(self) -> None:
        """Numbers count up from 0, in runs, whoever brings the hash."""
        chains = ChainNumbers(num_blocks=8)
        assert chains.add("a", [b"1", b"2", b"3"]) == [[0, 3]]
        assert chains.add("b", [b"1", b"2", b"4"]) == [[0, 2], [3, 1]]
        assert chains.each([b"5", b"1", b"5"]) == [4, 0, 4]
        assert chains.number(b"6") == 5

    def test_a_hash_is_forgotten_only_once_every_block_was_given_out_again(self) -> None:
        """As long as a block may still be cached, and for live requests, numbers stay."""
        chains = ChainNumbers(num_blocks=8, sweep_above=3)
        chains.add("gone", [b"1", b"2", b"4"])
        chains.add("live", [b"1", b"3"])
        chains.remove("gone")
        chains.sweep()
        chains.given_out = 7
        assert chains.add("same", [b"2"]) == [[1, 1]]
        assert chains.add("next", [b"5"]) == [[4, 1]]
        chains.remove("same")
        chains.remove("next")
        chains.sweep()
        assert chains._of.keys() == {b"1", b"2", b"3", b"4", b"5"}
        chains.given_out = 8
        chains.sweep()
        assert chains.add("late", [b"4", b"1", b"2", b"5"]) == [[5, 1], [0, 2], [4, 1]]

    def test_a_number_stays_as_long_as_a_block_may_have_it(self) -> None:
        """Whoever comes and ends, and whenever it is looked what may be forgotten."""
        draw, many = random.Random(5), 20
        chains, told = ChainNumbers(many, sweep_above=9), dict[bytes, int]()
        had, live = dict[bytes, int](), dict[str, list[bytes]]()
        returned = forgotten = 0
        for name in map(str, range(3000)):
            hashes = [b"%d" % n for n in draw.sample(range(150), draw.randrange(4))]
            new = list(chain.from_iterable(range(a, a + n) for a, n in chains.add(name, hashes)))
            for hash, number in zip(hashes, new, strict=True):
                may = hash in told and had[hash] + many > chains.given_out
                assert not may or told[hash] == number
                returned += may
                forgotten += told.get(hash, number) != number
                told[hash] = number
            live[name] = hashes
            for hash in chain.from_iterable(live.values()):
                had[hash] = chains.given_out
            while len(live) > draw.randrange(1, 6):
                one = draw.choice(list(live))
                chains.remove(one)
                del live[one]
            chains.given_out += draw.randrange(3)
        assert returned > 300 and forgotten > 300, (returned, forgotten)

    def test_nothing_is_held_of_who_has_ended(self) -> None:
        """Its list of hashes would be one object more for the garbage collector to look at."""

        class Hashes(list[bytes]):
            """To which there may be a weak reference."""

        chains, hashes = ChainNumbers(num_blocks=8), Hashes([b"1", b"2"])
        held = weakref.ref(hashes)
        chains.add("a", hashes)
        chains.remove("a")
        del hashes
        assert held() is None

    def test_memory_is_that_of_the_pool_and_the_living(self) -> None:
        """A thousand requests leave no more numbers than blocks can carry, twice."""
        chains = ChainNumbers(num_blocks=50, sweep_above=10)
        for number in range(1000):
            name = str(number)
            chains.add(name, [f"{number}:{i}".encode() for i in range(5)])
            chains.given_out += 5
            chains.remove(name)
            assert len(chains._of) <= 2 * (50 + 10)


class TestTies:
    """Requests of one priority and arrival keep the order of their ids."""

    def test_numbers_are_in_the_order_of_the_ids(self) -> None:
        """Whatever the order of arrival, sorting by number sorts by id."""
        ties = Ties()
        found = {id: ties.add((0, 1.0), id) for id in "m d x f e a z y g".split()}
        assert sorted(found, key=lambda id: found[id] or 0.0) == sorted(found)
        assert ties.add((0, 2.0), "m") == 0.0

    def test_no_number_is_better_than_a_wrong_one(self) -> None:
        """Where none is left between two, none is given."""
        ties = Ties()
        low, middle, found = (ties.add((0, 1.0), id) for id in "abc")
        assert (low, middle, found) == (0.0, 1.0, 2.0)
        for length in range(80):
            tie = ties.add((0, 1.0), "b" + "a" * length + "z")
            if tie is None:
                return
            assert 1.0 < tie < (found or 0.0)
            found = tie
        raise AssertionError("floats do not end")

    def test_a_request_that_ends_leaves_no_trace(self) -> None:
        """Numbers are kept for the living only."""
        ties = Ties()
        ties.add((0, 1.0), "a")
        ties.remove((0, 1.0), "a")
        ties.remove((0, 1.0), "a")
        assert ties._classes == {}

    def test_chunks_of_one_arrival_have_one_number(self) -> None:
        """It is taken until the last of them has gone."""
        ties = Ties()
        first = ties.add((0, 1.0), "m")
        assert ties.add((0, 1.0), "m") == first
        ties.remove((0, 1.0), "m")
        assert (ties.add((0, 1.0), "z"), ties.add((0, 1.0), "m")) == (1.0, first)


def test_a_recording_tells_which_engine_and_what_configuration(where: Path) -> None:
    """The header has release and commit, the class that decides, and the resolved constants."""
    made = engine(max_num_batched_tokens=32, max_num_scheduled_tokens=16, policy="priority")
    made.scheduler.shutdown()
    header = records(where)[0]
    assert isinstance(header, Header)
    assert (header.engine.version, header.engine.commit) == ("1.2.3+local", "abc")
    assert header.engine.scheduler == "nullblock.reference.sched.scheduler.Scheduler"
    assert header.spec == "nullblock-1.2.3"
    assert (header.config.max_num_scheduled_tokens, header.config.policy) == (16, "priority")
    assert header.features == [] and header.sealed


def test_nothing_is_recorded_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable the scheduler writes nothing."""
    monkeypatch.delenv("NULLBLOCK_TRACE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adapter, "Scheduler", Recorded)
    made = engine()
    made.add(request("a"))
    made.schedule()
    made.update({"a": [1]})
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_identifies_anybody_is_recorded(where: Path) -> None:
    """Tokens, ids, adapters, salts and clock times stay where they are."""
    made = engine(policy="priority")
    secret = request(
        "user-4711",
        arrival=1.7e9,
        lora="secret-adapter",
        salt="secret-salt",
        eos=777_777,
        prompt=9,
    )
    secret.prompt[:] = range(888_880, 888_889)
    made.add(secret)
    made.schedule()
    made.update({"user-4711": [777_777]})
    made.scheduler.shutdown()
    text = where.read_text()
    for word in ("4711", "secret", "77777", "8888", "1700000", "17000000"):
        assert word not in text.partition('"ev":"add"')[2].partition('"sha256"')[0], word
    assert '"eos":[[0,0]]' in text


def test_every_call_is_recorded(where: Path) -> None:
    """Adds, aborts of one, several and all, pauses, resets and evictions."""
    made = engine()
    for id in "abcd":
        made.add(request(id))
    made.schedule()
    made.update({id: [9] for id in "abcd"})
    scheduler = made.scheduler
    made.evict_blocks([2, 1])
    scheduler.kv_cache_manager.evict_blocks(b for b in (3,))
    made.pause("PAUSED_ALL")
    scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED)
    scheduler.finish_requests((id for id in ("b", "nobody")), RequestStatus.FINISHED_ERROR)
    made.reset_prefix_cache(False)
    made.reset_prefix_cache(True)
    scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
    scheduler.shutdown()
    found = records(where)
    assert [type(r).__name__ for r in found[8:]] == [
        "Evict",
        "Evict",
        "Pause",
        "Abort",
        "Abort",
        "Reset",
        "Reset",
        "Abort",
        "End",
    ]
    assert found[8:10] == [Evict(blocks=[2, 1]), Evict(blocks=[3])]
    aborts = [r for r in found if isinstance(r, Abort)]
    assert [(r.asked, r.status, r.aborted) for r in aborts] == [
        ([0], "FINISHED_ABORTED", [0]),
        ([1], "FINISHED_ERROR", [1]),
        (None, "FINISHED_ABORTED", [2, 3]),
    ]
    assert [(r.reset_running, r.ok) for r in found[13:15]] == [(False, False), (True, True)]


def test_a_connector_that_empties_nothing_leaves_the_prefix_cache_empty(where: Path) -> None:
    """A reset that asks for the connector's cache as well fails where there is none; of the
    prefix cache what became of it is recorded.
    """
    made = engine()
    made.add(request("a"))
    made.schedule()
    made.update({"a": [9]})
    assert not made.scheduler.reset_prefix_cache(reset_connector=True)  # it is in use
    assert not made.scheduler.reset_prefix_cache(True, reset_connector=True)
    made.schedule()
    made.update({"a": [9]})
    made.scheduler.shutdown()
    assert [r.ok for r in records(where) if isinstance(r, Reset)] == [False, True]
    assert check(where, profile("vllm-0.22.1")).verdict == "CONFORMS"


def test_a_priority_of_any_size_is_recorded(where: Path) -> None:
    """64 bits are told as they are; beyond them, where the format has no number, the request says
    so: recording goes on, and a verdict is inconclusive by name.
    """
    made = engine(policy="priority")
    for id, rank in (("a", -(2**63)), ("b", 2**63 - 1), ("c", 2**63), ("d", -(10**30))):
        made.add(request(id, priority=rank))
    made.add(request("e", max_tokens=2**64))
    made.schedule()
    made.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
    made.scheduler.shutdown()
    adds = [r for r in records(where) if isinstance(r, Add)]
    assert [a.priority for a in adds[:2]] == [-(2**63), 2**63 - 1]
    assert [a.features for a in adds] == [
        *([], []),
        *(["priority_beyond_64_bits"], ["priority_beyond_64_bits"]),
        ["max_tokens_beyond_64_bits"],
    ]
    verdict = check(where, profile("vllm-0.22.1"))
    assert verdict.exit_code == 3 and "priority_beyond_64_bits" in str(verdict.missing)


def test_what_the_engine_raises_ends_the_recording_and_is_raised(where: Path) -> None:
    """The exception passes, its class is recorded, and the trace is sealed."""
    made = engine()
    made.add(request("a"))
    with pytest.raises(AssertionError):
        made.add(request("a"))
    made.schedule()
    assert records(where)[-2:-1] == [Error(during="add", type="AssertionError")]


def test_equal_ids_in_flight_stay_equal(where: Path) -> None:
    """An id that is used again while the old request's output is in flight keeps its number."""
    made = engine()
    made.add(request("a"))
    made.schedule()
    made.abort(["a"], "FINISHED_ABORTED")
    made.add(request("a"))
    made.update({"a": [4]})
    made.schedule()
    made.scheduler.shutdown()
    found = records(where)
    assert [r.id for r in found if isinstance(r, Add)] == [0, 0]
    # Into the old one's output goes the new one's name: that is what 0.22.1 does.
    assert found[-3].ids == [0]


def test_parts_are_read_back_as_one(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording into a folder is one trace, and each part is one by itself."""
    monkeypatch.setenv("NULLBLOCK_TRACE", str(where.with_name("parts")))
    monkeypatch.setenv("NULLBLOCK_TRACE_PART_MB", "0.002")
    made = engine(max_num_batched_tokens=2, num_blocks=20)
    made.add(request("a", prompt=70))
    for _ in range(70):
        made.schedule()
        made.update({"a": []} if _ < 34 else {"a": [1]})
    made.scheduler.shutdown()
    (folder,) = where.with_name("parts").iterdir()
    found = records(folder)
    assert sum(isinstance(r, Part) for r in found) > 2 and isinstance(found[-1], End)
    for number, path in enumerate(sorted(folder.iterdir()), start=1):
        part = records(path)
        assert (part[0].part, part[0].start) == (number, "empty" if number == 1 else "unknown")
        assert isinstance(part[1], Add if number == 1 else State)
