"""One message a step from the scheduler to all workers, through torch.distributed.

A broadcast needs its size on both sides before it starts, and sending the size first would double
the latency, which is all that a small message costs. So every message starts with a frame of a
fixed size, known to all: the header in it says how long the message is, and whatever did not fit
follows in a second broadcast. A step of decodes fits; prompts that arrive may not.

On a CPU the group is gloo's. With NCCL the frame lives on the device, staged through pinned
memory.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from nullblock.impl.workers.decode import length_of
from nullblock.impl.workers.errors import Malformed, Unreachable
from nullblock.impl.workers.layout import HEADER

FRAME = 4096
"""Bytes of the first broadcast: a step of 256 requests that all get a block takes 3 KB."""
LONGEST = 1 << 30
"""Bytes of the longest message."""
_END = bytes(HEADER.size)
"""Instead of a header: no message comes any more."""


class Channel:
    """From one rank of a group to all others. All construct it together, with the same frame.

    `device`: where the group's tensors have to be; NCCL's is the worker's own GPU.
    """

    def __init__(
        self,
        source: int = 0,
        group: Any = None,
        device: str = "cpu",
        frame: int = FRAME,
        longest: int = LONGEST,
    ) -> None:
        if frame < HEADER.size:
            raise ValueError(f"a frame of {frame} bytes: the header has {HEADER.size}")
        self._source, self._group, self._longest = source, group, longest
        self._device = torch.device(device)
        self._is_source = dist.get_rank() == source
        self._frame = self._room(frame)

    def _room(self, size: int) -> "_Room":
        return _Room(size, self._device)

    def send(self, message: bytes) -> None:
        """Tell all others. Raises ValueError for a message longer than all may be, Unreachable."""
        if not self._is_source:
            raise ValueError(f"rank {self._source} sends, all others receive()")
        if len(message) > self._longest:
            raise ValueError(
                f"a message of {len(message)} bytes, of {self._longest} at most: admit less a step"
            )
        first = len(self._frame.bytes)
        self._frame.fill(message[:first])
        self._broadcast(self._frame)
        if len(message) > first:
            rest = self._room(len(message) - first)
            rest.fill(message[first:])
            self._broadcast(rest)

    def close(self) -> None:
        """Tell all others that nothing comes any more."""
        self.send(_END)

    def receive(self) -> bytes | None:
        """The next message, None after the last one.

        Raises Malformed for what is no message, Unreachable.
        """
        if self._is_source:
            raise ValueError(f"rank {self._source} sends, all others receive()")
        self._broadcast(self._frame)
        start: bytes = self._frame.bytes.tobytes()
        length = length_of(start)
        if length <= len(start):
            return start[:length] if length else None
        if length > self._longest:
            raise Malformed(f"a message of {length} bytes: {self._longest} is the most")
        rest = self._room(length - len(start))
        self._broadcast(rest)
        return start + bytes(rest.bytes)

    def _broadcast(self, room: "_Room") -> None:
        try:
            room.upload(self._is_source)
            dist.broadcast(room.tensor, self._source, group=self._group)
            room.download(self._is_source)
        except RuntimeError as error:
            way = "to the others" if self._is_source else f"to rank {dist.get_rank()}"
            raise Unreachable(
                f"no decision came from rank {self._source} {way}: {_said(error)}"
            ) from error


class _Room:
    """So many bytes where the group wants them, and where NumPy sees them."""

    def __init__(self, size: int, device: torch.device) -> None:
        on_host = device.type == "cpu"
        host = torch.zeros(size, dtype=torch.uint8, pin_memory=not on_host)
        self._host = host
        self.tensor = host if on_host else torch.zeros(size, dtype=torch.uint8, device=device)
        self.bytes = host.numpy()
        self._left = None if on_host else torch.cuda.Event()
        """When what was sent last has left the host."""

    def fill(self, message: bytes) -> None:
        """What is sent next. The device may be behind: it gets what was sent before, first."""
        if self._left is not None:
            self._left.synchronize()
        self.bytes[: len(message)] = np.frombuffer(message, np.uint8)

    def upload(self, source: bool) -> None:
        """Before a broadcast: what is sent is where the group wants it."""
        if source and self._left is not None:
            self.tensor.copy_(self._host, non_blocking=True)
            self._left.record()

    def download(self, source: bool) -> None:
        """After it: what came is where NumPy sees it."""
        if not source and self._left is not None:
            self._host.copy_(self.tensor)


@contextmanager
def joined(
    rank: int, world_size: int, init_method: str, seconds: float, backend: str = "gloo"
) -> Iterator[None]:
    """Inside, the process is a rank of the default group, whose calls give up after so many
    seconds. Raises Unreachable if the others do not come.
    """
    try:
        dist.init_process_group(
            backend,
            init_method=init_method,
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=seconds),
        )
    except RuntimeError as error:
        raise Unreachable(f"rank {rank} waited for {world_size}: {_said(error)}") from error
    try:
        yield
    finally:
        dist.destroy_process_group()


def _said(error: RuntimeError) -> str:
    """The first sentence of what torch says, without its place in torch."""
    return re.sub(r"^\[[^]]*\] ", "", str(error).strip()).splitlines()[0].split(". ")[0]
