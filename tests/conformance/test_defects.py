"""The known defects of vLLM 0.22.1: the table says what the engines print, and so do the pages."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from defect_pages import SECTIONS, Page
from fuzz.lockstep import difference, lines_of
from oracle.client import Oracle, OracleError

from nullblock.conformance.cli import main
from nullblock.conformance.defects.catalogue import PAGES, PREFIX, VECTORS, Known, known
from nullblock.conformance.defects.shown import contains, first_missing
from nullblock.conformance.defects.table import README, document, markdown
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

ROWS = {each.name: each for each in known()}
WRITTEN = {path.stem: Page.read(path) for path in sorted(PAGES.glob("*.md"))}
SWITCHED = [name for name, each in ROWS.items() if each.switches]


def scenario(each: Known) -> dict[str, Any]:
    """The scenario of a defect."""
    loaded: dict[str, Any] = json.loads((VECTORS / f"{each.scenario}.json").read_text())
    return loaded


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    """What the real vLLM 0.22.1 printed for a defect's scenario."""
    text = (VECTORS / f"{ROWS[name].scenario}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def normative(name: str) -> list[str]:
    """What the reference prints for it in the normative profile."""
    return lines_of("reference", scenario(ROWS[name]), NORMATIVE)


def later(name: str, oracle: Oracle) -> list[dict[str, Any]]:
    """What the real vLLM 0.32.0 prints for it; nothing if it cannot be built so."""
    try:
        return [json.loads(line) for line in oracle.lines(scenario(ROWS[name]))]
    except OracleError as error:
        assert "could not be built" in str(error)
        return []


@pytest.mark.parametrize("name", ROWS)
def test_the_real_engine_shows_the_defect(name: str) -> None:
    """The parts of lines that a row names are in the recording, in their order."""
    assert first_missing(recorded(name), ROWS[name].shows) is None


@pytest.mark.oracle
@pytest.mark.parametrize("name", ROWS)
def test_the_later_release_is_as_the_row_says(name: str, oracle_0_32: Oracle) -> None:
    """It prints those parts where the defect is still there, and nowhere else."""
    missing = first_missing(later(name, oracle_0_32), ROWS[name].shows)
    assert (missing is None) == (ROWS[name].later == "still there")
    assert ROWS[name].remark or ROWS[name].later != "not shown"


@pytest.mark.parametrize("name", SWITCHED)
def test_the_normative_profile_does_not_show_it(name: str) -> None:
    """Where there is a switch, normative behaviour is another, and has not those parts."""
    lines = normative(name)
    assert first_missing(map(json.loads, lines), ROWS[name].shows) is not None


@pytest.mark.parametrize("name", SWITCHED)
def test_each_switch_alone_repairs_it(name: str) -> None:
    """In the release's profile, with that switch as in the normative one, it is gone."""
    for switch in ROWS[name].switches:
        semantics = replace(VLLM_0_22_1, **{switch: getattr(NORMATIVE, switch)})
        lines = lines_of("reference", scenario(ROWS[name]), semantics)
        assert first_missing(map(json.loads, lines), ROWS[name].shows) is not None, switch


@pytest.mark.parametrize("name", [name for name in ROWS if name not in SWITCHED])
def test_without_a_switch_the_normative_profile_shows_it_too(name: str) -> None:
    """'none yet' is said of no defect that normative behaviour has not: whoever adds a switch
    has to say so here.
    """
    lines = normative(name)
    assert first_missing(map(json.loads, lines), ROWS[name].shows) is None


def test_every_departure_and_every_scenario_of_a_defect_has_a_row() -> None:
    """Exactly one; and the numbers that a departure names are among its row's."""
    named = [name for each in known() for name in each.departures]
    assert sorted(named) == sorted(departure.name for departure in DEPARTURES)
    scenarios = [name for each in known() for name in (each.scenario, *each.more)]
    defects = {path.stem for path in VECTORS.glob("defect-*.json")}
    assert len(set(scenarios)) == len(scenarios) and set(scenarios) >= defects
    for each in known():
        told = {int(n) for d in each.found for n in re.findall(r"\d+", d.upstream)}
        assert told <= set(each.reports), each.name


def test_every_unreported_defect_has_a_page() -> None:
    """And every page has a row."""
    assert {name for name, each in ROWS.items() if not each.reports} <= set(WRITTEN)
    assert set(WRITTEN) <= set(ROWS)
    assert all(each.says.endswith(".") and PREFIX not in each.says for each in known())


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_says_all_that_a_maintainer_wants_to_know(name: str) -> None:
    """Its sections are there, in order; so are the scenario, whole, and how to run it."""
    page, each = WRITTEN[name], ROWS[name]
    assert page.text.startswith("# ") and tuple(page.headings) == SECTIONS
    assert page.scenarios() == [scenario(each)]
    path = f"conformance/vectors/{each.scenario}.json"
    assert f"    nullblock run --engine reference --profile vllm-0.22.1 {path}\n" in page.text
    assert f"tests/oracle/drive.py {path}\n" in page.text
    assert page.kinds() <= {"scenario", "vllm-0.22.1", "vllm-0.32.0", "normative", "expected"}
    assert page.blocks("vllm-0.22.1") and page.functions()
    assert ("normative" in page.kinds()) == bool(each.switches)
    for number in (*each.reports, *each.near):
        assert f"{number}" in page.section("Reports")


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_shows_what_the_real_engine_printed(name: str) -> None:
    """Each part of a line, in order; and what it calls expected is not there."""
    page = WRITTEN[name]
    for block in page.blocks("vllm-0.22.1"):
        assert first_missing(recorded(name), block) is None
    for block in page.blocks("expected"):
        assert first_missing(recorded(name), block) is not None


@pytest.mark.parametrize("name", [name for name in WRITTEN if name in SWITCHED])
def test_a_page_shows_what_normative_behaviour_is(name: str) -> None:
    """As the reference prints it; and the real engine did not."""
    lines = [json.loads(line) for line in normative(name)]
    for block in WRITTEN[name].blocks("normative"):
        assert first_missing(lines, block) is None
        assert first_missing(recorded(name), block) is not None


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in WRITTEN if "vllm-0.32.0" in WRITTEN[n].kinds()])
def test_a_page_shows_what_the_later_release_prints(name: str, oracle_0_32: Oracle) -> None:
    """Each part of a line, in order."""
    for block in WRITTEN[name].blocks("vllm-0.32.0"):
        assert first_missing(later(name, oracle_0_32), block) is None


