"""How a recording scheduler may be called, beside the plain one. Runs where vLLM is.

Prints a JSON object: each method that the recorder puts itself over, and those calls that the
plain one takes, by the names of their arguments, and the recorded one does not.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / ".src")]

import torchless  # noqa: E402  (found from here on)

torchless.install()

import setup_engine  # noqa: E402
from vllm.v1.core.sched import async_scheduler  # noqa: E402

from nullblock.conformance.adapters.vllm import recorder  # noqa: E402
from nullblock.conformance.adapters.vllm.recording import Recording  # noqa: E402

WATCHED = {"kv_cache_manager": ("evict_blocks", "reset_prefix_cache")}
"""What is put over methods of a scheduler's own parts."""
SESSIONS = "_update_request_as_session"


def built(kind: Any) -> Any:
    """An engine of that kind."""
    async_scheduler.AsyncScheduler = kind
    made, _ = setup_engine.build({**setup_engine.DEFAULTS, "async_scheduling": True})
    return made


def calls(method: Callable[..., Any]) -> Iterator[tuple[list[str], dict[str, None]]]:
    """Ways to call a method: with as many arguments as one likes, in order and by name."""
    taken = list(inspect.signature(method).parameters.values())
    needed = sum(p.default is p.empty for p in taken)
    for many in range(needed, len(taken) + 1):
        names = [p.name for p in taken[:many]]
        yield names, {}
        yield [], dict.fromkeys(names)


def refused(ours: Callable[..., Any], theirs: Callable[..., Any]) -> list[str]:
    """The calls of theirs that ours does not take."""
    found = []
    for in_order, by_name in calls(theirs):
        try:
            inspect.signature(ours).bind(*in_order, **by_name)
        except TypeError as error:
            found.append(f"{in_order} {list(by_name)}: {error}")
    return found


def main() -> None:
    """Compare them."""
    os.environ["NULLBLOCK_TRACE"] = ""
    plain = built(async_scheduler.AsyncScheduler)
    recorded = built(recorder.RecordingAsyncScheduler)
    names = [name for name in vars(Recording) if name[0] != "_" and hasattr(plain, name)]
    pairs = {name: (recorded, plain) for name in (*names, SESSIONS)}
    for part, methods in WATCHED.items():
        both = getattr(recorded, part), getattr(plain, part)
        pairs |= {f"{part}.{name}": both for name in methods}
    found = {}
    for name, (ours, theirs) in pairs.items():
        last = name.rpartition(".")[2]
        found[name] = refused(getattr(ours, last), getattr(theirs, last))
    print(json.dumps(found))


main()
