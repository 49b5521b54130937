"""``nullblock explore --liveness``: what happens in the end, scope by scope; the first lasso."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nullblock.conformance import exploration, options
from nullblock.conformance.console import Screen, usage_error
from nullblock.spec.catalogue import CATALOGUE, catalogue
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.liveness.check import Finding, Liveness, Starvation, check, lines
from nullblock.spec.liveness.fairness import EVERY, SENTENCE, Assumption
from nullblock.spec.liveness.preconditions import (
    NOT_NEEDED,
    PRECONDITIONS,
    Precondition,
    Setting,
    violated,
)
from nullblock.spec.liveness.scopes import CONTENDED
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.report import JobReport

Json = dict[str, Any]
UNSERVED = ("reject_unservable", "length_before_min_tokens")
"""The switches of vllm-0.22.1 with which somebody starves."""
SCOPES: dict[str, Scope] = {
    **CONTENDED,
    **{d.name: d.scope for d in DEPARTURES if d.switch in UNSERVED},
    **STANDARD,
}
"""What is searched by default."""
CONDITIONS = {p.name: p for p in PRECONDITIONS}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line asks for."""

    profile: str
    settings: list[str]
    without: list[str]
    listed: bool
    save: Path | None
    as_json: bool

    @property
    def label(self) -> str:
        """The profile and its settings."""
        return options.label(self.profile, self.settings)

    def semantics(self) -> Semantics:
        """The profile with its settings. Raises :class:`typer.BadParameter`."""
        return options.semantics(self.profile, self.settings)

    def assumed(self) -> frozenset[Assumption]:
        """The assumptions that are left. Raises :class:`typer.BadParameter`."""
        names = {a.value: a for a in Assumption}
        for name in self.without:
            if name not in names:
                raise usage_error(f"no {name!r}: choose from {', '.join(names)}", "--without")
        return EVERY - {names[name] for name in self.without}


def scopes(chosen: list[Scope], asked: Asked) -> int:
    """Judge scopes one by one, and tell the first lasso; the exit code."""
    semantics, assumed = asked.semantics(), asked.assumed()
    if asked.listed:
        exploration.listing([(s.name, s.purpose) for s in chosen], asked.as_json)
        return 0
    results: list[tuple[Scope, Liveness]] = []
    for scope in chosen:
        with exploration.progress(scope.name) as seen:
            results.append((scope, check(scope, semantics, assumed=assumed, progress=seen)))
    told = next(((s, r.lasso) for s, r in results if r.lasso is not None), None)
    text: list[str] = []
    if told is not None:
        text = list(lines(told[1], told[0], semantics))
        exploration.save(asked.save, told[0], told[1].turns, semantics)
    elif asked.save is not None:
        print(f"{asked.save} is not written: there is no lasso", file=sys.stderr)
    if asked.as_json:
        print(json.dumps(_document(asked, results, text), indent=2))
    else:
        _tables(asked, results)
        if told is not None:
            print(f"\nA lasso in scope {told[0].name}: a way into a cycle, and round it.\n")
            print("\n".join(text))
    return 0 if all(r.passed for _, r in results) else 1


def conditions(chosen: list[Precondition], asked: Asked) -> int:
    """Show of each precondition that somebody starves without it; the exit code."""
    if asked.profile != options.NORMATIVE or asked.settings or asked.without:
        raise usage_error("each precondition has its own", "--profile, --set, --without")
    if asked.listed:
        exploration.listing([(p.name, p.sentence) for p in chosen], asked.as_json)
        return 0
    if asked.save is not None and len(chosen) != 1:
        raise usage_error("name the one precondition whose lasso is wanted", "--save")
    rows = [_condition(p, asked) for p in chosen]
    if asked.as_json:
        print(json.dumps({"preconditions": rows, "not_needed": dict(NOT_NEEDED)}, indent=2))
    else:
        _conditions_table(rows)
        if len(rows) == 1:
            print(f"\n{rows[0]['story']}")
    return 0 if all(r["alone"] and r["lasso"] for r in rows) else 1


