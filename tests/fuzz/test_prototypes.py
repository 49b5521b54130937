"""Spec and reference beside what the prototypes of the driver make the real engines print.

They read the real engines for themselves: whatever the driver here leaves out, or words to suit
our engines, shows in their lines.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fuzz.families import FAMILIES
from fuzz.lockstep import ENGINES, EXACT, difference, features, lines_of
from oracle.client import Oracle, OracleError
from oracle.prototype import EVENTS, FOLDER, Prototype, in_its_words

from nullblock.conformance.errors import InputError, OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.spec.profiles import PROFILES

NAMED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "data" / "scenarios.json").read_text()
)
RELEASES = ("0.22.1", "0.32.0")
REFUSED = {
    "0.22.1": {},
    "0.32.0": {
        "bug_sink_reset": "attention sinks",
    },
}
"""Named scenarios that our engines do not follow a release in, and what they say of it."""
UNBUILT = {("0.32.0", "bug_sink_reset")}
"""Those that the release itself cannot be built for."""
DRAWN = (
    *("core", "drafts", "windows", "hybrid", "mamba", "kinds"),
    *("waits", "remote", "sessions", "drafts-waits", "corners"),
)
"""Families most of whose events the prototypes know."""
EACH = 3
"""Scenarios of a family."""

beside = pytest.mark.skipif(
    not FOLDER.exists(), reason="no ../shared/oracle beside the checkout: no second opinion"
)


@pytest.fixture(scope="module")
def prototypes(pythons: dict[str, Path]) -> Iterator[dict[str, Prototype]]:
    """A prototype of the driver for each release, ready to run scenarios."""
    with (
        Prototype(pythons["vllm-0.22.1"], "0.22.1") as first,
        Prototype(pythons["vllm-0.32.0"], "0.32.0") as second,
    ):
        yield {"0.22.1": first, "0.32.0": second}


def printed(engine: str, document: dict[str, Any], release: str) -> list[str]:
    """What an engine of ours prints in a release's line."""
    return lines_of(engine, document, PROFILES[f"vllm-{release}"])


def parts(real: list[str], document: dict[str, Any], release: str, engine: str) -> str:
    """Where an engine of ours parts from a release, which prints what the first line wants."""
    assert json.loads(real[0])["vllm"] == release
    bytewise = release == "0.22.1" and engine in EXACT
    return difference(real, printed(engine, document, release), bytewise=bytewise)


@beside
@pytest.mark.oracle
@pytest.mark.parametrize("release", RELEASES)
def test_no_named_scenario_shows_a_difference(
    release: str, prototypes: dict[str, Prototype]
) -> None:
    """Each of them that is not refused by name, with the whole state after each decision; to the
    byte where hashes are spelled the same.
    """
    found = {}
    for name in NAMED.keys() - REFUSED[release].keys():
        real = prototypes[release].lines(NAMED[name])
        found |= {(name, e): parts(real, NAMED[name], release, e) for e in ENGINES}
    assert len(found) == 2 * (58 - len(REFUSED[release]))
    assert {at: difference for at, difference in found.items() if difference} == {}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("release", "name"), [(release, name) for release in RELEASES for name in REFUSED[release]]
)
def test_what_is_not_compared_is_refused_by_name(release: str, name: str, engine: str) -> None:
    """Neither engine plays it in the release's line, and each says why."""
    with pytest.raises(OutOfScope, match=REFUSED[release][name]):
        printed(engine, NAMED[name], release)


@beside
@pytest.mark.oracle
@pytest.mark.parametrize(("release", "name"), UNBUILT)
def test_the_release_cannot_be_built_for_it_either(
    release: str, name: str, prototypes: dict[str, Prototype], oracle_0_32: Oracle
) -> None:
    """Whoever drives it: then there is nothing to compare."""
    for driver in (prototypes[release], oracle_0_32):
        with pytest.raises(OracleError, match="could not be built"):
            driver.lines(NAMED[name])


def drawn(family: str, number: int, release: str) -> dict[str, Any]:
    """A scenario that nobody chose, in the words of the prototype."""
    followed = extent(features(ENGINES), PROFILES[f"vllm-{release}"])
    made = FAMILIES[family].make(f"prototype:{number}", 16, followed)
    return in_its_words(made, release)


@beside
@pytest.mark.oracle
@pytest.mark.parametrize("family", DRAWN)
@pytest.mark.parametrize("release", RELEASES)
def test_no_random_scenario_shows_a_difference(
    release: str, family: str, prototypes: dict[str, Prototype]
) -> None:
    """Of each family a few that the specification takes: in other words an id may be used again
    while its blocks are kept, which no engine of ours plays.
    """
    taken = 0
    for number in range(4 * EACH):
        document = drawn(family, number, release)
        try:
            printed("spec", document, release)
        except InputError:
            continue
        real = prototypes[release].lines(document)
        found = {e: parts(real, document, release, e) for e in ENGINES}
        assert found == dict.fromkeys(ENGINES, ""), document
        taken += 1
        if taken == EACH:
            return
    raise AssertionError(f"{taken} of {4 * EACH} scenarios were taken")


@beside
@pytest.mark.oracle
def test_another_line_is_noticed(
    prototypes: dict[str, Prototype], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later release's lines are not those of the earlier rules, nor of a rule taken back."""
    later, names = PROFILES["vllm-0.32.0"], ["fcfs_preempt", "spec_eagle", "reset_running"]
    real = {name: prototypes["0.32.0"].lines(NAMED[name]) for name in names}
    for other in (PROFILES["vllm-0.22.1"], replace(later, freed_unhashed_first=False)):
        monkeypatch.setitem(PROFILES, "vllm-0.32.0", other)
        assert any(parts(real[name], NAMED[name], "0.32.0", "spec") for name in names)


def test_a_scenario_is_put_in_words_that_the_prototypes_know() -> None:
    """What they know stays as it is; what they do not is left out, and is no reason to refuse."""
    plain = NAMED["skipped_waiting_order"]
    assert in_its_words(plain, "0.22.1") == plain
    assert in_its_words(plain, "0.32.0") == plain
    document = {
        "config": {
            **{"drafts": {"length": "all"}, "accept": [None, 2], "spec_method": "draft_model"},
            **{"hash_block_size": 2, "async_scheduling": True, "groups": [{"type": "mamba"}]},
            "connector": {"matched": {"a": None}, "async": ["a"], "failure_policy": "fail"},
        },
        "events": [
            {"op": "counts"},
            {"op": "add", "id": "a", "prompt": [1], "pooling": True, "client_index": 1},
            {"op": "kv_done", "recv": ["a"], "invalid": [3]},
        ],
    }
    first, later = (in_its_words(document, release) for release in RELEASES)
    arrival = {"op": "add", "id": "a", "prompt": [1]}
    assert first["events"] == [arrival, {"op": "kv_done", "recv": ["a"]}]
    assert later["events"] == [arrival]
    assert first["config"]["connector"] == {"matched": {"a": None}, "async": True}
    assert first["config"]["spec_method"] == "draft_model" and first["config"]["accept"] == [0, 2]
    assert later["config"]["spec_method"] == "eagle"
    assert not {"connector", "hash_block_size", "drafts"} & later["config"].keys()
    assert {event["op"] for s in NAMED.values() for event in s["events"]} <= EVENTS.keys()
