"""What is said about a trace that cannot be read."""

from typing import Self

from nullblock.conformance.errors import InputError


class Malformed(InputError):
    """A trace is damaged: where, what is wrong, and what to do about it.

    Attributes:
        line: from 1, inside ``file``; 0 where no line is at fault.
        column: in bytes from 1.
    """

    exit_code = 4
    kind = "malformed"

    def __init__(
        self, what: str, remedy: str = "", line: int = 0, column: int = 1, file: str = ""
    ) -> None:
        place = f"line {line} column {column}" if line else ""
        super().__init__(what, remedy, place, file)
        self.line, self.column = line, column

    def at(self, place: str = "", file: str = "") -> Self:
        """The same error with its file filled in; a place is a line and a column, and stays."""
        return type(self)(self.what, self.remedy, self.line, self.column, file or self.file)

    def on(self, line: int, file: str) -> Self:
        """The same error on a line of a file."""
        return type(self)(self.what, self.remedy, line, self.column, file)


class Cut(Malformed):
    """The file ends too early, or its compression breaks off: what came before is intact."""