def proof(names: list[str], asked: Asked) -> int:
    """Prove the ranking argument, or the texts of it that are named; the exit code."""
    from nullblock.spec.liveness.proof import checked, jobs, ranking, shows_nothing

    if asked.profile != options.NORMATIVE or asked.settings or asked.without or asked.save:
        what = "the proof rests on the invariants of normative"
        raise usage_error(what, "--profile, --set, --without, --save")
    parts = {f"{part}: {job.name}": part for part, job in jobs()}
    known = {*parts, *(name.partition(": ")[2] for name in parts)}
    for name in names:
        if name not in known:
            raise usage_error(f"no text {name!r} in the argument; --list lists them", "[SCOPE]...")
    if asked.listed:
        exploration.listing([(name, part) for name, part in parts.items()], asked.as_json)
        return 0
    with exploration.progress("ranking") as seen:
        done = 0

        def count(report: JobReport) -> None:
            nonlocal done
            done += 1
            if seen is not None:
                seen(done, report.obligations)

        reports = ranking(*names, progress=count)
    found = checked(reports)
    bad = [c for c in found if c.status != "proved"]
    nothing = shows_nothing(reports)
    if asked.as_json:
        rows = [asdict(c) for c in found]
        print(json.dumps({"obligations": rows, "shows_nothing": nothing}, indent=2))
    else:
        _proof_table(reports)
        for c in bad:
            print(f"not proved: {c}")
        for name in nothing:
            print(f"shows nothing: {name}")
        print(f"{len(found)} statements about a rule and a policy, {len(bad)} of them not proved.")
        print("All of it is proved without drafts (num_spec_tokens 0) and where nobody waits for")
        print("anything but its turn (no max_loras, no grammars), and nothing beside these.")
        print("Under PRIORITY, LIVE-7 and LIVE-8 are about a request that is first in the running")
        print("list or waits while nobody runs; LIVE-12 and LIVE-13 say why others come there.")
    return 1 if bad or nothing else 0


def _proof_table(reports: tuple[JobReport, ...]) -> None:
    """What was proved of each part of the argument, and for how many rules."""
    from rich.table import Table
    from rich.text import Text

    from nullblock.spec.liveness.proof import SHOWN_BY, jobs

    catalogue()
    every = [part for part, _ in jobs()]
    table = Table(title="Why everybody is served: for any size", title_justify="left")
    for column in ("ID", "sentence", "part", "texts", "open"):
        table.add_column(column, justify="right" if column in ("texts", "open") else "left")
    for id, part in SHOWN_BY.items():
        mine = [r for r in reports if r.name.startswith(f"{part}: ")]
        open_ = sum(len(r.open) for r in mine)
        sentence = Text(CATALOGUE[id].sentence)
        table.add_row(id, sentence, part, f"{len(mine)} of {every.count(part)}", str(open_))
    Screen().print(table)


def _condition(p: Precondition, asked: Asked) -> Json:
    setting: Setting = p.violated
    with exploration.progress(p.name) as seen:
        found = check(
            setting.scope, setting.semantics, assumed=setting.assumed, progress=seen
        ).lasso
    text = ""
    if found is not None:
        exploration.save(asked.save, setting.scope, found.turns, setting.semantics)
        text = "\n".join(lines(found, setting.scope, setting.semantics))
    return {
        "name": p.name,
        "sentence": p.sentence,
        "upheld": p.upheld,
        "scope": setting.scope.name,
        "alone": violated(setting) == [p.name],
        "lasso": found and _lasso(found),
        "story": text,
    }


def _lasso(found: Starvation) -> Json:
    stem = len(found.actions) - found.repeats
    return {
        "breaks": found.breaks,
        "complaint": found.complaint,
        "stem": [str(a) for a in found.actions[:stem]],
        "cycle": [str(a) for a in found.actions[stem:]],
        "fairness": [
            {"action": i.action, "enabled": i.enabled, "taken": i.taken, "note": i.note}
            for i in found.account.lines
        ],
        "states_of_the_cycle": found.account.states,
    }


