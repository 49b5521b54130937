"""What a command says when its input is not usable: one line with the place and the remedy."""

from typing import ClassVar, Self


class InputError(Exception):
    """Something in the input, and what to do about it.

    Attributes:
        what: what is wrong, in a few words.
        remedy: what to write instead; empty where ``what`` says it already.
        place: where inside the file (``events[3].prompt.range``, ``line 4 column 2``).
        file: the file as it was named on the command line.
        exit_code: what a command returns for it.
        kind: its name in machine-readable output.
    """

    exit_code: ClassVar[int]
    kind: ClassVar[str]

    def __init__(self, what: str, remedy: str = "", place: str = "", file: str = "") -> None:
        super().__init__(what, remedy, place, file)
        self.what, self.remedy, self.place, self.file = what, remedy, place, file

    def __str__(self) -> str:
        text = "; ".join(part for part in (self.what, self.remedy) if part)
        return ": ".join(part for part in (self.file, self.place, text) if part)

    def at(self, place: str = "", file: str = "") -> Self:
        """The same error with its place, its file or both filled in."""
        return type(self)(self.what, self.remedy, place or self.place, file or self.file)


class ScenarioError(InputError):
    """The content of a scenario is wrong, whatever engine would run it."""

    exit_code = 4
    kind = "scenario"


class OutOfScope(InputError):
    """The scenario asks for a feature that no engine here has yet; ``what`` names it."""

    exit_code = 3
    kind = "out of scope"
