"""Work in a child of this process, which has imported everything already: the child may change its
text, its parent's stays as it is.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from nullblock.spec.mutation.generate import Defect
from nullblock.spec.mutation.transplant import transplant

Json = dict[str, Any]
LATE: Json = {"late": True}
"""What is said where a child took too long."""
PATIENCE = 30.0
"""How many times as long as a child may compute it may take: the machine has other work."""


def with_defect(defect: Defect | None, work: Callable[[], Json], seconds: float) -> Json:
    """What `work` returns where the specification has the defect, if there is one."""
    texts = {} if defect is None else defect.texts()

    def child() -> Json:
        transplant(texts)
        return work()

    return in_child(child, seconds)


def in_child(work: Callable[[], Json], seconds: float) -> Json:
    """What `work` returns; LATE after that many seconds of processor time; `{"failed": …}` where
    it raises.
    """
    sys.stdout.flush()
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        limit = max(1, round(seconds))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        _say(send, work)
    os.close(send)
    try:
        return _heard(receive, time.monotonic() + PATIENCE * seconds)
    finally:
        os.close(receive)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _say(to: int, work: Callable[[], Json]) -> None:
    """The whole life of a child."""
    try:
        said = work()
    except BaseException as error:
        said = {"failed": f"{type(error).__name__}: {error}"[:200]}
    with os.fdopen(to, "w") as out:
        json.dump(said, out)
    os._exit(0)


def _heard(where: int, until: float) -> Json:
    parts: list[bytes] = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([where], [], [], left)[0]:
            return LATE
        part = os.read(where, 1 << 16)
        if not part:
            said: Json = json.loads(b"".join(parts)) if parts else LATE
            return said
        parts.append(part)
