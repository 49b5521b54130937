"""What the explorer finds of each departure: data of `test_departures.py`."""

SHORTEST = {
    "unfit-prompt": ("RUN-20", "add a; step"),
    "outgrown-pool": ("RUN-20", "add a; step; step; step; step; step; step"),
    "start-over": ("LIFE-15", "add a; step; step; step; step; step; step"),
    "uncut-prompt": ("RUN-20", "add a; step"),
    "full-prompt": ("RUN-20", "add a; step; step; step"),
    "long-prompt": ("RUN-23", "add a; step; step"),
    "empty-prompt": ("guard", "add a; step"),
    "skipped-request": ("RUN-28", "add v; step; add x; add y; step; step"),
    "uncomputed-hit": ("HASH-6", "add a; step; add b; step; step"),
    "taking-turns": ("LIFE-15", "add a; step; add b; step; step; step; step; step"),
    "no-room-for-min-tokens": ("RUN-20", "add a; step; step; step"),
    "one-spelling": ("HASH-18", "add a; add b; step"),
    "next-owner": ("UPD-15", "add a; schedule; abort a; add a; update"),
    "scheduled-backwards": ("RUN-23", "add a; schedule; schedule"),
    "skipped-ahead": ("RUN-28", "add v; schedule; add x; add y; update; schedule; schedule"),
    "next-owner-ahead": ("promise", "add a; schedule; abort a; add a; update"),
    "second-reset": (
        "UPD-20",
        "add a; schedule; reset_prefix_cache reset_running; schedule; "
        "reset_prefix_cache reset_running",
    ),
    "one-too-many": ("LIFE-17", "add a; schedule; update; schedule; schedule; schedule"),
    "sampled-twice": (
        "UPD-23",
        "add b; schedule; add a; schedule; add c; schedule; update; schedule; update; schedule; "
        "update; update; update",
    ),
    "drafts-taken-back": ("RUN-23", "add a; schedule; update; schedule; schedule"),
    "rejected-in-the-next-run": (
        "UPD-14",
        "add b; schedule; add a; update; schedule; schedule; schedule; update",
    ),
    "drafts-dropped-as-outputs": (
        "UPD-19",
        "add a; schedule; schedule; reset_prefix_cache reset_running",
    ),
    "drafts-for-the-preempted": (
        "DRAFT-12",
        "add a; schedule; reset_prefix_cache reset_running; update",
    ),
    "nothing-sampled": ("UPD-19", "add a; schedule; update; schedule; update"),
    "window-passes-with-drafts": (
        "GROUP-8",
        "add a; schedule; update; schedule; update; schedule; schedule; update; update",
    ),
    "place-taken-in-a-pause": ("WAIT-49", "add a; add b; schedule; schedule"),
    "stops-while-skipped": (
        "WAIT-12",
        "add a; add b; schedule; reset_prefix_cache reset_running; schedule; update",
    ),
    "item-never-computed": (
        "ENC-31",
        "add a; schedule; add b; update; schedule; update; schedule",
    ),
    "budget-is-lost": (
        "ENC-26",
        "add a; schedule; add b; update; schedule; update; schedule",
    ),
    "waits-between-items": ("LIFE-15", "add a; schedule; update; schedule; update"),
    "room-grows": ("ENC-53", "add a; schedule; update; schedule; update"),
    "item-is-missed": (
        "HASH-18",
        "add a; add b; schedule; update; schedule; update; reset_prefix_cache reset_running; "
        "schedule",
    ),
    "first-limit-holds": (
        "SESS-25",
        "add a; schedule; update; schedule; update; chunk for a; schedule; update; schedule; "
        "update",
    ),
    "session-forgets": (
        "SESS-22",
        "add a; schedule; update; schedule; add b; update; schedule; schedule; update; "
        "chunk for b",
    ),
    "hash-of-what-was-dropped": (
        "HASH-18",
        "add a; schedule; add b; update; chunk for a; schedule",
    ),
    "chunk-leaves-the-heap": (
        "WAIT-50",
        "add a; add b; schedule; update; schedule; update; chunk for a; chunk for b; schedule",
    ),
    "output-of-the-turn-before": ("SESS-24", "add a; schedule; schedule; update"),
    "session-in-no-queue": (
        "WAIT-12",
        "add a; schedule; update; schedule; add b; update; schedule; schedule; chunk for b; "
        "update",
    ),
    "lacks-and-goes-on": ("HASH-5", "add a; schedule; update, block 1 not loaded"),
    "cached-before-its-end": (
        "HASH-5",
        "add a; add b; schedule; update, a received; schedule",
    ),
    "nothing-left-to-compute": (
        "guard",
        "add a; add b; add c; schedule; update, block 1 not loaded; schedule; "
        "update, c received; schedule",
    ),
    "window-behind-the-prompt": (
        "GROUP-8",
        "add a; schedule; update, a received; schedule",
    ),
    "hit-given-away": ("GROUP-17", "add a; add b; schedule; update; add a; schedule"),
    "zeroed-while-loaded": ("REMOTE-58", "add a; schedule"),
    "loads-hold-the-pool": (
        "RUN-20",
        "add a; add b; schedule; update, a received; schedule; update, b received; schedule",
    ),
    "sent-after-its-end": ("REMOTE-38", "add a; schedule; abort a; update, a received"),
    "gate-forgets-hits": ("GROUP-37", "add a; add b; schedule; update; schedule"),
    "sinks-are-held": ("GROUP-35", "add a; schedule; update; reset_prefix_cache"),
    "less-than-a-block": ("RUN-20", "add a; schedule"),
    "state-without-its-past": ("GROUP-15", "add a; schedule; update; add a; schedule"),
    "chunk-that-nobody-looked-for": (
        "GROUP-11",
        "add a; add b; schedule; update; schedule; update; add b; add a; schedule",
    ),
    "second-kind-reaches-on": (
        "GROUP-15",
        "add a; add b; schedule; update; schedule; update; add b; add a; schedule",
    ),
}
"""What breaks, and the actions of a shortest counterexample."""
