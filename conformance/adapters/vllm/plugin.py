"""A general plugin of vLLM: with ``NULLBLOCK_TRACE`` set, whichever scheduler is used is recorded.

vLLM calls :func:`register` in each of its processes, through the entry point group
``vllm.general_plugins``. Without the variable nothing is imported and nothing is changed. With it,
the class that vLLM's configuration resolves to, synchronous, asynchronous or somebody's own, is
replaced by a subclass that records.
"""

import logging
import os
from typing import Any


def register() -> None:
    """Make vLLM record, if that is asked for. May be called any number of times; never raises."""
    if not os.environ.get("NULLBLOCK_TRACE", "").strip():
        return
    try:
        from vllm.config.scheduler import (  # type: ignore[import-not-found,unused-ignore]
            SchedulerConfig,
        )

        wrap(SchedulerConfig)
    except Exception as error:
        _complain(error)


def wrap(config: Any) -> None:
    """Let ``config.get_scheduler_cls`` give recording classes."""
    plain = config.get_scheduler_cls
    if getattr(plain, "records", False):
        return

    def get_scheduler_cls(self: Any) -> Any:
        """The configured class, recorded."""
        kind = plain(self)
        try:
            from nullblock.conformance.adapters.vllm.recorder import recording

            return recording(kind)
        except Exception as error:
            _complain(error)
            return kind

    get_scheduler_cls.records = True  # type: ignore[attr-defined]
    config.get_scheduler_cls = get_scheduler_cls


def _complain(error: Exception) -> None:
    logging.getLogger("vllm.nullblock").warning(
        "nullblock: decisions are not recorded (%s: %s)", type(error).__name__, error
    )
