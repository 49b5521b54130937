"""What the recorder does with steps that are nearly alike, and with requests that have ended."""

from pathlib import Path
from typing import Any

import pytest
from recorded_engine import engine, records, request

from nullblock.conformance.adapters import reference as adapter
from nullblock.conformance.adapters.vllm.drafts import lacking
from nullblock.conformance.adapters.vllm.expected import after, doubled, packed, unpacked
from nullblock.conformance.adapters.vllm.recording import Recording
from nullblock.conformance.trace.records import Schedule
from nullblock.reference.sched.scheduler import Scheduler


def test_a_number_is_equal_where_every_count_is() -> None:
    """What is expected is what is packed, and no two lists have one number."""
    computed, outputs, tokens = [0, 7, 2**31 - 2], [0, 3, 9], [8, 1, 1]
    counts = packed(computed, outputs)
    assert counts is not None and unpacked(counts, 3) == (computed, outputs)
    assert after(counts, tokens, single=False) == packed([8, 8, 2**31 - 1], [1, 4, 10])
    assert after(counts, [1, 1, 1], single=True) == packed([1, 8, 2**31 - 1], [1, 4, 10])
    for place in range(3):
        for changed in ([list(computed), outputs], [computed, list(outputs)]):
            part = changed[0] if changed[0] is not computed else changed[1]
            part[place] += 1
            assert packed(*changed) not in (counts, None)


def test_what_is_lacking_has_a_number_if_it_is_none_s_gain() -> None:
    """Byte by byte, the first and the last among them; never one byte from the next."""
    drafts = [3, 0, 126, 0, 127, 254, 5]
    came = [1, 1, 5, 0, 100, 255, 6]
    # Without large ones, with one that samples nothing, with all, with large drafts only.
    for start, stop in ((0, 3), (0, 5), (0, 7), (4, 5)):
        due, sampled = drafts[start:stop], came[start:stop]
        expected = [d + 1 - n if n else 0 for d, n in zip(due, sampled, strict=True)]
        for one in (bytes(due), due):
            assert list(lacking(one, bytes(sampled)) or ()) == expected
            for place, likely in enumerate(due):
                for more in (1, 80, 127, 128, 200):
                    if likely + 1 + more < 256:
                        gained = [*sampled[:place], likely + 1 + more, *sampled[place + 1 :]]
                        assert lacking(one, bytes(gained)) is None


def test_counts_are_packed_from_bytes_as_from_lists() -> None:
    """As computed tokens and as outputs."""
    for counts in ([], [0], [1, 255, 0, 7]):
        assert doubled(bytes(counts)) == doubled(counts) == packed(counts, counts)


@pytest.mark.parametrize("count", [-1, 2**31, 2**32, 2**64])
def test_what_is_no_count_has_no_number(count: int) -> None:
    """An addition never reaches the next request's word."""
    assert packed([5, count], [1, 1]) is None
    assert packed([5, 5], [count, 1]) is None
    assert after(0, [1, count], single=False) is None


def test_the_same_requests_and_tokens_are_not_yet_the_same_step(where: Path) -> None:
    """A prompt in chunks of one token: the same request, one token, and no output."""
    made = engine(long_prefill_token_threshold=1)
    made.add(request("a", prompt=5))
    for step in range(6):
        made.schedule()
        made.update({"a": [] if step < 4 else [9]})
    made.scheduler.shutdown()
    cached = [r.cached for r in records(where) if isinstance(r, Schedule)][1:]
    assert [c.computed for c in cached] == [[1], [2], [3], [4], [5]]
    assert [c.num_output for c in cached] == [[0], [0], [0], [0], [1]]


class Wrong(Scheduler):
    """In its third step it tells of a negative count."""

    def schedule(self) -> Any:
        """See ``SchedulerInterface``."""
        decided = super().schedule()
        self.decided = getattr(self, "decided", 0) + 1
        if self.decided == 3:
            decided.scheduled_cached_reqs.num_computed_tokens[:] = [-3]
        return decided


class RecordedWrong(Recording, Wrong):
    """It, recorded."""


def test_counts_that_are_none_are_told(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine says is recorded as it is, however odd, and so are the steps after it."""
    monkeypatch.setattr(adapter, "Scheduler", RecordedWrong)
    made = engine()
    made.add(request("a", max_tokens=9))
    for _ in range(5):
        made.schedule()
        made.update({"a": [9]})
    made.scheduler.shutdown()
    cached = [r.cached for r in records(where) if isinstance(r, Schedule)][1:]
    assert [c.computed for c in cached] == [[6], [-3], [8], [9]]
    assert [c.num_output for c in cached] == [[1], [2], [3], [4]]


def test_nothing_is_kept_of_requests_that_have_ended(where: Path) -> None:
    """Once all have ended, by length and by abort, nobody's blocks are looked at any more."""
    made = engine()
    for id in ("a", "b", "c"):
        made.add(request(id, max_tokens=3 if id == "a" else 50))
    for step in range(20):
        made.schedule()
        made.update({id: [9] for id in ("a", "b", "c")[(step > 2) :]})
    made.abort(["b"], "FINISHED_ABORTED")
    tape = made.scheduler._tape
    for _ in range(10):
        made.schedule()
        made.update({"c": [9]})
    tape.catch_up()
    watched = [f for f in tape.steps.before.fillings if f.alive]
    assert [entry.number for entry in watched] == [2]
    assert list(tape.observer.filling) == list(tape.observer.requests) == ["c"]
    made.scheduler.shutdown()
