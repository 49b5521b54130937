"""Defects of KV connectors, streaming sessions and KV events."""

from nullblock.spec.zoo.entry import Entry

SERVICES: tuple[Entry, ...] = (
    Entry(
        "B57",
        "49439, 52693",
        "sessions",
        "sessions that wait to go on hold every block",
        mutant="sessions.blocks_are_kept.condition-1",
        changes="RUN-20",
        falls="RUN-20",
        note="the specification does so too: RUN-20 excepts it, and falls without that; "
        "of 52693 see the departure output-of-the-turn-before",
    ),
    Entry(
        "B58",
        "49377, 49449, 53156",
        "sessions",
        "a token is cut off and the hashes are not: blocks are known by what they no longer hold",
        departure="hash-of-what-was-dropped",
        changes="SESS-4",
        falls="HASH-18",
    ),
    Entry(
        "B76",
        "18631",
        "connector",
        "what was loaded is forgotten when the admission fails afterwards",
        mutant="remote.keeps_what_it_has.condition-2",
        changes="HASH-11",
        falls="POOL-2",
        note="what it forgets is looked up, and taken, again",
    ),
    Entry(
        "B77",
        "34616",
        "connector",
        "a last block that was loaded in part counts whole",
        mutant="remote.counted_on.reverse-1",
        changes="REMOTE-8",
        falls="guard",
        note="the slip counts more as loaded than was, up to the last token and with it",
    ),
    Entry(
        "B78",
        "32255",
        "connector",
        "an abort frees blocks that are being loaded into",
        mutant="remote.stays.conjunct-1",
        changes="REMOTE-4",
        falls="REMOTE-30",
        note="seen as the blocks leave, in scopes that ask after every rule: once the "
        "request is gone, no statement speaks of its load",
    ),
    Entry(
        "B79",
        "46283, 46289, vllm-ascend 16662",
        "connector",
        "a load whose end never comes holds its blocks for ever",
        mutant="machine.remote.received.condition-2",
        changes="REMOTE-21",
        note="the report comes and is not taken. RUN-20 waits while a load is under way, so that "
        "the search of states objects to nothing; the search for cycles does, by LIVE-4, in a "
        "scope of its own (`tests/spec/test_zoo.py`). Whether a report comes is the peer's: that "
        "it does is assumed of a fair path",
    ),
    Entry(
        "B73",
        "45357, vllm-ascend 14055, tpu-inference 3449",
        "asynchronous scheduling",
        "blocks are given away while a step in flight still writes them",
        mutant="machine.blocks.free_table.condition-4",
        changes="REMOTE-42",
        note="vllm-0.32.0 puts such blocks off where a connector loads, and the slip gives "
        "them to a load at once: the lockstep notices. No scope has a connector in that "
        "line, where a block that is put off is referenced and nobody's (POOL-2). "
        "Elsewhere workers compute steps in order, and the next owner writes later; "
        "TABLE-11 is of those that keep running, and REMOTE-30 of blocks that are "
        "loaded into",
    ),
    Entry(
        "B55",
        "vllm-ascend 16315, 49675",
        "preemption",
        "blocks come back late, so that one preemption leads to the next until nobody runs",
        mutant="machine.schedule.schedule_or_preempt.condition-4",
        changes="PREEMPT-8",
        note="in vllm-0.32.0, beside a connector that loads, which no scope has in that "
        "line; elsewhere blocks come back at once: the lockstep notices",
    ),
    Entry(
        "B51",
        "45387, 45388, 40968",
        "connector",
        "two requests hold what they have loaded, neither fits whole, nobody runs",
        departure="loads-hold-the-pool",
        changes="REMOTE-46",
        falls="RUN-20",
        note="a head lacks what those behind it hold, who give it back; in vllm-0.32.0 a load "
        "begins only where it leaves the others room (REMOTE-40), and who waits with blocks comes "
        "first",
    ),
    Entry(
        "B80",
        "56089, 46240",
        "connector",
        "an abort with a load and a store open frees twice",
        departure="sent-after-its-end",
        changes="REMOTE-5",
        falls="REMOTE-38",
    ),
    Entry(
        "B82",
        "49250, 34484",
        "connector",
        "after a failed load a sharer goes on before the owner has computed",
        departure="lacks-and-goes-on",
        changes="REMOTE-6, REMOTE-28",
        falls="HASH-5",
    ),
    Entry(
        "B96",
        "55092, 48933",
        "KV events",
        "a removal is told for the first of two copies",
        mutant="rules.pool._unhash.skip-1",
        changes="OUT-9",
        note="the specification tells of every copy, the first too, and whoever counts "
        "copies is right (EVENT-2); the slip tells of none, which the lockstep "
        "notices",
    ),
)
