"""What can be said of a kernel without a GPU. See README.md beside this file.

`checked` looks at launches in Triton's interpreter; ``python -m nullblock.kernels.checks.aot``
compiles what is shipped for several GPUs and compares it with a budget.
"""

from nullblock.kernels.checks.checked import checked, watched
from nullblock.kernels.checks.findings import Allowed, Finding, KernelDefects, Kind, Report, Site

__all__ = [
    "Allowed",
    "Finding",
    "KernelDefects",
    "Kind",
    "Report",
    "Site",
    "checked",
    "watched",
]
