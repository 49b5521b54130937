"""Asynchronous scheduling: out of scope, and refused as soon as it is constructed."""

from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.sched.scheduler import Scheduler


class AsyncScheduler(Scheduler):
    """Out of scope."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise UnsupportedFeature("asynchronous scheduling")
