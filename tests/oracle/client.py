"""The real engine as a service: starts ``drive.py --serve`` in its environment and asks it.

Runs on our side. A scenario costs no start-up; one that hangs or kills the server costs a restart.
"""

import json
import os
import selectors
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

DRIVER = Path(__file__).with_name("drive.py")
DEFAULT_SECONDS = 60.0
"""How long one scenario may take before its engine counts as hanging."""
_PIECE = 1 << 20


class OracleError(Exception):
    """The real engine did not answer a scenario: it could not be built, it died, or it hangs."""


class Oracle:
    """A running server, started on first use.

    Args:
        python: the interpreter of the oracle's environment (:func:`install.ensure` gives it).
        dump: how much state each line carries: ``full``, ``brief`` or ``none``.
        seconds: how long one scenario may take.
    """

    def __init__(
        self, python: Path, *, dump: str = "full", seconds: float = DEFAULT_SECONDS
    ) -> None:
        self.command = [str(python), "-B", str(DRIVER), "--serve", "--dump", dump]
        self.seconds = seconds
        self._server: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def lines(self, scenario: dict[str, Any]) -> list[str]:
        """What the real engine prints for a scenario. Raises :class:`OracleError`."""
        self.ask(scenario)
        return self.answer()

    def ask(self, scenario: dict[str, Any]) -> None:
        """Send a scenario; :meth:`answer` has to follow. In between, the engine works."""
        server = self._running()
        assert server.stdin is not None
        try:
            server.stdin.write(json.dumps(scenario).encode() + b"\n")
            server.stdin.flush()
        except BrokenPipeError:
            raise self._lost("it has died") from None

    def answer(self) -> list[str]:
        """The lines for the scenario that was asked. Raises :class:`OracleError`."""
        answered = json.loads(self._line())
        if isinstance(answered, dict):
            raise OracleError(f"the real engine could not be built: {answered['error']}")
        lines: list[str] = answered
        return lines

    def close(self) -> None:
        """Stop the server, if it runs."""
        server, self._server = self._server, None
        if server is None:
            return
        server.kill()
        server.communicate()
        if self._said is not None:
            self._said.close()
        self._unread = b""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            self._said = tempfile.TemporaryFile()
            self._server = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                # Aborting several requests at once frees them in the order of a set of strings.
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
        return self._server

    def _line(self) -> bytes:
        """The next line of the server's output."""
        server = self._running()
        assert server.stdout is not None
        deadline = time.monotonic() + self.seconds
        pieces, piece = [], self._unread
        with selectors.DefaultSelector() as selector:
            selector.register(server.stdout, selectors.EVENT_READ)
            while b"\n" not in piece:
                pieces.append(piece)
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._lost(f"no answer within {self.seconds:g} s")
                piece = os.read(server.stdout.fileno(), _PIECE)
                if not piece:
                    raise self._lost("it has died")
        end, _, self._unread = piece.partition(b"\n")
        return b"".join(pieces) + end

    def _lost(self, why: str) -> OracleError:
        """Give the server up, and say with what last words; the next scenario gets a new one."""
        words = b""
        if self._said is not None:
            self._said.seek(0)
            words = self._said.read()[-2000:]
        self.close()
        return OracleError(f"the real engine: {why}\n{words.decode(errors='replace')}".rstrip())
