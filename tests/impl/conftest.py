"""Lets the tests of this folder import its modules by name; all of them need NumPy."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="NumPy is not installed: pip install 'nullblock[impl]'")
sys.path.insert(0, str(Path(__file__).parent))
