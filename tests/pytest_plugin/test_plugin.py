"""The plugin from outside: what is collected, what is said, how it ends."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from outer import run

from nullblock.conformance.adapters.shaped import _keywords
from nullblock.conformance.engine import ALL_FEATURES, Feature
from nullblock.conformance.pytest_plugin.loading import Unusable, load
from nullblock.spec.profiles import VLLM_0_22_1

REFERENCE = (
    "--nullblock-scheduler",
    "nullblock.reference.sched.scheduler:Scheduler",
    "--nullblock-async-scheduler",
    "nullblock.reference.sched.async_scheduler:AsyncScheduler",
)
FEW = ("--nullblock-steps", "1", "--nullblock-seed", "1")
QUIET_TEST = """
import sys

def test_nothing_is_imported():
    ours = {name for name in sys.modules if name.startswith("nullblock.")}
    assert ours <= {"nullblock.conformance", "nullblock.conformance.pytest_plugin",
                    "nullblock.conformance.pytest_plugin.plugin"}
    assert not {"msgspec", "z3", "typer", "rich"} & set(sys.modules)
"""


def test_a_session_that_does_not_ask_is_left_alone(tmp_path: Path) -> None:
    """The plugin imports nothing but itself, and collects nothing."""
    (tmp_path / "test_quiet.py").write_text(QUIET_TEST)
    code, said = run(tmp_path, "-q")
    assert code == 0 and "1 passed" in said and "nullblock:" not in said


def test_the_reference_passes(tmp_path: Path) -> None:
    """Every family and every vector that a front end lets through; nothing is called proved."""
    (tmp_path / "test_quiet.py").write_text("def test_not_asked_for(): assert False")
    code, said = run(tmp_path, *REFERENCE, "--nullblock-steps", "60", "--nullblock-seed", "5")
    assert code == 0, said
    assert "seed 5 (--nullblock-seed 5)" in said
    assert re.search(r"fcfs: not refuted in \d+ scenarios, \d+ steps", said)
    assert re.search(r"golden vectors: \d+ passed, \d+ skipped", said)
    assert "proved" not in said and "test_quiet" not in said


def test_other_tests_run_beside_where_they_are_named(tmp_path: Path) -> None:
    """With a path on the command line its tests are collected too; -k selects."""
    (tmp_path / "test_other.py").write_text("def test_other(): pass")
    options = (*FEW, "-k", "other or fcfs", "-v")
    code, said = run(tmp_path, *REFERENCE, *options, ".")
    assert code == 0, said
    assert "nullblock::fcfs PASSED" in said and "test_other.py::test_other PASSED" in said


def test_workers_share_the_seed_and_collect_nothing_else(tmp_path: Path) -> None:
    """Under pytest-xdist each worker has the seed of the header, which here is drawn anew."""
    (tmp_path / "test_quiet.py").write_text("def test_not_asked_for(): assert False")
    options = ("-n", "1", "-k", "fcfs", "--nullblock-scheduler", "defective:OverBudget")
    code, said = run(tmp_path, *options)
    assert code == 1 and "defective:OverBudget departs" in said and "test_quiet" not in said
    (seed,) = set(re.findall(r"--nullblock-seed (\d+)\)", said))
    assert f"of seed {seed}, family fcfs" in said


def test_a_departure_is_told_kept_and_replayed(tmp_path: Path) -> None:
    """The scenario file, the command that runs it again and the JUnit report tell one story."""
    scheduler = ("--nullblock-scheduler", "defective:OverBudget")
    options = (*scheduler, "-k", "fcfs", "--junitxml", "report.xml", "--nullblock-seed", "2")
    code, said = run(tmp_path, *options)
    assert code == 1
    assert "defective:OverBudget departs from vllm-0.22.1 at RUN-1" in said
    assert "the rules say: 1" in said and "OverBudget says: 2" in said
    assert re.search(r"in scenario \d+ of seed 2, family fcfs", said)
    kept = tmp_path / "nullblock-failures" / "fcfs.json"
    assert json.loads(kept.read_text())["events"][0]["op"] == "add"
    (command,) = set(re.findall(r"again: pytest (.*)", said))  # CI makes the summary tell it too
    assert command == " ".join([*scheduler, "--nullblock-replay nullblock-failures/fcfs.json"])
    again = run(tmp_path, *command.split())
    assert again[0] == 1 and "RUN-1" in again[1] and "1 failed" in again[1]
    sound = run(tmp_path, *REFERENCE[:2], "--nullblock-replay", str(kept))
    assert sound[0] == 0 and "1 passed" in sound[1]
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()[0]
    assert "RUN-1" in str(suite.find("testcase/failure").text)  # type: ignore[union-attr]


def test_what_a_class_cannot_do_is_skipped_by_name(tmp_path: Path) -> None:
    """An engine with nothing but the least is asked for nothing else, and it is said."""
    seeded = ("--nullblock-steps", "200", "--nullblock-seed", "1")
    options = ("--nullblock-scheduler", "small_engine:create", *seeded)
    code, said = run(tmp_path, *options)
    assert code == 0, said
    assert "priority: skipped: create is not asked for the PRIORITY policy" in said
    assert re.search(r"aborts: not refuted in \d+ scenarios", said)
    assert re.search(r"not asked for: .*a second step in flight, .*adapters and cache salts", said)
    assert "compared are decisions alone (it shows no state)" in said


def test_features_can_be_named(tmp_path: Path) -> None:
    """--nullblock-features leaves out, or keeps only, what it names."""
    options = (*FEW, "-k", "priority or resets", "-v")
    code, said = run(tmp_path, *REFERENCE, *options, "--nullblock-features", "no-priority")
    assert code == 0 and "nullblock::priority SKIPPED" in said, said
    assert "nullblock::resets PASSED" in said
    everything = load(REFERENCE[1], REFERENCE[3], None, VLLM_0_22_1).subject.features
    assert everything == ALL_FEATURES - {Feature.unchecked_input}
    only = load(REFERENCE[1], None, "priority, pause", VLLM_0_22_1).subject.features
    assert only == {Feature.priority, Feature.pause}
    assert load(REFERENCE[1], REFERENCE[3], "all", VLLM_0_22_1).subject.features == ALL_FEATURES


def test_another_profile_is_another_verdict(tmp_path: Path) -> None:
    """A class that follows vLLM 0.22.1 departs from the normative rules; the reference, which is
    told which profile it is, follows both.
    """
    seeded = ("--nullblock-steps", "150", "--nullblock-seed", "1")
    normative = ("--nullblock-profile", "normative", *seeded, "-k", "async")
    assert run(tmp_path, *REFERENCE, *normative)[0] == 0
    one = ("--nullblock-set", "reject_unservable=true", "-k", "vector-pool-of-one-block")
    options = ("--nullblock-features", "all", "--nullblock-scheduler", "pinned:Scheduler", *one)
    (tmp_path / "pinned.py").write_text(PINNED)
    code, said = run(tmp_path, *options)
    assert code == 1 and "departs from vllm-0.22.1, reject_unservable=true" in said, said
    assert "--nullblock-set reject_unservable=true --nullblock-replay" in said


PINNED = """
from nullblock.reference.sched import scheduler

