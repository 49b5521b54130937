"""Which other profiles, or single switches, would explain what a profile does not.

Each is judged anew, up to the wrong decision, so what is tried is bounded: by rules that fire, not
by a clock, and the same trace is told the same on every machine.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

from nullblock.conformance.checker.advice import looks
from nullblock.conformance.checker.explanation import Tried
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.profiles import PROFILES, Semantics
from nullblock.spec.switches import meaning

AFFORDED = 120_000
"""Rules that may fire in all, as the text is written: two to five seconds."""
ERASING = 40_000
"""What it costs to erase the text, in such rules."""
FASTER = 8
"""How much faster the erased text is."""


def seek(
    path: Path,
    line: int,
    file: str,
    semantics: Semantics,
    label: str,
    rule: str | None,
    fired: int,
) -> Tried:
    """Profiles, and single switches of this one, with which the rules explain the trace up to and
    including a line. The switches that have to do with the rule come first, and as many others as
    can be afforded.

    Args:
        fired: rules that fired up to there.
    """
    found = [
        name
        for name, other in _profiles(semantics)
        if _explains(path, line, file, other, name, plain=False)[0]
    ]
    cost = min(fired, ERASING + fired // FASTER)
    plain, spent, untried, every = cost == fired, 0, 0, list(_switches(semantics, label, rule))
    for name, other in every:
        if spent + cost > AFFORDED:
            untried += 1
            continue
        explains, took = _explains(path, line, file, other, name, plain=plain)
        spent += took if plain and took is not None else cost
        found += [name] if explains else []
    tried = len(every) - untried
    most = "" if not untried else f" of the {tried} tried"
    return Tried(tuple(found), f"single switch of this one{most}" if tried else "", untried)


def _explains(
    path: Path, line: int, file: str, semantics: Semantics, name: str, *, plain: bool
) -> tuple[bool, int | None]:
    """Whether a semantics explains the trace up to a line, and how many rules fired for it; None:
    it failed. One that fails for whatever reason explains nothing, and costs no other its turn.
    """
    from nullblock.conformance.checker.check import check

    try:
        v = check(path, semantics, name, until=(line, file), deep=False, plain=plain)
    except Exception:
        return False, None
    return v.first is None and v.verdict == "CONFORMS", sum(v.rules.values())


def _profiles(semantics: Semantics) -> Iterator[tuple[str, Semantics]]:
    for name, value in PROFILES.items():
        if value != semantics:
            yield f"--profile {name}", value


def _switches(
    semantics: Semantics, label: str, rule: str | None
) -> Iterator[tuple[str, Semantics]]:
    """Each switch turned, but for what is a profile: those first that have to do with the rule."""
    base, *rest = (part.strip() for part in label.split(","))
    sets = "".join(f" --set {s}" for s in rest)
    departing = {d.switch for d in DEPARTURES if rule is not None and looks(d, rule)}
    names = [switch.name for switch in fields(Semantics)]
    near = [n for n in names if rule is not None and (rule in meaning(n) or n in departing)]
    for switch in dict.fromkeys([*near, *names]):
        turned = not getattr(semantics, switch)
        other = replace(semantics, **{switch: turned})
        if other not in PROFILES.values():
            yield f"--profile {base}{sets} --set {switch}={str(turned).lower()}", other
