"""Streams that begin in the middle, come twice, have holes, or start over."""

import pytest
from kv_event_files import altered, judged, places, recording

from nullblock.conformance.kv_events import publisher as publisher_module

FULL = recording("full")


@pytest.mark.parametrize("name", ["full", "async", "window", "groups", "evicted"])
def test_a_recording_of_the_real_engine_breaks_no_law(name: str) -> None:
    """Neither whole, nor cut anywhere, nor begun anywhere."""
    batches = recording(name)
    pool = {"groups": 24}.get(name, 12)
    for cut in range(1, len(batches) + 1):
        whole = judged(batches[:cut], num_blocks=pool, no_connector=name != "evicted")
        assert whole.verdict == "INCONCLUSIVE", whole.first
        later = judged(batches[cut - 1 :], num_blocks=pool, no_connector=name != "evicted")
        assert later.verdict == "INCONCLUSIVE", later.first


def test_what_was_before_the_middle_is_not_known() -> None:
    """Removals and parents from before are no violation until the cache is cleared."""
    found = judged(FULL[4:], no_connector=True)
    assert found.evidence.unknown_removals > 0
    assert found.verdict == "INCONCLUSIVE"
    clear = places(FULL, "AllBlocksCleared")[0]
    before, after = altered(FULL[4:]), altered(FULL[4:])
    stranger = {"type": "BlockRemoved", "block_hashes": [4711], "medium": "GPU", "group_idx": 0}
    before[clear[0] - 4]["events"].insert(clear[1], stranger)
    assert judged(before).verdict == "INCONCLUSIVE"
    after[clear[0] - 4]["events"].insert(clear[1] + 1, stranger)
    found = judged(after)
    assert found.first is not None and found.first.rule == "EVENT-2"


def test_where_a_stream_begins_can_be_said() -> None:
    """By default number 0 is the start; --from-start and --from-middle say otherwise."""
    assert judged(FULL).evidence.judged["EVENT-2"]
    assert not judged(FULL[:-3], from_start=False).evidence.judged["EVENT-4"]
    found = judged(FULL[1:], from_start=True)
    assert found.first is not None and found.first.rule == "EVENT-1"
    assert found.first.expected == "number 0" and found.first.actual == "number 1"


def test_a_gap_names_what_is_missing() -> None:
    """Which number came, which should have, and how to get the rest."""
    found = judged(FULL[:3] + FULL[5:])
    assert found.verdict == "VIOLATION" and found.first is not None
    assert (found.first.rule, found.first.seq) == ("EVENT-1", 5)
    assert (found.first.expected, found.first.actual) == ("number 3", "number 5")
    assert "replay_endpoint" in found.first.next[0]


def test_gaps_can_be_allowed() -> None:
    """Then nothing is known after one, and it is counted."""
    for hole in range(1, len(FULL) - 1):
        found = judged(FULL[:hole] + FULL[hole + 1 :], allow_gaps=True, num_blocks=12)
        assert found.verdict == "INCONCLUSIVE", found.first
        assert (found.evidence.gaps, found.evidence.lost_batches) == (1, 1)


def test_a_batch_that_comes_again_counts_once() -> None:
    """A replay repeats what was received already."""
    again = FULL[:6] + FULL[2:6] + FULL[:1] + FULL[6:]
    found = judged(again)
    assert found.verdict == "INCONCLUSIVE", found.first
    assert found.evidence.repeated_batches == 5
    assert found.evidence.blocks == judged(FULL).evidence.blocks


def test_a_restart_begins_with_an_empty_cache() -> None:
    """Number 0 with another batch is a new engine: what it did not store it does not have."""
    other = altered(FULL)
    for batch in other:
        batch["ts"] += 1000.0
    found = judged(FULL + other, num_blocks=12, no_connector=True)
    assert found.verdict == "INCONCLUSIVE", found.first
    assert found.evidence.restarts == 1
    found = judged(FULL[5:9] + other, num_blocks=12)
    assert found.verdict == "INCONCLUSIVE" and found.evidence.restarts == 1
    removal = {"type": "BlockRemoved", "block_hashes": [4711], "medium": "GPU", "group_idx": 0}
    other[0]["events"].insert(0, removal)
    found = judged(FULL + other)
    assert found.first is not None and found.first.rule == "EVENT-2"


def test_a_number_used_for_another_batch_is_a_violation() -> None:
    """Nobody sends two batches under one number; --allow-gaps goes on, knowing nothing."""
    changed = altered(FULL)
    changed[6]["seq"] = 3
    found = judged(changed)
    assert found.first is not None and found.first.rule == "EVENT-1"
    assert "the batch that was number 3 before" in found.first.expected


def test_numbers_of_long_ago_are_told_apart_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the digests that are kept, a batch that is no later than the last was sent again; a
    later one is of another engine, whose first batches are missing."""
    monkeypatch.setattr(publisher_module, "RECENT", 2)
    assert judged(FULL + FULL[3:5]).evidence.repeated_batches == 2
    later = altered(FULL[3:5])
    for batch in later:
        batch["ts"] += 1000.0
    found = judged(FULL + later)
    assert found.first is not None and found.first.rule == "EVENT-1"
    assert "restarted" in found.first.next[0]
    allowed = judged(FULL + later, allow_gaps=True)
    assert allowed.verdict == "INCONCLUSIVE" and allowed.evidence.gaps == 1


def test_an_on_call_engineer_reads_what_to_do() -> None:
    """A violation tells the event, the law, what is known of the hash, what came before, and what
    to do next, in that order."""
    batches = altered(FULL)
    i, j = places(batches, "BlockRemoved")[-1]
    batches[i]["events"].insert(j, batches[i]["events"][j])
    found = judged(batches)
    assert found.first is not None
    heads = [line.partition(":")[0].partition(" ")[0] for line in found.first.story]
    order = [heads.index(h) for h in ("event", "the", "EVENT-2", "by", "before,")]
    assert order == sorted(order)
    assert any("was removed by event" in line for line in found.first.story)
    assert "--from-middle" in found.first.next[0]
