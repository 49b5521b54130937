"""Judges traces: the specification makes every decision again from the recorded inputs."""

from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.verdict import First, Verdict

__all__ = ["First", "Verdict", "check"]
