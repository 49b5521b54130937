"""Exceptions: the one with which a recorded run ended, and those of the rules."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.fast import Machine
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.trace.records import Error
from nullblock.conformance.unruled import asserted, holders
from nullblock.spec.erased.program import rule_at
from nullblock.spec.kernel import RULES, Broken, Disabled
from nullblock.spec.machine.events import reset_prefix_cache
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.semantics import Semantics

FIRST_RULE = {"schedule": "RUN-5", "update": "UPD-9"}
"""The calls that decide, and the rule with which each begins."""
NOT_UNDER_WAY = "workers report a transfer that is not under way"
TEXT_FAILS = "what the rules say to a record of kind"
"""How the reason begins why nothing is judged from a record on at which the text itself fails."""
NORMATIVE_MAY_SHOW = "--profile normative may show where it went wrong"
RESET_LATER = "reset when no load, and no session that waits for input, holds blocks"


@dataclass(frozen=True, slots=True)
class Raised:
    """How a recorded run ended that an exception ended."""

    type: str
    """Name of the exception's class."""
    during: str
    """The kind of record that would stand there."""
    step: int | None
    """The step that was scheduled or updated, otherwise the last one before; None: not known."""
    rules: str | None = None
    """Why the rules raise there, too; None: they do not, or nothing is known of it."""
    next: str | None = None
    """What to do, where the rules raise as well: they tell of no fault."""

    def told(self, profile: str) -> Iterator[str]:
        """The same in lines."""
        at = "" if self.step is None else f" step {self.step}"
        at = at and (" in" if self.during in FIRST_RULE else " after") + at
        yield f"the run ended by an exception: {self.type}, raised during {self.during}{at}"
        if self.rules is not None:
            yield f"the rules of {profile} raise there, too: {self.rules}"
        if self.next is not None:
            yield f"next: {self.next}"


def ended(error: Error, steps: int, in_flight: int) -> Raised:
    """The end of a run after so many steps, of which those in flight have no output yet."""
    step = steps
    if error.during == "schedule":
        step += 1
    elif error.during == "update":
        step -= max(in_flight - 1, 0)
    return Raised(error.type, error.during, step)


def what_next(during: str, semantics: Semantics | None) -> str | None:
    """What to do where the rules of a profile raise in a call as the engine did; None: nothing."""
    if during == "reset":
        return RESET_LATER
    return NORMATIVE_MAY_SHOW if semantics != NORMATIVE else None


def contradiction(error: BaseException, during: str, told: Any) -> Mismatch:
    """A decision that the rules cannot even reach: the engine decided where they do not."""
    rule = _rule(error) or FIRST_RULE[during]
    return Mismatch(rule, f"{during} decides", f"no decision: {error}", told)


def refusal(error: BaseException, record: Any) -> Mismatch:
    """A record that the rules have no place for, though it decides nothing itself: what it tells
    has happened, and a rule does not let it. Raises NotRecorded where no rule says so.
    """
    kind = type(record).__struct_config__.tag
    rule = _rule(error) if isinstance(error, (Disabled, Broken)) else ""
    if not rule:
        raise NotRecorded(
            f"{TEXT_FAILS} {kind!r}, where their text raises {type(error).__name__}"
        ) from error
    return Mismatch(rule, f"whether what {kind!r} tells can be", f"no: {error}", "it was recorded")


def unasked(k: Recorded, record: Error) -> str | None:
    """What no record tells of a call that raised, and what it has to raise hangs on; None:
    nothing.
    """
    match record.during:
        case "schedule" if k.loads_items:
            return f"what the encoder connector answered when {record.type} was raised"
        case "update" if k.num_spec:
            return f"how many drafts were right when update raised {record.type}"
        case "update" if k.connector:
            return f"what came with the output when update raised {record.type}"
        case "schedule" | "update":
            return None
        case "reset" if record.reset_running is not UNSET:
            return None
        case during:
            return f"what was asked when {during} raised {record.type}"


def redone(machine: Machine, s: Any, fired: Counter[str], record: Error) -> str:
    """What the rules do in the call that raised, in words. Raises what the text raises, and Broken
    where vLLM raises though the rules have an answer.
    """
    match record.during:
        case "schedule":
            return scheduled(machine, s, fired)
        case "update":
            machine.update(s, fired)
            return "goes on: the output is taken in"
        case _:
            return emptied(s, record)


def emptied(s: Any, record: Error) -> str:
    """The same of a reset, which raises where blocks are held still after all had to give way."""
    ok = reset_prefix_cache(s, record.reset_running is True)
    if record.reset_running and not ok:
        raise Broken("LIFE-10: blocks are held still after whoever ran was preempted")
    return f"goes on: the prefix cache is {'emptied' if ok else 'left, as blocks are held'}"


def scheduled(machine: Machine, s: Any, fired: Counter[str]) -> str:
    """What the rules do in a step, in words. Raises what the text raises, and Broken for what vLLM
    asserts of the step besides.
    """
    held = holders(s)
    out: SchedulerOutput = machine.schedule(s, fired)
    why = asserted(s, out, held)
    if why is not None:
        raise Broken(why)
    return f"goes on: {sum(n for _, n in out.num_scheduled_tokens)} tokens scheduled"


def objection(error: BaseException) -> str:
    """Why the rules raise, with the rule that does."""
    rule, why = _rule(error), str(error)
    return f"{rule}: {why}" if rule and not why.startswith(rule) else why


def _rule(error: BaseException) -> str:
    """The ID of the rule that raised, or nothing."""
    named = getattr(error, "rule", "")
    rule = named.split()[0] if named else ""
    return rule or rule_at(error) or _innermost_rule(error.__traceback__)


def _innermost_rule(trace: TracebackType | None) -> str:
    """The ID of the rule in which an exception was raised, or nothing."""
    found = ""
    while trace is not None:
        fired = RULES.get(trace.tb_frame.f_code.co_name)
        found = fired.id if fired is not None else found
        trace = trace.tb_next
    return found
