"""A verdict as one HTML page: nothing is loaded from anywhere, nothing runs."""

from nullblock.conformance.checker.page.render import render

__all__ = ["render"]