@pytest.mark.oracle
@pytest.mark.parametrize("name", WRITTEN)
def test_the_functions_that_a_page_names_exist(name: str, oracle_python: Path) -> None:
    """Class and method, in the release."""
    (vllm,) = (oracle_python.parents[1] / "lib").glob("python3.*/site-packages/vllm/v1")
    sources = [path.read_text() for path in vllm.rglob("*.py")]
    for kind, function in WRITTEN[name].functions():
        assert any(f"class {kind}" in text and f"def {function}(" in text for text in sources), (
            f"{kind}.{function}"
        )


def test_a_changed_line_is_noticed() -> None:
    """A page that rots is: one number other than printed, or two lines the wrong way round."""
    lines = [{"ev": "schedule", "step": 1, "total": 4}, {"ev": "update", "new": [{"id": "a"}]}]
    assert first_missing(lines, [{"step": 1}, {"new": [{"id": "a"}]}]) is None
    assert first_missing(lines, [{"step": 1, "total": 5}]) == {"step": 1, "total": 5}
    assert first_missing(lines, [{"ev": "update"}, {"step": 1}]) == {"step": 1}
    assert not contains({"order": ["a", "b"]}, {"order": ["a"]})
    assert not contains({"new": [{"id": "a"}]}, {"new": [{"id": "b"}]})


def test_other_semantics_give_other_lines() -> None:
    """What a row shows is of the release, and not of every engine: planted so, a repaired engine
    is noticed.
    """
    name = "equals-take-turns"
    lines = (VECTORS / f"{ROWS[name].scenario}.jsonl").read_text().splitlines()
    assert difference(lines, normative(name), bytewise=False)


def test_the_table_is_current() -> None:
    """It is what the command prints."""
    assert README.read_text() == markdown(), "nullblock defects --markdown says other"


def test_the_command_tells_table_row_and_page(capsys: pytest.CaptureFixture[str]) -> None:
    """As Markdown, for programs, for people, and one defect with a page or without."""
    assert main(["defects", "--markdown"]) == 0
    assert capsys.readouterr().out == README.read_text()
    assert main(["defects", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document()
    assert main(["defects"]) == 0
    assert f"{len(ROWS)} defects:" in capsys.readouterr().out
    assert main(["defects", "min-tokens-never-end"]) == 0
    assert "length_before_min_tokens" in capsys.readouterr().out
    assert main(["defects", "equals-take-turns"]) == 0
    assert "Remedy" in capsys.readouterr().out
    assert main(["defects", "nonsense"]) == 2
    assert "nullblock defects lists them" in capsys.readouterr().err
