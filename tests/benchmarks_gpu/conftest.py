"""Lets the tests of this folder import the benchmark's modules by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "gpu"))
