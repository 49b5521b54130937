"""Several processes, one decision a step: through torch.distributed's gloo, over loopback."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest

if find_spec("torch") is None:
    pytest.skip("torch is not installed: pip install 'nullblock[gpu]'", allow_module_level=True)

SCRIPT = Path(__file__).with_name("rank.py")
SEED = 4


def group(world: int, store: Path, mishap: str = "") -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each rank of a group; no process is left behind."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, (rank, world, store, SEED, mishap))],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        ended = [rank.communicate(timeout=90) for rank in ranks]
        return [(rank.returncode, *said) for rank, said in zip(ranks, ended, strict=True)]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.communicate()


def test_three_workers_sample_the_same_tokens(tmp_path: Path) -> None:
    """Each from its own batch and its own cache, which it reads through its own block tables;
    after every step its state has the digest of the scheduler's. Messages longer than the frame
    arrive too, and everybody ends when the scheduler does.
    """
    outcome = group(3, tmp_path / "store")
    assert [(code, errors) for code, _, errors in outcome if code] == []
    told: list[dict[str, Any]] = [json.loads(output) for _, output, _ in outcome]
    seen = told[0]["seen"]
    for what in ("preempted", "resumed", "hit", "aborted", "messages longer than the frame"):
        assert seen[what] > 0, what
    assert len(told[0]["said"]) > 50
    assert all(rank["said"] == told[0]["said"] for rank in told)
    assert all(rank["view"] == told[0]["view"] for rank in told)


@pytest.mark.parametrize(
    ("mishap", "codes", "why"),
    [
        ("drift", [1, 1], "Diverged: after step"),
        # How the system says that a connection is gone differs from run to run.
        ("exit", [7, 1], "Unreachable: no decision came from rank 0 to rank 1: "),
    ],
)
def test_a_worker_that_goes_astray_stops_with_a_line(
    tmp_path: Path, mishap: str, codes: list[int], why: str
) -> None:
    """One that knows something else than the scheduler, and one whose scheduler is gone."""
    outcome = group(2, tmp_path / "store", mishap)
    assert [code for code, _, _ in outcome] == codes, outcome
    assert any(line.startswith(why) for line in outcome[1][2].splitlines()), outcome[1][2]


def test_a_frame_is_not_written_before_its_last_message_has_left() -> None:
    """Where the group's tensors are on a device that is behind, what was sent before is waited
    for: it still stands in the frame until then.
    """
    import torch

    from nullblock.impl.workers.broadcast import _Room

    class Left:
        """Says what stands in the frame whenever somebody waits for it, or sends it."""

        seen: ClassVar[list[tuple[str, bytes]]] = []

        def synchronize(self) -> None:
            self.seen.append(("waited for", room.bytes.tobytes()))

        def record(self) -> None:
            self.seen.append(("sent", bytes(room.tensor.tolist())))

    room = _Room(4, torch.device("cpu"))
    room.tensor, room._left = torch.zeros(4, dtype=torch.uint8), Left()  # type: ignore[assignment]
    for message in (b"abcd", b"efgh"):
        room.fill(message)
        room.upload(True)
    assert Left.seen == [
        ("waited for", bytes(4)),
        ("sent", b"abcd"),
        ("waited for", b"abcd"),
        ("sent", b"efgh"),
    ]
