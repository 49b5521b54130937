"""The scopes that are searched: small on purpose, and together reaching every witness."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.facts import Config

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""

CORE = Scope(
    "core",
    "FCFS, blocks of two: sharing, eviction, preemption, chunked prefill",
    Config(4, 2, 4, 3, 16),
    (
        Template("a", (A, A, A), 2),
        Template("b", (A, A, B), 2),
        Template("c", (C,), 3),
    ),
)
STANDARD: dict[str, Scope] = {s.name: s for s in (CORE,)}
