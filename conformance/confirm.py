"""CrossHair on the arithmetic and the lookups: what is confirmed over all paths, and what is not.

CrossHair (a tool of the tests, not needed to run nullblock) follows every path of a Python
function with symbolic numbers. *Confirmed over all paths* is said only where no path is left; a
search that ends earlier has *not refuted* anything, and says after how many paths.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

Words = Literal[
    "confirmed over all paths", "not refuted", "refuted", "vacuous", "CrossHair is not installed"
]
SECONDS, BRIEFLY = 60.0, 1.5
"""For a subject whose paths come to an end, and for one whose do not."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A question: does one function's claim hold, or do two functions agree?"""

    functions: tuple[Callable[..., Any], ...]
    sample: tuple[Any, ...]
    """Arguments that they take: a claim about nothing is none."""
    seconds: float = SECONDS
    """How long to ask at most. Where sentences or floating-point numbers are made of symbolic
    numbers the paths do not end."""

    @property
    def name(self) -> str:
        """As a report calls it."""
        return " = ".join(f.__name__ for f in self.functions)

    @property
    def claim(self) -> str:
        """In a sentence."""
        return (self.functions[0].__doc__ or "").strip().splitlines()[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What CrossHair showed."""

    subject: str
    claim: str
    words: Words
    paths: int
    """Paths followed, those of both directions where two functions were compared."""
    seconds: float
    counterexample: str = ""


def subjects() -> list[Subject]:
    """Everything that is asked."""
    from nullblock.conformance.adapters import arithmetic as one
    from nullblock.conformance.adapters import arithmetic_pairs as two

    return [
        Subject((one.blocks_cover,), (17, 16)),
        Subject((one.full_blocks_are_filled,), (17, 16)),
        Subject((one.cdiv_rounds_up,), (17, 16)),
        Subject((one.a_hit_leaves_a_token,), (17, 16)),
        Subject((one.a_chunk_fits,), (9, 4, 2)),
        Subject((one.a_running_request_stays_in_range,), (9, 4, 5, 2, 20)),
        Subject((one.slots_are_exact,), (1, 20, 3, 16, 40)),
        Subject((one.a_request_stops_in_time,), (4, 2, 2, 0, 20, 0)),
        Subject((two.blocks_by_the_rules, two.blocks_by_the_reference), (17, 16)),
        Subject((two.running_by_the_rules, two.running_by_the_reference), (9, 4, 5, 2, 20)),
        Subject((two.ahead_by_the_rules, two.ahead_by_the_reference), (4, 1, 1, 5, 2, True)),
        Subject((two.admitted_by_the_rules, two.admitted_by_the_reference), (9, 4, 8, 2, True)),
        Subject(
            (two.stop_by_the_rules_after_an_output, two.stop_by_the_reference),
            (4, 2, 2, 0, 20, 0, True),
        ),
        Subject((two.servable_by_the_rules, two.servable_by_its_reasons), (4, 5, 20), BRIEFLY),
        Subject((two.servable_by_the_rules, two.servable_by_the_reference), (4, 5, 20), BRIEFLY),
        Subject((two.uncut_by_the_rules, two.uncut_by_the_reference), (4, 5, 0, False), BRIEFLY),
        Subject((two.hits_by_the_rules, two.hits_by_the_reference), (20, 3)),
        Subject((two.admission_by_the_rules, two.admission_by_the_reference), (20, 3, 1, 3)),
        Subject((two.can_allocate_by_the_rules, two.can_allocate_by_the_seed), (16, 17, 2)),
        Subject(
            (two.can_allocate_in_whole_numbers, two.can_allocate_in_floats), (16, 17, 2), BRIEFLY
        ),
    ]


def canaries() -> list[Subject]:
    """Wrong helpers, each of which has to be refuted."""
    from nullblock.conformance.adapters import arithmetic as one
    from nullblock.conformance.adapters import arithmetic_pairs as two

    return [
        Subject((one.rounding_down_covers,), (16, 16)),
        Subject((one.chunk_without_budget,), (1, 1, 0)),
        Subject((two.can_allocate_by_the_rules, two.can_allocate_by_a_remainder), (15, 1, 1)),
        Subject((two.stop_on_length_alone, two.stop_by_the_reference), (4, 2, 2, 0, 20, 0, True)),
    ]


def confirm(subject: Subject) -> Outcome:
    """Ask CrossHair.

    Raises what a function raises for its own sample.
    """
    for function in subject.functions:
        function(*subject.sample)
    if find_spec("crosshair") is None:
        return Outcome(subject.name, subject.claim, "CrossHair is not installed", 0, 0.0)
    began = time.process_time()
    ask = _holds if len(subject.functions) == 1 else _agree
    words, paths, counterexample = ask(subject, subject.seconds)
    spent = round(time.process_time() - began, 2)
    return Outcome(subject.name, subject.claim, words, paths, spent, counterexample)


def report() -> list[dict[str, Any]]:
    """Every subject's outcome, as JSON can write it; also where CrossHair is not installed."""
    return [asdict(confirm(subject)) for subject in subjects()]


def _options(seconds: float) -> dict[str, Any]:
    return {
        "per_condition_timeout": seconds,
        "per_path_timeout": seconds / 2,
        "max_uninteresting_iterations": 2**31,
        "stats": Counter(),
    }


def _holds(subject: Subject, seconds: float) -> tuple[Words, int, str]:
    """Whether what a function asserts holds for all that it takes."""
    from crosshair.core_and_libs import analyze_function, run_checkables
    from crosshair.options import AnalysisKind, AnalysisOptionSet
    from crosshair.statespace import MessageType

    options = _options(seconds)
    asked = AnalysisOptionSet(analysis_kind=[AnalysisKind.asserts], report_all=True, **options)
    told = list(run_checkables(analyze_function(subject.functions[0], asked)))
    paths: int = options["stats"]["num_paths"]
    if not told:
        return "vacuous", paths, "nothing is asserted"
    states = {message.state for message in told}
    if states == {MessageType.CONFIRMED}:
        return "confirmed over all paths", paths, ""
    if MessageType.PRE_UNSAT in states:
        return "vacuous", paths, "nothing satisfies what it takes"
    if states <= {MessageType.CONFIRMED, MessageType.CANNOT_CONFIRM}:
        return "not refuted", paths, ""
    return "refuted", paths, told[0].message


def _agree(subject: Subject, seconds: float) -> tuple[Words, int, str]:
    """Whether two functions return, or raise, the same for all arguments."""
    import_module("crosshair.core_and_libs")  # it sets up what both need
    from crosshair.diff_behavior import diff_behavior
    from crosshair.fnutil import FunctionInfo
    from crosshair.options import DEFAULT_OPTIONS, AnalysisOptionSet

    given = _options(seconds)
    options = DEFAULT_OPTIONS.overlay(AnalysisOptionSet(**given))
    first, second = map(FunctionInfo.from_fn, subject.functions)
    found = diff_behavior(first, second, options)
    paths: int = given["stats"]["num_paths"]
    if found:
        difference: Any = found[0]
        if isinstance(difference, str):
            return "refuted", paths, found if isinstance(found, str) else difference
        ours, theirs = (r.describe(set()) for r in (difference.result1, difference.result2))
        arguments = ", ".join(f"{k}={v}" for k, v in difference.args.items())
        return "refuted", paths, f"given {arguments} the one {ours}, the other {theirs}"
    # Both orders are tried, and each has to be exhausted.
    both = given["stats"]["exhaustion"] == 2
    return ("confirmed over all paths" if both else "not refuted"), paths, ""
