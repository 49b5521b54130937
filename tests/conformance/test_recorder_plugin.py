"""The plugin of vLLM: whichever scheduler is configured is recorded; nothing without asking."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.adapters.vllm import plugin

HERE = Path(__file__).parent
GROUP = "vllm.general_plugins"


def resolved(oracle_python: Path, where: str) -> dict[str, Any]:
    """What each setting of vLLM's configuration gives with the plugin registered."""
    done = subprocess.run(
        [oracle_python, "-B", HERE / "record_plugin.py"],
        env={**os.environ, "NULLBLOCK_TRACE": where},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.oracle
def test_whichever_scheduler_is_configured_is_recorded(oracle_python: Path) -> None:
    """Sync, async, a class of somebody's own, its name, and one that records already."""
    found = resolved(oracle_python, "/tmp/traces")
    assert found["async"][:3] == ["RecordingAsyncScheduler", "Recording", "AsyncScheduler"]
    assert found["sync"][:3] == ["RecordingScheduler", "Recording", "Scheduler"]
    assert found["class"][:3] == ["RecordingTheirs", "Recording", "Theirs"]
    assert found["path"][:3] == ["RecordingTheirs", "Recording", "Theirs"]
    assert found["ours"] == found["async"]


@pytest.mark.oracle
@pytest.mark.parametrize("where", ["", "  "])
def test_without_the_variable_nothing_is_done(oracle_python: Path, where: str) -> None:
    """The configuration is as it was, and nothing but the plugin itself is imported."""
    found = resolved(oracle_python, where)
    assert not found["changed"]
    assert found["imported"] == ["adapters", "plugin", "vllm"]
    assert found["async"][0] == "AsyncScheduler" and found["class"][0] == "Theirs"


def test_vllm_finds_the_plugin() -> None:
    """The entry point is declared, and names what exists."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"][GROUP]["nullblock"].partition(":")
    assert getattr(sys.modules[module], name) is plugin.register


def test_without_vllm_it_costs_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where vLLM's configuration is elsewhere, serving goes on unrecorded."""
    monkeypatch.setenv("NULLBLOCK_TRACE", "t")
    plugin.register()
    (said,) = caplog.messages
    assert said.startswith("nullblock: decisions are not recorded")


def test_the_package_is_harmless_without_vllm() -> None:
    """Importing it imports no vLLM and no writer; a name it does not have is an AttributeError."""
    program = (
        "import sys; import nullblock.conformance.adapters.vllm as p;"
        "print([m for m in sys.modules if m.split('.')[0] in ('vllm', 'msgspec')]);"
        "print(hasattr(p, 'nothing'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\nFalse\n"
