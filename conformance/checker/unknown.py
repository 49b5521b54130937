"""What a trace does not tell."""


class NotRecorded(Exception):
    """The rules ask for something that the trace does not tell."""

    def __init__(self, *missing: str) -> None:
        super().__init__(*missing)
        self.missing = missing
        """What it is, each by name."""
