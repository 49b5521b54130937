"""What is said of a workload file that cannot be read: one line with the place and the remedy."""

from nullblock.conformance.errors import InputError


class WorkloadError(InputError):
    """A workload file is damaged, or is none."""

    exit_code = 4
    kind = "workload"
