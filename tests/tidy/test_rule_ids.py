"""Traceability: every ID is defined once in the specification and cited by a test."""

import re

from project import TEXT, files, name_of

from nullblock.spec.catalogue import FAMILIES, everything

ID = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-[1-9][0-9]*\b")


def cited(folder: str) -> dict[str, str]:
    """Each ID that a folder of the project mentions, and one file that does."""
    return {
        id: name_of(path)
        for path in files()
        if name_of(path).startswith(folder) and path.suffix in TEXT
        for id in ID.findall(path.read_text(errors="replace"))
    }


def test_every_id_is_defined() -> None:
    """Whoever mentions an ID, in code, prose, test or vector, means one that exists."""
    known = {statement.id for statement in everything()}
    assert {id: file for id, file in cited("").items() if id not in known} == {}


def test_every_id_is_cited_by_a_test() -> None:
    """Each statement of the specification is named by at least one test."""
    assert sorted({statement.id for statement in everything()} - set(cited("tests/"))) == []


def test_every_statement_is_a_sentence() -> None:
    """Each statement opens with a capital letter, ends with a full stop and has a definition."""
    for statement in everything():
        assert re.fullmatch(r"[A-Z`].*\.", statement.sentence), statement.id
        assert statement.definition.startswith("nullblock.spec."), statement.id


def test_there_are_statements() -> None:
    """The catalogue is not empty, so that the tests above mean something."""
    assert len(everything()) > 50
