"""What searches of a scope share on the command line: which form searches, progress, and a
scenario that replays.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nullblock.conformance.console import Screen, usage_error
from nullblock.conformance.files import write_atomically
from nullblock.spec.compiled import search as compiled
from nullblock.spec.compiled.build import NoCompiler
from nullblock.spec.compiled.values import Untranslatable
from nullblock.spec.explorer.actions import Action
from nullblock.spec.explorer.export import scenario
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.result import Progress, Result
from nullblock.spec.explorer.search import explore
from nullblock.spec.profiles import Semantics

_PLACE = re.compile(r"\S+\.py:\d+: ")
"""How the refusal of one construct begins; other refusals are of a whole program."""


class Searcher:
    """Searches scopes with the text compiled where that can be done, and otherwise, a hundred
    times as slowly, with the text as it stands: never without saying so, in one line.
    """

    def __init__(self, say: Callable[[str], None], refused: str = "") -> None:
        """`say` is given the lines; with `refused`, why not, nothing is compiled."""
        self.say = say
        self.refused = refused
        self.read: dict[str, str] = {}
        """By the name of each scope that the readable form searched: why it was."""

    def __call__(
        self, scope: Scope, semantics: Semantics, progress: Progress | None = None
    ) -> Result:
        why = self.refused
        if not why:
            try:
                return compiled.explore(scope, semantics, progress=progress)
            except NoCompiler as error:
                # Of all that follow it is said once.
                why = self.refused = str(error)
                self.say(f"searched by the readable form: {why}")
            except Untranslatable as error:
                why = f"{error}; {_remedy(str(error))}"
                self.say(f"{scope.name} is searched by the readable form: {why}")
        self.read[scope.name] = why
        return explore(scope, semantics, progress=progress)


def _remedy(refusal: str) -> str:
    """What makes a scope that was refused one that is searched compiled again."""
    if _PLACE.match(refusal):
        return "say it there as lines that are translated do, or teach spec/compiled the construct"
    if "memory" in refusal:
        return "free some, or search a smaller scope"
    return "spec/compiled has to be mended"


def save(path: Path | None, scope: Scope, actions: Sequence[Action], semantics: Semantics) -> None:
    """Write actions of a scope, as they happen in a profile, as a scenario, whole or not at all.

    One line says so where a scenario has no words for the scope. Raises
    :class:`typer.BadParameter` where the file cannot be written.
    """
    if path is None:
        return
    try:
        document = json.dumps(scenario(scope, actions, semantics), indent=1)
    except ValueError as error:
        print(f"{path} is not written: {error}", file=sys.stderr)
        return
    try:
        write_atomically(path, f"{document}\n".encode())
    except OSError as error:
        raise usage_error(f"{path}: {error.strerror or error}", "--save") from None


@contextmanager
def progress(name: str) -> Iterator[Progress | None]:
    """How far a search has come, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    with Screen(stderr=True).status(name) as status:
        yield lambda states, transitions: status.update(
            f"{name}: {states:,} states, {transitions:,} transitions"
        )


def listing(lines: list[tuple[str, str]], as_json: bool) -> None:
    """Names and what each is for, one a line."""
    if as_json:
        print(
            json.dumps([{"name": name, "purpose": purpose} for name, purpose in lines], indent=2)
        )
        return
    width = max(len(name) for name, _ in lines)
    for name, purpose in lines:
        print(f"{name:{width}}  {purpose}")
