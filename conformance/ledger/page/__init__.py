"""The ledger as one HTML page: nothing is loaded from anywhere, nothing runs."""

from nullblock.conformance.ledger.page.render import render

__all__ = ["render"]