class Scheduler(scheduler.Scheduler):
    def __init__(self, vllm_config, kv_cache_config, structured_output_manager, block_size):
        super().__init__(vllm_config, kv_cache_config, structured_output_manager, block_size)
"""

WRONG = {
    "no such module": ("nosuch.engine:Scheduler", None, "nosuch.engine: ModuleNotFoundError"),
    "no such class": ("defective:Nobody", None, "defective has no Nobody; it has"),
    "no colon": ("defective", None, "MODULE:CLASS"),
    "no scheduler": ("json:JSONDecoder", None, "cannot be built"),
    "no such feature": ("defective:OverBudget", "magic", "no feature 'magic'; there are"),
}


@pytest.mark.parametrize(("name", "features", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_is_told_in_one_line(
    name: str, features: str | None, says: str
) -> None:
    """The line names the place and the remedy."""
    with pytest.raises(Unusable, match=re.escape(says)) as caught:
        load(name, None, features, VLLM_0_22_1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*REFERENCE, "--nullblock-profile", "vllm-9"), "vllm-9"),
        (("--nullblock-scheduler", "defective:Nobody"), "defective has no Nobody"),
        (("--nullblock-replay", "x.json"), "name the scheduler"),
    ],
)
def test_a_wrong_command_line_gets_one_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    """Nothing runs, nothing is traced back, and the exit code is pytest's for usage."""
    code, said = run(tmp_path, *arguments)
    assert code == 4
    (line,) = [line for line in said.splitlines() if line.startswith("ERROR")]
    assert says in line and "Traceback" not in said


def test_constructors_that_pass_keywords_on_are_understood() -> None:
    """``**kwargs`` reaches the next class: what is taken there may be given (AsyncScheduler)."""

    class First:
        def __init__(self, *, kept: int) -> None:
            """Takes one."""

    class Second(First):
        def __init__(self, own: int = 0, **kwargs: int) -> None:
            super().__init__(**kwargs)

    assert _keywords(Second) == {"self", "own", "kept"}
    assert _keywords(dict) is None
