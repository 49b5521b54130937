"""Traces of random scenarios: a small part of what `tests/fuzz/traced.py` does by command."""

import pytest
from fuzz import traced
from fuzz.families import FAMILIES

from nullblock.conformance.checker import fast
from nullblock.reference.block_pool import BlockPool

JUDGED = (
    *("core", "drafts", "windows", "hybrid", "items", "waits", "sessions", "drafts-waits"),
    *("sessions-priority", "sessions-remote", "drafts-grammars"),
)

LATER = (*JUDGED, "remote")
"""The same of the line vllm-0.32.0."""


@pytest.mark.parametrize("name", JUDGED)
def test_what_an_engine_does_is_explained(name: str) -> None:
    """No trace of the reference is a violation, and some conform."""
    total = traced.run(FAMILIES[name], "reference", "vllm-0.22.1", 7, 25, 12)
    assert total.verdicts["VIOLATION"] == 0
    assert total.verdicts["CONFORMS"] >= 2 and total.steps > 20


@pytest.mark.parametrize("engine", ["reference", "spec"])
@pytest.mark.parametrize("name", LATER)
def test_what_an_engine_does_in_the_later_line_is_explained(name: str, engine: str) -> None:
    """No trace of either engine is a violation, and some conform."""
    total = traced.run(FAMILIES[name], engine, "vllm-0.32.0", 7, 20, 12)
    assert total.verdicts["VIOLATION"] == 0
    assert total.verdicts["CONFORMS"] >= 2 and total.steps > 20


@pytest.mark.parametrize("name", ["remote", "groups", "drafts-groups"])
def test_the_erased_form_explains_it_from_the_first_step_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short traces are judged by the text as it is: here none is. What a connector is asked beside
    a window goes by where the lookup stands, which the erased form has to tell it.
    """
    erased: list[bool] = []
    erase = fast.Machine.erase

    def noted(machine: fast.Machine) -> None:
        erase(machine)
        erased.append(machine.erased)

    monkeypatch.setattr(fast, "AFTER", 0)
    monkeypatch.setattr(fast.Machine, "erase", noted)
    total = traced.run(FAMILIES[name], "reference", "vllm-0.22.1", 5150, 18, 12)
    assert total.verdicts["VIOLATION"] == 0
    assert total.verdicts["CONFORMS"] >= 2 and total.steps > 20
    assert len(erased) > 5 and all(erased)


def test_a_defect_of_an_engine_is_not_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Blocks go to the other end of the free queue, and the harness keeps a small scenario."""
    free = BlockPool.free_blocks
    monkeypatch.setattr(BlockPool, "free_blocks", lambda pool, blocks: free(pool, [*blocks][::-1]))
    monkeypatch.setattr(traced.bulk, "FOUND", tmp_path_factory.mktemp("found"))
    total = traced.run(FAMILIES["core"], "reference", "vllm-0.22.1", 7, 12, 12)
    assert total.verdicts["VIOLATION"] > 0
    assert list(traced.bulk.FOUND.glob("traced-core-7-*.json"))
