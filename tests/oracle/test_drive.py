"""The driver of the real engine: its lines, its server, and that it is the engine that answers."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle.client import DEFAULT_SECONDS, DRIVER, Oracle, OracleError
from oracle.digests import comparable, digest

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data"
SCENARIOS: dict[str, dict[str, Any]] = json.loads((DATA / "scenarios.json").read_text())
DIGESTS = DATA / "digests.json"

ORIGINAL = Path(__file__).parents[3] / "shared" / "oracle"
"""The prototype of the driver, which lies beside some checkouts."""

ONE_DECODE = {
    "config": {"block_size": 4, "num_blocks": 8},
    "events": [{"op": "add", "id": "a", "prompt": [1, 2, 3], "max_tokens": 2}, {"op": "run"}],
}


def test_each_sample_scenario_gives_the_recorded_lines(
    oracle: Oracle, request: pytest.FixtureRequest
) -> None:
    """Every decision, state and hash of the sample scenarios is what was recorded."""
    found = {name: digest(oracle.lines(scenario)) for name, scenario in SCENARIOS.items()}
    if request.config.getoption("--rewrite"):
        DIGESTS.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(DIGESTS.read_text())


@pytest.mark.skipif(not ORIGINAL.exists(), reason="no prototype beside the checkout")
@pytest.mark.parametrize("dump", ["full", "brief", "none"])
def test_the_prototype_prints_the_same(dump: str, oracle_python: Path) -> None:
    """All sample scenarios give the prototype's bytes, but for frames of the driver itself."""
    printed = subprocess.run(
        [str(oracle_python), "-B", str(ORIGINAL / "drive.py"), "--demo", "all", "--dump", dump],
        env={**os.environ, "PYTHONHASHSEED": "0", "ORACLE_NO_TORCH": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    with Oracle(oracle_python, dump=dump) as server:
        ours = [line for scenario in SCENARIOS.values() for line in server.lines(scenario)]
    assert comparable(ours) == comparable(printed.stdout.splitlines())


def test_a_file_gives_the_servers_lines(
    oracle: Oracle, oracle_python: Path, tmp_path: Path
) -> None:
    """The command line and the server print the same for one scenario."""
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(ONE_DECODE))
    done = subprocess.run(
        [str(oracle_python), "-B", str(DRIVER), str(path)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == oracle.lines(ONE_DECODE)


def test_a_scenario_leaves_nothing_behind_for_the_next(oracle: Oracle) -> None:
    """The same scenario gives the same bytes after all the others, in the same server."""
    before = oracle.lines(ONE_DECODE)
    for scenario in reversed(SCENARIOS.values()):
        oracle.lines(scenario)
    assert oracle.lines(ONE_DECODE) == before


def test_it_is_vllm_0_22_1(oracle: Oracle) -> None:
    """The header names the release that the profile is about."""
    assert json.loads(oracle.lines(ONE_DECODE)[0])["vllm"] == "0.22.1"


@pytest.fixture
def own_server(oracle_python: Path) -> Iterator[Oracle]:
    """A server of one test's own."""
    with Oracle(oracle_python) as server:
        yield server


@pytest.mark.parametrize("broken", [{"groups": []}, {"policy": "none"}, {"hash_algo": "md5"}])
def test_an_engine_that_cannot_be_built_is_an_error_and_not_the_end(
    broken: dict[str, Any], own_server: Oracle
) -> None:
    """The answer says so, and the next scenario runs in the same server."""
    own_server.lines(ONE_DECODE)
    server = own_server._server
    with pytest.raises(OracleError, match="could not be built"):
        own_server.lines({"config": broken, "events": []})
    assert own_server.lines(ONE_DECODE) and own_server._server is server


def test_a_server_that_dies_is_replaced(own_server: Oracle) -> None:
    """A scenario that takes the server with it costs an error, and the next one runs."""
    own_server.ask(ONE_DECODE)
    assert own_server._server is not None
    own_server._server.kill()
    with pytest.raises(OracleError, match="died"):
        own_server.answer()
        own_server.lines(ONE_DECODE)
    assert own_server.lines(ONE_DECODE)


def test_a_server_that_hangs_is_replaced(oracle_python: Path) -> None:
    """No answer within the time allowed is an error that says so."""
    endless = {"config": {}, "events": [{"op": "step", "n": 10**9}]}
    with Oracle(oracle_python, dump="none", seconds=1) as server:
        with pytest.raises(OracleError, match="no answer within 1 s"):
            server.lines(endless)
        # The next server may take longer than that to start.
        server.seconds = DEFAULT_SECONDS
        assert server.lines(ONE_DECODE)
