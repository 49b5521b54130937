"""What is said about a file of KV events that cannot be read."""

from nullblock.conformance.errors import InputError


class Damaged(InputError):
    """The file is damaged or is none of KV events: where, what, and what to do about it."""

    exit_code = 4
    kind = "malformed"


class Cut(Damaged):
    """The file ends too early, or its compression breaks off: what came before is intact."""
