"""Ctrl-C ends a proof at once and leaves nothing behind."""

import signal
import subprocess
import sys
import time

import pytest

PROVING = """
from nullblock.spec.prover import prover
run = prover.Prover.run
def announced(self, *args, **named):
    print("begun", flush=True)
    return run(self, *args, **named)
prover.Prover.run = announced
from nullblock.conformance.cli import main
raise SystemExit(main(["prove", "schedule", "--json"]))
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
@pytest.mark.parametrize("later", [0.0, 1.3])
def test_a_signal_ends_the_proof(number: int, code: int, later: float) -> None:
    """Whatever Z3 is about to do: the shell's exit code, no document, no stack trace."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROVING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    try:
        assert started.stdout.readline() == "begun\n"
        time.sleep(later)
        started.send_signal(number)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
    assert (started.returncode, err) == (code, "")
    assert "{" not in out
