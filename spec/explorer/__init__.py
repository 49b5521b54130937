"""The explorer: every state that a bounded scope reaches, and shortest counterexamples."""

from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.result import Counterexample, Lasso, Result
from nullblock.spec.explorer.search import explore

__all__ = ["Counterexample", "Lasso", "Result", "Scope", "Template", "explore"]
