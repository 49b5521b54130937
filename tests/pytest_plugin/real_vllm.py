"""The real schedulers, in an environment without torch; see ``tests/oracle/torchless.py``."""

import torchless

torchless.install()

from vllm.v1.core.sched import scheduler  # noqa: E402
from vllm.v1.core.sched.async_scheduler import AsyncScheduler  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler as RealScheduler  # noqa: E402

from nullblock.conformance.played.connector import AllGroupsConnector  # noqa: E402

scheduler.SupportsHMA = AllGroupsConnector
"""The scheduler asks for this class, which in that environment is a stand-in."""


class Scheduler(RealScheduler):  # type: ignore[misc]
    """As it is."""


class OldestFirst(RealScheduler):  # type: ignore[misc]
    """With a defect: a preempted request waits behind everybody."""

    def _preempt_request(self, request: object, timestamp: float) -> None:
        super()._preempt_request(request, timestamp)
        self.waiting.remove_request(request)
        self.waiting.add_request(request)


__all__ = ["AsyncScheduler", "OldestFirst", "Scheduler"]
