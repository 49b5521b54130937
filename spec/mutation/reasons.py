"""Why mutants may go unnoticed: reasons that hold for mutants of several parts of the text."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["equivalent", "unreached", "unobserved"]
"""`equivalent`: the machine does the same. `unreached`: it can differ only where no configuration
of an engine leads. `unobserved`: it differs in what nobody is told.
"""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some mutants go unnoticed."""

    verdict: Verdict
    why: str


PLACES = Reason(
    "equivalent",
    "stamps, places and times of arrival need only rise, and a counter that is only compared with "
    "none need only count: by how much is nobody's business",
)
APART = Reason("equivalent", "the two write and read different fields, so their order is free")
SETTLED = Reason(
    "equivalent",
    "what is settled is never looked at again: forgetting it keeps the state small, and no more",
)
ONLY_A_GUARD = Reason(
    "equivalent",
    "it is asked in guards alone and is true more often: see the guards that ask for less; who is "
    "the victim, and how far a step is, others say",
)
NONE_HELD = Reason(
    "equivalent",
    "whoever is admitted holds nothing (TABLE-7), and no hit is adopted while it is asked whether "
    "blocks are free: the term is 0 there, and elsewhere only a loop's outline reads it",
)
OUTLINE = Reason(
    "equivalent",
    "only the proof outline of a loop reads it, where it says less than it did, and still enough",
)
SAME_CUT = Reason("equivalent", "a prompt as long as the threshold is cut to its own length")
NO_HASHES = Reason("equivalent", "with caching off no block carries a hash, so nothing is hit")
YES_OR_NO = Reason("equivalent", "it is only asked whether the flag is 0")
NOUGHT = Reason("equivalent", "at the boundary the number that takes its place is itself")
ONLY_STATED = Reason(
    "equivalent",
    "statements alone read it, and say less than they did; what each of them is needed for is "
    "asked of their own defects",
)
SEES_ALL = Reason(
    "equivalent",
    "where layers see all of the past the null block is in no table and no hit, and a lookup "
    "passes over nothing: what is asked then says so itself",
)
NONE_BEFORE = Reason(
    "equivalent", "places begin at 0: of them none is before it, and none before less than that"
)
WATERMARK_AND_WINDOW = Reason(
    "unreached",
    "less than nothing opens the gate further only under a watermark, and lets in only whoever "
    "then asks for no block, with a prompt beyond max_model_len: no profile that keeps a "
    "watermark is played with such layers",
)
WEAKER_GUARD = Reason(
    "equivalent",
    "the guard asks for less, and every firing of the machine satisfies all of it, which is "
    "proved of the core and searched of windows, several groups and encoder inputs: nothing that "
    "the machine does is other",
)
