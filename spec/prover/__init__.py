"""The unbounded prover: rules and machine over Z3 terms.

    from nullblock.spec.prover import prove
    report = prove()                      # everything
    report = prove("push_new")            # one rule
    report = prove("POOL-3")              # one invariant, over the first state and all rules
    report = prove("push_new", "POOL-3")  # that invariant, of that rule

It shows, for any number of blocks, requests and tokens, by induction: the first state satisfies
every invariant; every rule keeps every invariant; the machine changes the state by rules only
(`nullblock.spec.lint`) and fires each of them where it is enabled; every loop ends. Trusted are
the kernel, the symbolic environment, the axioms, the lint and Z3. What it refutes it shows by a
step that the concrete rule takes (`nullblock.spec.prover.finite`).
"""

import time
from collections.abc import Callable
from difflib import get_close_matches

from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.report import Checked, JobReport, Report

__all__ = ["Checked", "JobReport", "Report", "UnknownJob", "names", "prove"]


class UnknownJob(ValueError):
    """There is no rule, operation or invariant with that name; the text says what is near."""


def names() -> list[str]:
    """What can be proved: the first state, rules, and operations of the machine."""
    from nullblock.spec.prover.jobs import jobs  # Z3 loads only where something is proved

    return [job.name for job in jobs()]


def selected(wanted: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The texts and the invariants that are named: by name, by a rule's ID, by an invariant's ID.
    Raises UnknownJob.
    """
    from nullblock.spec.invariants import INVARIANTS
    from nullblock.spec.kernel import RULES

    texts = {name: name for name in names()} | {rule.id: n for n, rule in RULES.items()}
    for name in wanted:
        if name not in texts and name not in INVARIANTS:
            near = get_close_matches(name, [*texts, *INVARIANTS], 4, 0.4)
            raise UnknownJob(
                f"no rule, operation or invariant of a state is called {name}: "
                + (f"is it {', '.join(near)}? " if near else "")
                + "nullblock rules lists them"
            )
    return (
        frozenset(texts[name] for name in wanted if name in texts),
        frozenset(name for name in wanted if name in INVARIANTS),
    )


def prove(
    *wanted: str,
    sem: Semantics = NORMATIVE,
    stop_at_first: bool = False,
    progress: Callable[[JobReport], None] = lambda report: None,
) -> Report:
    """Prove the named rules, operations and invariants, or everything, under both policies.

    With texts and invariants named, just these invariants of just these texts; with invariants
    alone, those of the first state and of every rule. `stop_at_first` ends at the first open
    obligation, and skips the check for contradictory hypotheses. Raises UnknownJob.
    """
    texts, only = selected(wanted)
    from nullblock.spec.prover.jobs import Job, jobs
    from nullblock.spec.prover.prover import Prover

    def asked_for(job: Job) -> bool:
        if texts:
            return job.name in texts
        return job.keeps if only else not job.part

    began = time.process_time()
    prover = Prover(sem, stop_at_first, only)
    reports: dict[str, JobReport] = {}
    for job in filter(asked_for, jobs()):
        report = prover.run(job, priority=True)
        if not (stop_at_first and report.open):
            report.merge(prover.run(job, priority=False))
        reports[job.name] = report
        progress(report)
        if stop_at_first and report.open:
            break
    return Report(reports, time.process_time() - began, prover.obligations.slowest)
