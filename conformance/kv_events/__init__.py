"""Verdicts on vLLM's KV-event streams.

``check`` reads a file (:mod:`frames`, :mod:`wire`) and judges it by the law that
``nullblock.spec.kv_events`` states. ``FORMAT.md`` beside this file says what a file is.
"""

from nullblock.conformance.kv_events.check import Options, check
from nullblock.conformance.kv_events.verdict import Verdict

__all__ = ["Options", "Verdict", "check"]
