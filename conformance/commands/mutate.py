"""``nullblock mutate``: small defects of the specification, and which engines notice them."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatch
from typing import Annotated, Any

import typer

from nullblock.conformance.console import Screen, usage_error
from nullblock.spec.compiled.build import NoCompiler
from nullblock.spec.mutation.generate import Defect, Mutant, diff, mutants
from nullblock.spec.mutation.results import ENGINES, Engine, Results, load
from nullblock.spec.zoo.specimens import SPECIMENS

Json = dict[str, Any]
AT_MOST = 50
"""Mutants that are put before the engines at once."""


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help="Mutants: IDs, with * for anything, or how they begin: rules.pool.adopt.",
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="Only list them, with what is recorded.")
    ] = False,
    engines: Annotated[
        list[str] | None,
        typer.Option("--engine", metavar="ENGINE", help=f"Ask only these: {', '.join(ENGINES)}."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
) -> None:
    """Plant small defects in the specification and see which engines notice.

    Without an ID, says what is recorded of them all (spec/MUTATION.md). With IDs, shows each as a
    diff and asks the engines anew: so that whoever changes a rule sees whether anything would
    notice if it were wrong. The zoo's specimens are called zoo.NAME (spec/ZOO.md). Exit codes: 0
    every mutant that was asked about is noticed; 1 one is not; 2 command line.
    """
    some = _chosen(names)
    wanted = _engines(engines)
    if listed or not names:
        kept = {e: load(e) for e in wanted}
        (_print_json if as_json else _print)(some, kept, listed or bool(names))
        return
    if len(some) > AT_MOST:
        raise usage_error(
            f"{len(some)} mutants, and at most {AT_MOST} are run at once: name fewer, or see "
            "what is recorded with --list",
            "[ID]...",
        )
    rows = []
    for row in _judged(some, wanted):
        rows.append(row)
        if not as_json:
            _tell(row)
    if as_json:
        print(json.dumps({"mutants": rows}, indent=2))
    noticed = all(any("by" in said for said in row["engines"].values()) for row in rows)
    raise typer.Exit(0 if noticed else 1)


def _chosen(names: list[str] | None) -> list[Defect]:
    """The defects that are named, all by default."""
    every: list[Defect] = [*mutants(), *SPECIMENS]
    found: dict[str, Defect] = {}
    for name in names or ["*"]:
        some = {d.id: d for d in every if fnmatch(d.id, name) or d.id.startswith(f"{name}.")}
        if not some:
            raise usage_error(
                f"no mutant is called {name!r}: `nullblock mutate --list`", "[ID]..."
            )
        found |= some
    return list(found.values())


def _engines(names: list[str] | None) -> list[Engine]:
    for name in names or ():
        if name not in ENGINES:
            raise usage_error(f"no {name!r}: choose from {', '.join(ENGINES)}", "--engine")
    return [e for e in ENGINES if not names or e in names]


def _judged(some: list[Defect], wanted: Iterable[Engine]) -> Iterator[Json]:
    """What the engines say of each."""
    from nullblock.conformance.mutation.run import asking

    few = [d for d in some if isinstance(d, Mutant)]
    with ExitStack() as stack:
        try:
            asked = {e: stack.enter_context(asking(e, few)) for e in wanted}
            for d in some:
                said = {engine: ask(d) for engine, ask in asked.items()}
                story = _story(d, said.get("explorer", {}))
                yield {"id": d.id, "what": d.what, "diff": diff(d), "engines": said, **story}
        except NoCompiler as error:
            raise usage_error(f"the explorer has to compile: {error}", "--engine") from None


def _story(d: Defect, said: Json) -> Json:
    """The explorer's counterexample as a story, where there is one."""
    from nullblock.spec.mutation.exploring import told

    story = told(d, said["scope"], said["by"]) if said.get("actions") else ""
    return {"story": story} if story else {}


def _tell(row: Json) -> None:
    print(f"{row['id']}: {row['what']}\n\n{row['diff']}")
    for engine, said in row["engines"].items():
        print(f"  {engine:9} {_words(said)}")
    if "story" in row:
        print(f"\n{row['story']}")
    print(flush=True)


def _words(said: Json) -> str:
    """What an engine said, in a line."""
    if "by" not in said:
        return "not asked" if said.get("skipped") else "notices nothing"
    match said:
        case {"by": by, "scope": scope, "actions": n, "states": states}:
            return (
                f"{by} in scope {scope}"
                + (f", after {n} actions" if n else "")
                + (f", {states:,} states")
            )
        case {"by": by, "job": job}:
            return f"{job}: not proved any more: {by}"
        case {"by": by, "profile": profile, "line": line}:
            return f"parts from the reference in {by} ({profile}), line {line}"
        case {"by": by, "trace": trace, "step": step}:
            return f"rejects {trace} at step {step}: {by}"
    return str(said["by"])


def _print_json(some: list[Defect], kept: dict[Engine, Results], one_by_one: bool) -> None:
    rows = [
        {"id": d.id, "what": d.what, "engines": _kept(d, kept)}
        for d in (some if one_by_one else ())
    ]
    totals = {e: _count(k, some) for e, k in kept.items()}
    stale = any(k.stale for k in kept.values())
    print(json.dumps({"stale": stale, "engines": totals, "mutants": rows}, indent=2))


def _kept(d: Defect, kept: dict[Engine, Results]) -> Json:
    return {e: k.said[d.id] for e, k in kept.items() if d.id in k.said}


def _count(k: Results, some: list[Defect]) -> dict[str, int]:
    """What an engine said of them; `earlier`: of a text in which only their own functions were as
    they are.
    """
    asked = [d.id for d in some if d.id in k.said]
    noticed = sum("by" in k.said[id] for id in asked)
    return {
        "asked": len(asked),
        "noticed": noticed,
        "earlier": sum(id not in k.now for id in asked),
    }


def _print(some: list[Defect], kept: dict[Engine, Results], one_by_one: bool) -> None:
    from rich.table import Table

    if any(k.stale for k in kept.values()):
        text = "some of it was said of an earlier text: run python tests/mutants/systematic.py"
        print(text, file=sys.stderr)
    if one_by_one:
        for d in some:
            said = _kept(d, kept)
            print(f"{d.id}: {d.what}")
            print("    " + ", ".join(f"{e} {s.get('by', 'nothing')}" for e, s in said.items()))
        return
    table = Table(title=f"{len(some):,} mutants", title_justify="left")
    for column in ("engine", "asked", "noticed", "of an earlier text"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for e, k in kept.items():
        n = _count(k, some)
        table.add_row(e, *(f"{n[what]:,}" for what in ("asked", "noticed", "earlier")))
    Screen().print(table)
