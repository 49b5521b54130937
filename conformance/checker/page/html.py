"""Elements of a page. Whatever is put into one is text, and escaped, unless it is an element."""

from html import escape
from typing import Final

from nullblock.conformance.verdicts import clean

EMPTY: Final = frozenset({"meta", "rect", "br"})
"""Elements without an end tag, or with none needed."""


class Element(str):
    """Markup that was made here."""

    __slots__ = ()


Child = str | Element | None
"""None is nothing."""


def el(name: str, /, *children: Child, **attributes: str | int | None) -> Element:
    """An element. `class_` is `class`, other underscores are hyphens; None is left out."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Element(f"<{name}{named}/>")
    return Element(f"<{name}{named}>{join(*children)}</{name}>")


def join(*children: Child) -> Element:
    """Children one after another."""
    return Element("".join(text(c) for c in children if c is not None))


def text(child: str) -> Element:
    """What a child becomes."""
    return child if isinstance(child, Element) else Element(escape(clean(child)))


def table(head: list[str], rows: list[list[Child]], caption: str) -> Element:
    """A table with a caption and a row of headers."""
    return el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *(el("th", h, scope="col") for h in head))),
        el("tbody", *(el("tr", *(el("td", cell) for cell in row)) for row in rows)),
    )


def items(values: list[Child], *, ordered: bool = False) -> Element:
    """A list."""
    return el("ol" if ordered else "ul", *(el("li", v) for v in values))
