"""Seeks scenarios that notice what nothing notices, and keeps them for the lockstep.

    python tests/mutants/seek.py --seed N [--pool N] [--size N] [--tries N] [--smaller N]
    python tests/mutants/seek.py --seed N --only ID…    mutants that begin so, as rules.drafts
    python tests/mutants/seek.py --seed N --explained   those that a reason explains

Random scenarios of all families (`tests/fuzz/families.py`), in every profile, are played by the
specification and by the reference. Then each mutant that no engine notices, and that nothing
explains, is planted, and plays those that call a function that it changes, until one comes out
otherwise. What noticed something is made smaller, as long as it notices as much, and joins
`conformance/mutation/sought.json`, over which `systematic.py lockstep --new` asks next.

A mutant that is explained, as equivalent say, and is noticed all the same has a reason that does
not hold: with ``--explained`` such ones are asked about in place of the others, and a reason that
falls is told with what refutes it.
"""

import argparse
import itertools
import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.families import FAMILIES  # noqa: E402  (only found from here on)
from fuzz.lockstep import features  # noqa: E402

from nullblock.conformance import scenario  # noqa: E402
from nullblock.conformance.errors import InputError  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.conformance.mutation.lockstep import SOUGHT, Golden, parted, seen  # noqa: E402
from nullblock.conformance.mutation.page import every, unnoticed  # noqa: E402
from nullblock.conformance.mutation.side_by_side import answers  # noqa: E402
from nullblock.spec.mutation.forks import Json  # noqa: E402
from nullblock.spec.mutation.generate import Mutant  # noqa: E402
from nullblock.spec.mutation.survivors import reason  # noqa: E402
from nullblock.spec.profiles import PROFILES  # noqa: E402

Document = dict[str, Any]


def drawn(seed: int, size: int) -> Iterator[tuple[Document, Golden]]:
    """Random scenarios that both engines play alike, one family and profile after another; where
    they do not, that is told.
    """
    both = features(("spec", "reference"))
    turns = itertools.cycle(itertools.product(FAMILIES.values(), PROFILES.items()))
    for n, (family, (profile, semantics)) in enumerate(turns):
        can = extent(both, semantics)
        if family.lacking(can):
            continue
        key = f"sought {seed}:{n}"
        document = family.make(key, size, can)
        golden = of(document, f"sought-{seed}-{n}", profile)
        if golden is None:
            continue
        if said := parted(None, [golden]):
            print(f"{family.name}, {key!r}, {profile}: without a defect {said}", file=sys.stderr)
        else:
            yield document, golden


def of(document: Document, name: str, profile: str) -> Golden | None:
    """A scenario in a profile; None if an engine refuses it."""
    try:
        return seen(name, profile, scenario.from_dict(document), PROFILES[profile])
    except InputError:
        return None


def smaller(document: Document, golden: Golden, some: list[Mutant], budget: int) -> Document:
    """A scenario that notices the same mutants, and has less in it."""

    def notices(candidate: Document) -> bool:
        less = of(candidate, golden.name, golden.profile)
        if less is None or parted(None, [less]):
            return False
        return all("by" in parted(m, [less]) for m in some)

    return shrink(document, notices, budget)


def keep(found: dict[str, Json]) -> None:
    """Write scenarios down beside those that are kept."""
    kept = json.loads(SOUGHT.read_text()) | found
    lines = (f"{json.dumps(name)}: {json.dumps(kept[name])}" for name in sorted(kept))
    made = SOUGHT.with_suffix(".new")
    made.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    os.replace(made, SOUGHT)


def arguments() -> argparse.Namespace:
    """What is asked for."""
    text = __doc__ or ""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pool", type=int, default=240, help="scenarios, default %(default)s")
    parser.add_argument("--size", type=int, default=10, help="groups of events in each")
    parser.add_argument("--tries", type=int, default=24, help="scenarios that a mutant plays")
    parser.add_argument("--smaller", type=int, default=40, help="steps of making one smaller")
    parser.add_argument(
        "--only", nargs="+", metavar="ID", default=[], help="mutants that begin so"
    )
    parser.add_argument("--explained", action="store_true", help="those that a reason explains")
    return parser.parse_args()


def asked_about(*, explained: bool, only: list[str]) -> list[Mutant]:
    """The mutants that no engine notices, and that something explains, or nothing does."""
    left = [m for m in unnoticed(every()) if (reason(m) is not None) == explained]
    return [m for m in left if m.id.startswith(tuple(only) or "")]


def main() -> int:
    """Draw, plant, make smaller, keep."""
    args, began = arguments(), time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s {what}", flush=True)

    left = asked_about(explained=args.explained, only=args.only)
    wanted = Counter(f for m in left for f in m.functions)
    pool = list(itertools.islice(drawn(args.seed, args.size), args.pool))
    drawn_as = {golden.name: (document, golden) for document, golden in pool}
    # All mutants play them in one order, so that few scenarios notice many.
    goldens = sorted((g for _, g in pool), key=lambda g: -sum(wanted[f] for f in g.called))
    tell(f"{len(left)} mutants, {len(goldens)} scenarios")

    def ask(m: Mutant) -> Json:
        return parted(m, [g for g in goldens if m.functions & g.called][: args.tries])

    found: dict[str, list[Mutant]] = defaultdict(list)
    for m, said in answers(ask, left):
        # Of one that never ends it is not known in which it does not.
        if said.get("by") in drawn_as:
            found[said["by"]].append(m)
            refuted = f", though: {reason(m)}" if args.explained else ""
            tell(f"{m.id}: {said['by']}{refuted}")
    tell(f"{sum(map(len, found.values()))} noticed, in {len(found)} scenarios")

    def less(name: str) -> Json:
        return smaller(*drawn_as[name], found[name], args.smaller)

    for name, document in answers(less, list(found)):
        shows = sorted(m.id for m in found[name])
        profile = drawn_as[name][1].profile
        keep({name: {"profile": profile, "shows": shows, "scenario": document}})
        tell(f"{name} is kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
