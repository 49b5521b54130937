"""Shared by the tests of the checks."""

import sys
from pathlib import Path

# With import-mode=importlib a test does not find its neighbours by itself.
sys.path.insert(0, str(Path(__file__).parent))
