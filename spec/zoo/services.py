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
        note="no statement speaks of a load for somebody who is gone (REMOTE-30 is of "
        "those that wait or are kept): the lockstep notices",
    ),
    Entry(
        "B79",
        "46283, 46289, vllm-ascend 16662",
        "connector",
        "a load whose end never comes holds its blocks for ever",
        mutant="machine.remote.received.condition-2",
        changes="REMOTE-21",
        note="the report comes and is not taken; whether one comes is the peer's, and "
        "RUN-20 waits for it for ever",
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
