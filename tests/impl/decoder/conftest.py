"""Lets the tests of this folder import its modules, and those of the folder above, by name."""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
torch.set_num_threads(1)
