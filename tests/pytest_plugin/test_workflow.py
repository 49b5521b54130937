"""The ready workflow: its lines are YAML of the plain kind, its commands exist as they stand."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nullblock.conformance.cli import COMMANDS, app
from nullblock.conformance.commands.workflow import PROFILE, SCHEDULER, workflow
from nullblock.conformance.pytest_plugin import plugin

PAINT = re.compile(r"\x1b\[[0-9;]*m")
TEXT = workflow(SCHEDULER, None, PROFILE)
LINE = re.compile(r"^(?P<indent>(?:  )*)(?P<item>- )?(?P<key>[a-z][\w-]*):(?: (?P<value>\S.*))?$")


def parsed(text: str) -> list[tuple[int, str, str]]:
    """Depth, key and value of each line; raises for anything but plain mappings and lists."""
    found: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        match = LINE.match(line)
        assert match, line
        depth = len(match["indent"]) // 2 + bool(match["item"])
        if found:
            last, _, value = found[-1]
            assert depth <= last + (1 if not value else 0) + bool(match["item"]), line
        value = match["value"] or ""
        quoted = value[:1] in "\"'"
        assert quoted or ": " not in value and " #" not in value, line
        found.append((depth, match["key"], value))
    return found


def commands() -> list[list[str]]:
    """What the workflow runs."""
    return [shlex.split(value) for _, key, value in parsed(TEXT) if key == "run"]


def options(command: list[str]) -> set[str]:
    """The long options of a command line."""
    return {word.partition("=")[0] for word in command if word.startswith("--")}


def test_the_workflow_is_plain_yaml_with_a_job() -> None:
    """Every line is a key and a value, no deeper than its parent allows; what GitHub needs is
    there.
    """
    found = parsed(TEXT)
    assert [key for depth, key, _ in found if depth == 0] == ["name", "on", "permissions", "jobs"]
    assert {"runs-on", "steps", "uses", "run"} <= {key for _, key, _ in found}


def test_a_damaged_workflow_is_noticed() -> None:
    """The structural check can fail."""
    for damage in (("name: ", "name"), ("    steps:", "     steps:"), ("run: ", "run: a: b ")):
        with pytest.raises(AssertionError):
            parsed(TEXT.replace(*damage, 1))


def test_every_nullblock_command_exists_with_its_options() -> None:
    """A command that is renamed, or loses an option, breaks this test and not somebody's CI."""
    ours = [c for c in commands() if c[0] == "nullblock"]
    assert {c[1] for c in ours} == {"explore", "prove", "check"}
    for command in ours:
        assert command[1] in COMMANDS
        shown = CliRunner().invoke(app, [command[1], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0
        assert options(command) <= set(re.findall(r"--[a-z-]+", PAINT.sub("", shown.output)))


class _Parser:
    """Notes the options that the plugin adds."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, *words: str) -> "_Parser":
        return self

    def addoption(self, name: str, **_: Any) -> None:
        self.names.add(name)


def test_every_pytest_option_exists() -> None:
    """Those of the plugin as it adds them, the others pytest's own."""
    (command,) = [c for c in commands() if c[0] == "pytest"]
    parser = _Parser()
    plugin.pytest_addoption(parser)  # type: ignore[arg-type]
    assert options(command) - {"--junitxml"} <= parser.names
    page = (Path(plugin.__file__).parent / "README.md").read_text()
    assert set(re.findall(r"--nullblock-[a-z-]+", page)) == parser.names


def test_the_workflow_names_what_it_is_told(tmp_path: Path) -> None:
    """The scheduler, the asynchronous one and the profile stand where pytest is called."""
    asked = ["workflow", "--scheduler", "a.b:C", "--async-scheduler", "a.b:D"]
    shown = CliRunner().invoke(app, [*asked, "--profile", "normative"])
    assert shown.exit_code == 0
    told = "--nullblock-scheduler a.b:C --nullblock-async-scheduler a.b:D"
    assert f"{told} --nullblock-profile normative" in shown.output
    assert SCHEDULER not in shown.output
    assert CliRunner().invoke(app, ["workflow", "--scheduler", "a b; rm"]).exit_code == 2
    path = tmp_path / "w.yml"
    assert CliRunner().invoke(app, ["workflow", "-o", str(path)]).exit_code == 0
    assert path.read_text() == TEXT
