"""Shared by the tests of the reference."""

import sys
from pathlib import Path

# The support modules also run where nullblock is not installed, so they are not a package.
sys.path.insert(0, str(Path(__file__).parent / "support"))
