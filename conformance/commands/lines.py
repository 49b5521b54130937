"""``nullblock lines``: what differs between the lines of rules, switch by switch."""

import json
from typing import Annotated

import typer

from nullblock.conformance.lines.page import document, markdown


def command(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="The page conformance/lines/LINES.md.")
    ] = False,
) -> None:
    """Show what differs between the lines: what each switch decides, its value in each line, why
    the normative one is right, and a scenario that shows it.
    """
    if as_json:
        print(json.dumps(document(), indent=2))
    elif as_markdown:
        print(markdown(), end="")
    else:
        from rich.markdown import Markdown

        from nullblock.conformance.console import Screen

        Screen().print(Markdown(markdown()))
