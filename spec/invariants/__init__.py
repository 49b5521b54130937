"""What holds between any two rules, in the normative profile. One text; the environment `s.k`
supplies quantifiers and cardinalities.

Each invariant is a function of the state with an ID; its docstring is the sentence, and
`Upstream:` names defects of real engines that break it: bare numbers are vLLM issues and pull
requests, others carry their project's name.
"""

from nullblock.spec.invariants import (
    clients,
    cross,
    drafts,
    encoder,
    flight,
    groups,
    hybrid,
    pool,
    pooling,
    queues,
    remote,
    sessions,
    steps,
    tables,
    waiting,
)
from nullblock.spec.invariants.ledger import INVARIANTS, Invariant, invariant, invariants

__all__ = [
    "INVARIANTS",
    "Invariant",
    "clients",
    "cross",
    "drafts",
    "encoder",
    "flight",
    "groups",
    "hybrid",
    "invariant",
    "invariants",
    "pool",
    "pooling",
    "queues",
    "remote",
    "sessions",
    "steps",
    "tables",
    "waiting",
]
