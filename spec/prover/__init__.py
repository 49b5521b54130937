"""The unbounded prover: rules and machine over Z3 terms.

    from nullblock.spec.prover import prove
    report = prove()                  # everything
    report = prove("push_new")        # one rule

It shows, for any number of blocks, requests and tokens, by induction: the first state satisfies
every invariant; every rule keeps every invariant; the machine changes the state by rules only
(`nullblock.spec.lint`) and fires each of them where it is enabled; every loop ends. Trusted are
the kernel, the symbolic environment, the axioms, the lint and Z3.
"""

import time
from collections.abc import Callable

from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.report import Checked, JobReport, Report

__all__ = ["Checked", "JobReport", "Report", "UnknownJob", "names", "prove"]


class UnknownJob(ValueError):
    """There is no rule and no operation with that name; the text says what there is."""


def names() -> list[str]:
    """What can be proved: the first state, rules, and operations of the machine."""
    from nullblock.spec.prover.jobs import jobs  # Z3 loads only where something is proved

    return [job.name for job in jobs()]


def prove(
    *wanted: str,
    sem: Semantics = NORMATIVE,
    stop_at_first: bool = False,
    progress: Callable[[JobReport], None] = lambda report: None,
) -> Report:
    """Prove the named rules and operations, or everything, under both policies.

    `stop_at_first` ends at the first open obligation, and skips the check for contradictory
    hypotheses. Raises UnknownJob.
    """
    from nullblock.spec.prover.jobs import jobs
    from nullblock.spec.prover.prover import Prover

    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        raise UnknownJob(
            f"nothing is called {', '.join(unknown)}: choose from {', '.join(names())}"
        )
    began = time.process_time()
    prover = Prover(sem, stop_at_first)
    reports: dict[str, JobReport] = {}
    for job in jobs():
        if job.name not in wanted if wanted else job.part:
            continue
        report = prover.run(job, priority=True)
        if not (stop_at_first and report.open):
            report.merge(prover.run(job, priority=False))
        reports[job.name] = report
        progress(report)
        if stop_at_first and report.open:
            break
    return Report(reports, time.process_time() - began, prover.obligations.slowest)
