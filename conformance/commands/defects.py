"""``nullblock defects``: what is known to go wrong in vLLM 0.22.1."""

import json
import textwrap
from typing import Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.conformance.defects.catalogue import Known, known
from nullblock.conformance.defects.table import counted, document, markdown, numbers

WIDTH = 100
"""Of a line of text, in characters."""


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One defect, told at length.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="The page conformance/defects/README.md.")
    ] = False,
) -> None:
    """Show the known defects of vLLM 0.22.1: what goes wrong, the scenario that shows it, the
    switch that repairs it, the invariant it breaks, its reports, and whether 0.32.0 has it.
    """
    if as_json:
        print(json.dumps(document(), indent=2))
    elif as_markdown:
        print(markdown(), end="")
    elif name is None:
        print("\n\n".join(map(_told, known())) + f"\n\n{counted()}")
    else:
        _one(_named(name))


def _named(name: str) -> Known:
    for each in known():
        if each.name == name:
            return each
    raise usage_error(f"no defect {name!r}; nullblock defects lists them", "[NAME]")


def _told(each: Known) -> str:
    """One of the list: its name, what goes wrong, and what is known of it."""
    facts = [
        f"switch: {', '.join(each.switches) or 'none yet'}",
        f"breaks: {', '.join(each.breaks) or 'none yet'}",
        f"upstream: {numbers(each)}",
        f"0.32.0: {each.later}",
        *(["a page"] if each.page.exists() else []),
    ]
    return "\n".join([each.name, _indented(each.says), _indented(" · ".join(facts))])


def _indented(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _one(each: Known) -> None:
    if each.page.exists():
        print(each.page.read_text(), end="")
        return
    remark = f"\n{_indented(each.remark)}" if each.remark else ""
    print(
        f"{_told(each)}{remark}\n"
        "  nullblock run --engine reference --profile vllm-0.22.1"
        f" conformance/vectors/{each.scenario}.json"
    )
