"""Lets the tests of this folder import the benchmark's modules by name, and plant defects."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "gpu"), str(ROOT / "tests" / "kernels")]
