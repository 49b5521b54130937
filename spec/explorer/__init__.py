"""The explorer: every state that a bounded scope reaches, and shortest counterexamples."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.search import Counterexample, Result, explore

__all__ = ["Counterexample", "Result", "Scope", "Template", "explore"]
