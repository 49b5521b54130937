"""Two processes on one machine: how long a message takes from the one to the other over gloo.

    python benchmarks/gloo_pair.py RANK STORE FOLDER ROUNDS

The messages are the files of FOLDER. Ours go through the channel of nullblock.impl.workers; these
and the others also as objects, by torch's own broadcast_object_list; the ways take turns. Rank 1
prints JSON: by file and way the seconds from the moment the sender starts to the moment the
receiver has the message, by the machine's clock. The receiver waits already, as a worker does.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from nullblock.impl.workers import Channel, joined

WAYS = ("channel", "object")


def pass_on(rank: int, channel: Any, way: str, message: bytes) -> float:
    """One message; the seconds that it took, known to rank 1."""
    started = torch.zeros(1, dtype=torch.float64)
    dist.barrier()
    time.sleep(0.0005 if rank == 0 else 0)
    start = time.perf_counter()
    if way == "object":
        box: list[Any] = [message if rank == 0 else None]
        dist.broadcast_object_list(box, 0)
        got = box[0]
    elif rank == 0:
        channel.send(message)
        got = message
    else:
        got = channel.receive()
    end = time.perf_counter()
    assert got == message
    started[0] = start
    dist.broadcast(started, 0)
    return end - float(started[0])


def main() -> None:
    """Play the rank named on the command line."""
    rank, store, folder, rounds = int(sys.argv[1]), *map(Path, sys.argv[2:4]), int(sys.argv[4])
    torch.set_num_threads(1)
    messages = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    found: dict[str, dict[str, list[float]]] = {
        name: {way: [] for way in WAYS} for name in messages
    }
    with joined(rank, 2, store.as_uri(), seconds=60):
        channel = Channel()
        for _ in range(rounds):
            for name, message in messages.items():
                for way in WAYS if name.endswith(".message") else WAYS[1:]:
                    found[name][way].append(pass_on(rank, channel, way, message))
    if rank:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
