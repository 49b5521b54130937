"""One process of a group: rank 0 schedules and works, all others work. Prints what it sampled.

    python rank.py RANK WORLD STORE SEED MISHAP

MISHAP: nothing, "drift" (rank 1 changes a token that it knows), or "exit" (rank 0 leaves in
between).
"""

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from service import Service

from nullblock.impl.workers import (
    Channel,
    Encoder,
    Mirror,
    WorkerError,
    digest,
    joined,
    model_input,
    view_of_scheduler,
)
from nullblock.spec.profiles import NORMATIVE

FRAME, STEPS, MISHAP_AT = 128, 50, 20


class Worker:
    """A mirror, and a model whose tokens depend on all that it reads through the block table."""

    def __init__(self, config: Any) -> None:
        self.mirror = Mirror(config)
        self.cache = np.full(config.num_blocks * config.block_size, -1, np.int64)
        self.said: list[int] = []

    def work(self, message: bytes) -> Any:
        """Apply a message, write the cache, read the context of everybody from it, sample."""
        mirror = self.mirror
        done = mirror.apply(message)
        read, size = model_input(mirror), mirror.config.block_size
        self.cache[read.slot_mapping] = read.input_ids
        tokens = []
        for row, length in zip(read.rows.tolist(), read.seq_lens.tolist(), strict=True):
            there = np.arange(length)
            context = self.cache[read.block_table[row, there // size] * size + there % size]
            if mirror.config.semantics == NORMATIVE:
                assert np.array_equal(context, mirror.tokens[row, :length])
            tokens.append(zlib.crc32(context.tobytes()) % 9)
        sampled = np.array(tokens, np.int64)
        mirror.take(sampled)
        self.said += sampled[done.samples].tolist()
        return sampled


def schedule(service: Service, channel: Any, mishap: str) -> Worker:
    """Rank 0."""
    worker, encoder = Worker(service.scheduler.config), Encoder()
    service.reset = encoder.withdraw_all
    play = service.play()
    step = next(play, None)
    while step is not None:
        message = encoder.encode(
            step, service.about, digest=digest(view_of_scheduler(service.scheduler))
        )
        if encoder.step == MISHAP_AT and mishap == "exit":
            sys.exit(7)
        channel.send(message)
        service.seen["messages longer than the frame"] += len(message) > FRAME
        try:
            step = play.send(worker.work(message))
        except StopIteration:
            break
    channel.close()
    return worker


def listen(service: Service, channel: Any, spoils: bool) -> Worker:
    """All other ranks: of the service they know the configuration."""
    worker = Worker(service.scheduler.config)
    while (message := channel.receive()) is not None:
        worker.work(message)
        if spoils and worker.mirror.step > MISHAP_AT and worker.mirror.count:
            worker.mirror.tokens[worker.mirror.row[0], 0] += 1
    return worker


def main() -> None:
    """Play a service to its end, and say what was sampled."""
    rank, world, seed, mishap = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), sys.argv[5]
    service = Service(seed, STEPS)
    try:
        with joined(rank, world, Path(sys.argv[3]).as_uri(), seconds=60):
            channel = Channel(frame=FRAME)
            if rank == 0:
                worker = schedule(service, channel, mishap)
            else:
                worker = listen(service, channel, mishap == "drift" and rank == 1)
    except WorkerError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    view = digest(worker.mirror.view())
    seen = dict(service.seen) if rank == 0 else {}
    print(json.dumps({"said": worker.said, "view": view, "seen": seen}))


if __name__ == "__main__":
    main()
