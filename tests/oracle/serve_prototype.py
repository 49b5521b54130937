"""Serves a prototype of the driver, as ``drive.py --serve`` serves the driver itself.

    python serve_prototype.py FOLDER MODULE

Reads one scenario a line and answers each with one line: an array of lines, or an object with an
``error``. Runs in an environment of the real engine, where nullblock is not installed.
"""

import importlib
import json
import os
import sys
from typing import Any

WAITING_APART = "kv_holding_waiting"
"""Where vLLM 0.32.0 keeps who waits and has blocks."""


def prototype(folder: str, module: str) -> Any:
    """The module. The prototype for any release looks for requests that wait apart under the names
    that they had before 0.32.0, which therefore gets one of them.
    """
    os.environ["ORACLE_NO_TORCH"] = "1"
    sys.path.insert(0, folder)
    drive: Any = importlib.import_module(module)
    from vllm.v1.core.sched.scheduler import Scheduler

    if module == "drive_any":
        Scheduler.deferred = property(lambda self: getattr(self, WAITING_APART))
    return drive


def main() -> None:
    """Answer scenarios until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    drive = prototype(*sys.argv[1:])
    for line in sys.stdin:
        try:
            answer = drive.Driver(json.loads(line)).run()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
