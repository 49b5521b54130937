"""The commands, one module each; see :mod:`nullblock.conformance.cli`."""