def _document(asked: Asked, results: list[tuple[Scope, Liveness]], text: list[str]) -> Json:
    return {
        "profile": asked.label,
        "assumed": {a.value: SENTENCE[a] for a in Assumption if a in asked.assumed()},
        "scopes": [
            {
                "name": scope.name,
                "purpose": scope.purpose,
                "states": r.states,
                "transitions": r.transitions,
                "raised": r.raised,
                "seconds": round(r.seconds, 2),
                "missing": sorted(r.missing),
                "complete": r.complete,
                "lasso": r.lasso and _lasso(r.lasso),
                "statements": [_finding(f) for f in r.findings],
            }
            for scope, r in results
        ],
        "story": "\n".join(text),
    }


def _finding(f: Finding) -> Json:
    return {
        "id": f.id,
        "sentence": f.sentence,
        "holds": f.lasso is None,
        "states": f.states,
        "steps": f.steps,
        "components": f.components,
        "lasso": f.lasso and _lasso(f.lasso),
    }


def _tables(asked: Asked, results: list[tuple[Scope, Liveness]]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = Screen()
    table = Table(title=f"In the end, profile {asked.label}", title_justify="left")
    table.add_column("scope", no_wrap=True)
    for column in ("states", "transitions", "seconds"):
        table.add_column(column, justify="right")
    table.add_column("result")
    for scope, r in results:
        numbers = (f"{r.states:,}", f"{r.transitions:,}", f"{r.seconds:.1f}")
        table.add_row(scope.name, *numbers, _result(r))
    out.print(table)
    table = Table(title="What must happen in the end", title_justify="left")
    table.add_column("ID", no_wrap=True)
    table.add_column("sentence", ratio=1)
    for column in ("states", "steps", "components"):
        table.add_column(column, justify="right")
    table.add_column("result")
    for rows in zip(*(r.findings for _, r in results), strict=True):
        bad = [s.name for (s, _), f in zip(results, rows, strict=True) if f.lasso is not None]
        said = (
            f"a lasso in {', '.join(bad)}" if bad else f"holds, exhaustive to {len(rows)} scopes"
        )
        counts = (
            f"{sum(getattr(f, n) for f in rows):,}" for n in ("states", "steps", "components")
        )
        table.add_row(rows[0].id, Text(rows[0].sentence), *counts, said)
    out.print(table)
    print(
        "states: where a cycle that breaks it could lie, summed over requests; steps: what such a"
    )
    print("cycle would have to take there; components: strongly connected, each judged by itself.")
    print("\nAssumed of what goes on for ever:")
    for a in Assumption:
        if a in asked.assumed():
            print(f"  {a.value:9} {SENTENCE[a]}")
    print("`nullblock explore --liveness --preconditions` shows who starves without each of them.")


def _result(r: Liveness) -> str:
    if r.lasso is not None:
        return (
            f"{r.lasso.breaks}: {len(r.lasso.actions)} actions, the last {r.lasso.repeats} repeat"
        )
    if r.missing:
        return f"vacuous: never reached {', '.join(sorted(r.missing))}"
    raises = f"; {r.raised:,} transitions raise (nullblock explore tells how)" if r.raised else ""
    return f"holds{raises}" if r.complete else "not searched to the end"


def _conditions_table(rows: list[Json]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title="What it takes for everybody to be served in the end", title_justify="left"
    )
    table.add_column("condition", no_wrap=True)
    table.add_column("", ratio=1)
    table.add_column("without it alone")
    for r in rows:
        found = r["lasso"]
        what = "nobody starves: not needed"
        if found:
            stem, cycle = len(found["stem"]), len(found["cycle"])
            what = f"{found['breaks']}: {found['complaint']} ({stem} actions, then {cycle} repeat)"
        elif not r["alone"]:
            what = "another condition is violated too"
        sentence = Text(r["sentence"]).append(f"\nUpheld by {r['upheld']}", style="dim")
        table.add_row(r["name"], sentence, what)
    Screen().print(table)
    print("Not needed:")
    for what, why in NOT_NEEDED:
        print(f"  {what}: {why}")
