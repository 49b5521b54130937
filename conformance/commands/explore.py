"""``nullblock explore``: every state of bounded scopes, and shortest counterexamples."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from nullblock.conformance import exploration, liveness, options
from nullblock.conformance.console import Screen, check_output, usage_error
from nullblock.conformance.exploration import Searcher, progress
from nullblock.conformance.options import NORMATIVE, ProfileName, Settings
from nullblock.spec.departures import DEPARTURES, Defect, clear, find
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.result import Counterexample, Result
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.story import Story, tell
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

Json = dict[str, Any]
T = TypeVar("T")
NOT_ASKED = "without --compiled, which searches a hundred times as fast, nothing is compiled"
"""Why the readable form searches by default."""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCOPE]...", help="Scopes, or departures; default all."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Only list the scopes.")] = False,
    profile_name: ProfileName = NORMATIVE,
    settings: Settings = None,
    departing: Annotated[
        bool,
        typer.Option(
            "--departures", help="Find the defects of vllm-0.22.1, and none in normative."
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the counterexample as a scenario."),
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Search with the text compiled, if there is cc.")
    ] = False,
    in_the_end: Annotated[
        bool,
        typer.Option("--liveness", help="Look for cycles on which somebody is never served."),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --liveness: drop an assumption of fairness."),
    ] = None,
    preconditions: Annotated[
        bool,
        typer.Option(
            "--preconditions", help="With --liveness: what it takes, and who starves without it."
        ),
    ] = False,
    ranking: Annotated[
        bool, typer.Option("--ranking", help="With --liveness: prove that a step is progress.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
) -> None:
    """Search every state that bounded scopes reach, for a broken statement.

    The first counterexample ends the search and is told as a story; it is a shortest one. Exit
    codes: 0 every scope passes; 1 there is a counterexample, or a scope did not reach what it
    promises to; 2 command line. `nullblock run` replays what --save writes.
    """
    check_output(save, (), "--save")
    if in_the_end:
        if departing or compiled:
            raise usage_error("cycles are looked for by the readable form", "--liveness")
        asked = liveness.Asked(profile_name, settings or [], without or [], listed, save, as_json)
        if ranking:
            code = liveness.proof(names or [], asked)
        elif preconditions:
            code = liveness.conditions(_chosen(liveness.CONDITIONS, names), asked)
        else:
            code = liveness.scopes(_known(liveness.SCOPES, names, asked.semantics()), asked)
    elif without or preconditions or ranking:
        raise usage_error("needs --liveness", "--without, --preconditions, --ranking")
    elif departing:
        if profile_name != NORMATIVE or settings:
            raise usage_error("--departures has its own profiles", "--profile, --set")
        if compiled:
            raise usage_error("departures are found by the readable form", "--compiled")
        code = _departures(_chosen({d.name: d for d in DEPARTURES}, names), listed, save, as_json)
    else:
        scopes = _known(STANDARD, names, options.semantics(profile_name, settings or []))
        code = _scopes(scopes, profile_name, settings or [], listed, save, as_json, compiled)
    raise typer.Exit(code)


def _chosen(known: dict[str, T], names: list[str] | None) -> list[T]:
    """The named ones in the order given, all by default."""
    for name in names or ():
        if name not in known:
            raise usage_error(f"no {name!r}: choose from {', '.join(known)}", "[SCOPE]...")
    return [known[name] for name in dict.fromkeys(names or known)]


def _known(known: dict[str, Scope], names: list[str] | None, semantics: Semantics) -> list[Scope]:
    """The scopes that are asked for. Of all of them, those that there are in a profile: one line
    says which there is not.
    """
    found = []
    for scope in _chosen(known, names):
        try:
            beginning(scope, semantics)
        except ValueError as error:
            if names:
                raise usage_error(f"{error}: name other scopes", "[SCOPE]...") from None
            _say(f"left out: {error}")
        else:
            found.append(scope)
    return found


def _scopes(
    scopes: list[Scope],
    profile_name: str,
    settings: list[str],
    listed: bool,
    save: Path | None,
    as_json: bool,
    compiled: bool,
) -> int:
    """Search scopes one by one; the exit code."""
    semantics = options.semantics(profile_name, settings)
    name = options.label(profile_name, settings)
    if listed:
        exploration.listing([(s.name, s.purpose) for s in scopes], as_json)
        return 0
    search = Searcher(_say, "" if compiled else NOT_ASKED)
    results: list[tuple[Scope, Result]] = []
    story: Story | None = None
    for scope in scopes:
        with progress(scope.name) as seen:
            result = search(scope, semantics, seen)
        results.append((scope, result))
        if result.counterexample is not None:
            story = tell(result.counterexample, scope, semantics)
            exploration.save(save, scope, result.counterexample.actions, semantics)
            break
    if save is not None and story is None:
        print(f"{save} is not written: there is no counterexample", file=sys.stderr)
    if as_json:
        print(json.dumps(_document(name, results, search.read, story), indent=2))
    else:
        _table(name, results, search.read, story)
    return 0 if all(result.passed for _, result in results) else 1


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _document(
    name: str, results: list[tuple[Scope, Result]], read: dict[str, str], story: Story | None
) -> Json:
    scope, last = results[-1]
    found = last.counterexample
    return {
        "profile": name,
        "scopes": [
            {
                "name": scope.name,
                "purpose": scope.purpose,
                "form": "readable" if scope.name in read else "compiled",
                "readable_because": read.get(scope.name),
                "states": r.states,
                "transitions": r.transitions,
                "seconds": round(r.seconds, 2),
                "states_per_second": _rate(r),
                "witnesses": sorted(r.witnesses),
                "missing": sorted(r.missing),
                "complete": r.complete,
            }
            for scope, r in results
        ],
        "counterexample": found and story and {"scope": scope.name} | _told(found, story),
    }


def _told(found: Counterexample, story: Story) -> Json:
    return {
        "rule": found.breaks,
        "after": found.rule,
        "sentence": found.sentence,
        "actions": [str(a) for a in found.actions],
        "values": list(story.values),
        "story": str(story),
    }


def _rate(r: Result) -> int:
    return round(r.states / max(r.seconds, 1e-5))


def _table(
    name: str, results: list[tuple[Scope, Result]], read: dict[str, str], story: Story | None
) -> None:
    from rich.table import Table

    out = Screen()
    table = Table(title=f"Every reachable state, profile {name}", title_justify="left")
    table.add_column("scope", no_wrap=True)
    for column in ("states", "transitions", "states/s", "seconds"):
        table.add_column(column, justify="right")
    table.add_column("witnesses", justify="right")
    table.add_column("result")
    for scope, r in results:
        table.add_row(
            *(scope.name, f"{r.states:,}", f"{r.transitions:,}", f"{_rate(r):,}"),
            *(f"{r.seconds:.1f}", str(len(r.witnesses)), _result(r)),
        )
    out.print(table)
    for why in dict.fromkeys(read.values()):
        print(f"readable: {', '.join(name for name in read if read[name] == why)}: {why}")
    for scope, r in results:
        if r.missing:
            print(f"vacuous: {scope.name} never reached {', '.join(sorted(r.missing))}")
    if story is not None:
        print(f"\nA shortest counterexample in scope {results[-1][0].name}:\n\n{story}")


def _result(r: Result) -> str:
    if r.counterexample is not None:
        return f"breaks {r.counterexample.breaks}"
    return "vacuous" if r.missing else "passes"


def _departures(defects: list[Defect], listed: bool, save: Path | None, as_json: bool) -> int:
    """Find departures in vllm-0.22.1, and show that normative has none; the exit code."""
    if listed:
        exploration.listing([(d.name, d.story) for d in defects], as_json)
        return 0
    if save is not None and len(defects) != 1:
        raise usage_error("name the one departure whose counterexample is wanted", "--save")
    rows = [_departure(d, save) for d in defects]
    if as_json:
        print(json.dumps({"profile": "vllm-0.22.1", "departures": rows}, indent=2))
    else:
        _departure_table(rows)
    return 0 if all(r["trace"] and r["normative"] == "passes" for r in rows) else 1


def _departure(d: Defect, save: Path | None) -> Json:
    with progress(d.name) as seen:
        finding = find(d, progress=seen)
        normative = clear(d, seen)
    found = _expected(d, finding)
    if found is not None:
        exploration.save(save, d.scope, found.actions, VLLM_0_22_1)
    return {
        "name": d.name,
        "switch": d.switch,
        "upstream": d.upstream,
        "breaks": d.breaks,
        "sentence": d.story,
        "trace": [str(a) for a in found.actions] if found else [],
        "story": str(tell(found, d.scope, VLLM_0_22_1)) if found else "",
        "states": finding.states,
        "normative": "passes" if normative.passed else _why(normative),
        "normative_states": normative.states,
        "seconds": round(finding.seconds + normative.seconds, 2),
    }


def _expected(d: Defect, finding: Result) -> Counterexample | None:
    """What was found, if it is what the departure claims."""
    found = finding.counterexample
    return found if found is not None and found.breaks == d.breaks else None


def _why(r: Result) -> str:
    """Why a departure's scope does not pass."""
    if r.counterexample is not None:
        return f"breaks {r.counterexample.breaks}"
    if r.missing:
        return f"vacuous: never reached {', '.join(sorted(r.missing))}"
    return "was not searched to the end"


def _departure_table(rows: list[Json]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Where vllm-0.22.1 departs from what ought to be", title_justify="left")
    table.add_column("departure", ratio=1)
    table.add_column("upstream")
    table.add_column("breaks", no_wrap=True)
    table.add_column("actions", justify="right")
    table.add_column("normative", min_width=9)
    for r in rows:
        found = str(len(r["trace"])) if r["trace"] else "not found"
        what = Text(f"{r['name']}\n", style="bold").append(r["sentence"], style="not bold")
        table.add_row(what, r["upstream"], r["breaks"], found, r["normative"])
    Screen().print(table)
    if len(rows) == 1:
        print(f"\n{rows[0]['story']}")
