"""Mutants that no engine notices, and why: one by one, or a kind at a time where one reason holds
for all of a kind.

A reason is an argument, and not a search that came to nothing: it says why the machine cannot go
another way, or what would have to be added to see it.
"""

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from nullblock.spec.mutation.generate import Mutant
from nullblock.spec.mutation.guards import asks_less

Verdict = Literal["equivalent", "unreached", "unobserved"]
"""`equivalent`: the machine does the same. `unreached`: it can differ only where no configuration
of an engine leads. `unobserved`: it differs in what nobody is told.
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some mutants go unnoticed."""

    verdict: Verdict
    why: str


WEAKER_GUARD = Reason(
    "equivalent",
    "the guard asks for less, and every firing of the machine is proved to satisfy all of it: "
    "nothing that the machine does is other",
)


def reason(m: Mutant) -> Reason | None:
    """Why a mutant goes unnoticed, if that is known."""
    for pattern, why in ONE_BY_ONE.items():
        if fnmatch(m.id, pattern):
            return why
    return WEAKER_GUARD if asks_less(m) else None


ONE_BY_ONE: dict[str, Reason] = {}
"""By the IDs, which may contain `*`."""
