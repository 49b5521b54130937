"""What the proofs showed, for people: a table of invariants, a table of texts, and a story for
whatever does not hold.
"""

from collections import Counter
from collections.abc import Iterable

from rich.table import Table

from nullblock.conformance.console import Screen
from nullblock.conformance.theorems import Shown, known
from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.kernel import RULES
from nullblock.spec.prover import Checked, JobReport, Report
from nullblock.spec.prover.claims import IMPLIED
from nullblock.spec.prover.vacuity import Vacuity, dead

STORIES = 8
"""Told in full; the others are in the JSON."""
SAID = {
    "initial": "the first state satisfies every invariant",
    "machine": "fires only enabled rules; its loops end",
}
MARK = {"proved": "proved", "refuted": "REFUTED", "unknown": "unknown"}


def show(report: Report, wrong: list[str]) -> None:
    """Print the tables, the stories, and a summary."""
    out = Screen()
    checked = report.checked
    kept = [c for c in checked if c.what in CATALOGUE]
    by_invariant = len({c.where for c in kept}) > 1
    if by_invariant:
        out.print(_invariants(kept))
    partial = by_invariant and len(kept) == len(checked)
    texts = [r for r in report.per_rule.values() if r.open or not partial]
    if texts:
        out.print(_texts(texts))
    refuted = {(c.where, c.what): c for c in reversed(checked) if c.counterexample}
    told = list(reversed(refuted.values()))
    for c in told[:STORIES]:
        policies = [d.policy for d in report.open if (d.where, d.what) == (c.where, c.what)]
        said = f"\nREFUTED {c.where}: {c.what} ({', '.join(policies)})"
        out.print(said, markup=False, style="bold red")
        for line in str(c.counterexample).splitlines():
            out.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    if len(told) > STORIES:
        out.print(f"\nand {len(told) - STORIES} more: --json tells all", highlight=False)
    if wrong:
        out.print()
    for line in wrong:
        out.print(line, markup=False, style="bold red")
    statuses = Counter(c.status for c in report.open)
    out.print(
        f"{report.obligations:,} obligations, {report.proved:,} proved,"
        f" {report.obligations - report.proved:,} open"
        f" ({statuses['refuted']} refuted by a step, {statuses['unknown']} unknown),"
        f" {report.seconds:.1f} s",
        highlight=False,
    )
    out.print(
        "Proved: true whatever the number of blocks, requests and tokens, where layers see all of"
        " the past and adapters are not capped.\nRefuted: the step shown breaks it."
        " Unknown: neither a proof nor such a step was found.",
        highlight=False,
        style="dim",
    )


def show_theorems(shown: Shown) -> None:
    """A row a theorem: what it says, and how it is shown."""
    out = Screen()
    table = Table(
        title="Theorems: what follows from the invariants, and statements about whole steps",
        title_justify="left",
        expand=True,
    )
    table.add_column("theorem", no_wrap=True, min_width=10)
    table.add_column("what it says", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("verdict", no_wrap=True, min_width=7)
    table.add_column("asked", justify="right")
    table.add_column("seconds", justify="right")
    for id, found in shown.items():
        seconds = sum(c.seconds for c in found)
        verdict = _worst(found)
        if verdict == "proved" and not known()[id].engine.startswith("Z3"):
            verdict = "shown"  # by a counterexample that was found
        table.add_row(id, known()[id].sentence, verdict, str(len(found)), f"{seconds:.1f}")
    out.print(table)


def show_wrong(wrong: list[str]) -> None:
    """What is claimed and was not shown."""
    out = Screen()
    for line in wrong:
        out.print(line, markup=False, style="bold red")


def _worst(found: Iterable[Checked]) -> str:
    statuses = {c.status for c in found}
    return next(MARK[s] for s in ("refuted", "unknown", "proved") if s in statuses)


def _invariants(kept: list[Checked]) -> Table:
    """A row an invariant: who keeps it, who does not."""
    table = Table(
        title="Invariants: each holds at first, and each rule that finds all of them true leaves"
        " it true",
        title_justify="left",
        expand=True,
    )
    table.add_column("invariant", no_wrap=True, min_width=10)
    table.add_column("what it says", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("kept by", no_wrap=True, min_width=8)
    table.add_column("not by", max_width=30)
    table.add_column("verdict", no_wrap=True, min_width=7)
    for id in dict.fromkeys(c.what for c in kept):
        of = [c for c in kept if c.what == id]
        texts = list(dict.fromkeys(c.where for c in of))
        bad = list(dict.fromkeys(c.where for c in of if c.status != "proved"))
        good = len(texts) - len(bad)
        table.add_row(
            id,
            CATALOGUE[id].sentence,
            f"{good} of {len(texts)}",
            ", ".join(bad),
            _worst(of),
        )
    return table


def _texts(reports: list[JobReport]) -> Table:
    """A row a rule or operation."""
    table = Table(
        title="Rules and operations: what was asked of each, on every path, under both policies",
        title_justify="left",
        expand=True,
    )
    table.add_column("text", no_wrap=True, min_width=22)
    table.add_column("what it does", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("verdict", no_wrap=True, min_width=7)
    for name in ("paths", "asked", "open", "seconds"):
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for r in reports:
        rule = RULES.get(r.name)
        table.add_row(
            r.name,
            CATALOGUE[rule.id].sentence if rule else SAID[r.kind],
            _worst(r.found.values()) if r.found else "nothing asked",
            str(r.paths),
            f"{r.obligations:,}",
            str(r.obligations - r.proved),
            f"{r.seconds:.1f}",
        )
    return table


def show_vacuity(found: Vacuity, wrong: list[str]) -> None:
    """Print who goes which path, and what the invariants forbid."""
    out = Screen()
    table = Table(
        title="Rules: the ways through each, and whether a state was found from which one is gone",
        title_justify="left",
        expand=True,
    )
    table.add_column("rule", no_wrap=True, min_width=22)
    table.add_column("ways", justify="right")
    table.add_column("gone", justify="right")
    table.add_column("why nobody goes the others", ratio=1)
    for rule in dict.fromkeys(p.rule for p in found.paths):
        of = [p for p in found.paths if p.rule == rule]
        reasons = dict.fromkeys(dead(p) or "NOT KNOWN" for p in of if not p.witness)
        gone = sum(p.witness for p in of)
        table.add_row(rule, str(len(of)), str(gone), "; ".join(reasons))
    out.print(table)
    alone = [b for b in found.bites if b.alone]
    out.print(
        f"{len(alone)} of {len(found.bites)} invariants forbid a state that all others allow.",
        highlight=False,
    )
    for b in found.bites:
        if not b.alone:
            why = IMPLIED.get(b.invariant, "NOT KNOWN")
            out.print(f"{b.invariant} follows from the others: {why}", highlight=False)
    for line in wrong:
        out.print(line, markup=False, style="bold red")
