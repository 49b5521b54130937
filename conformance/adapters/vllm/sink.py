"""Hands lines to a thread that compresses and writes them. Bounded: what is too much is refused.

The engine's thread appends to a queue and returns. The writer looks into it once a flush interval
and takes whatever is there at one go, so that next to none of its work holds the interpreter.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from nullblock.conformance.adapters.vllm.files import Files

NEXT_PART: Final = b""
"""In the queue: what comes after it goes into the next part."""
GOODBYE_SECONDS = 10.0
"""How long an ending process waits for its last lines to be written."""


class Sink:
    """One writer. One thread at a time may put, and none waits for the disk."""

    def __init__(
        self,
        files: Files,
        limit: int,
        flush_seconds: float,
        failed: Callable[[BaseException], object],
        refill: Callable[[], object] = lambda: None,
    ) -> None:
        """``failed`` is called in the writer's thread, once, with what ended it.

        ``limit``: bytes that may wait. ``refill``, in that thread, too, puts what is held back.
        """
        self.files = files
        self.error: BaseException | None = None
        self._refill, self._failed, self._limit, self._seconds = (
            refill,
            failed,
            limit,
            flush_seconds,
        )
        self._queue: deque[bytes] = deque()
        self._put = self._taken = 0
        self._wake = threading.Event()
        self._closing = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="nullblock trace", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Bytes that are not written."""
        return self._put - self._taken

    def put(self, lines: bytes) -> bool:
        """Take lines; whether there was room. An empty queue takes any."""
        waiting = self._put - self._taken
        many = len(lines)
        if waiting and waiting + many > self._limit:
            self._wake.set()
            return False
        self._queue.append(lines)
        self._put += many
        if waiting > self._limit // 2 and not self._wake.is_set():
            self._wake.set()
        return True

    def next_part(self, header: bytes) -> None:
        """What follows goes into another file, which begins with its header, room or not."""
        self._queue.append(NEXT_PART)
        self._queue.append(header)
        self._put += len(header)

    def close(self, wait: float = GOODBYE_SECONDS) -> bool:
        """Write what is left and seal it; whether that was done within ``wait`` seconds."""
        if os.getpid() != self._process:
            return True  # a child inherits this object and not the thread; the file is not its own
        self._closing = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(wait)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wake.wait(self._seconds)
                self._wake.clear()
                self._refill()
                self._drain()
            self._drain()
            self.files.file.close(continued=False)
        except BaseException as error:
            self.error = error
            self.files.file.abandon()
            self._queue.clear()
            self._failed(error)

    def _drain(self) -> None:
        """Write all that is in the queue by now."""
        take = self._queue.popleft
        batch = [take() for _ in range(len(self._queue))]
        while NEXT_PART in batch:
            place = batch.index(NEXT_PART)
            self._write(batch[:place])
            self.files.next_part()
            del batch[: place + 1]
        self._write(batch)

    def _write(self, batch: list[bytes]) -> None:
        data = b"".join(batch)
        if data:
            self.files.file.write(data)
            self._taken += len(data)
