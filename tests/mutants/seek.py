"""Seeks scenarios that notice what nothing notices, and keeps them for the lockstep.

    python tests/mutants/seek.py [--seed N] [--pool N] [--tries N] [--smaller N] [--only ID…]

Random scenarios of all families (`tests/fuzz/families.py`), in every profile, are played by the
specification and by the reference. Then each mutant that no engine notices, and that nothing
explains, is planted, and plays those that call a function that it changes, until one comes out
otherwise. What noticed something is made smaller, as long as it notices as much, and joins
`conformance/mutation/sought.json`, over which `systematic.py lockstep --new` asks next.
"""

import argparse
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.families import FAMILIES  # noqa: E402  (only found from here on)
from fuzz.lockstep import features  # noqa: E402

from nullblock.conformance import compare, scenario  # noqa: E402
from nullblock.conformance.errors import InputError  # noqa: E402
from nullblock.conformance.lines.extent import extent  # noqa: E402
from nullblock.conformance.lockstep.shrink import shrink  # noqa: E402
from nullblock.conformance.mutation.lockstep import SOUGHT, Golden, played, seen  # noqa: E402
from nullblock.conformance.mutation.page import every, unnoticed  # noqa: E402
from nullblock.conformance.mutation.side_by_side import answers  # noqa: E402
from nullblock.spec.mutation.forks import Json, with_defect  # noqa: E402
from nullblock.spec.mutation.generate import Mutant  # noqa: E402
from nullblock.spec.mutation.survivors import reason  # noqa: E402
from nullblock.spec.profiles import PROFILES  # noqa: E402

SECONDS = 40.0
"""Of processor time, for all that one mutant plays."""
Document = dict[str, Any]


def drawn(seed: int, size: int) -> Iterator[tuple[Document, Golden]]:
    """Random scenarios that both engines play alike, one family and profile after another."""
    both = features(("spec", "reference"))
    turns = itertools.cycle(itertools.product(FAMILIES.values(), PROFILES.items()))
    for n, (family, (profile, semantics)) in enumerate(turns):
        can = extent(both, semantics)
        if family.lacking(can):
            continue
        document = family.make(f"sought {seed}:{n}", size, can)
        golden = of(document, f"sought-{seed}-{n}", profile)
        if golden is not None:
            yield document, golden


def of(document: Document, name: str, profile: str) -> Golden | None:
    """A scenario in a profile, with what both engines print; None if one takes it otherwise."""
    try:
        given = scenario.from_dict(document)
        golden = seen(name, profile, given, PROFILES[profile])
        alike = compare.first_difference(golden.lines, played("spec", given, PROFILES[profile]))
    except InputError:
        return None
    return golden if alike is None else None


def parts(m: Mutant, g: Golden) -> bool:
    """Whether a planted mutant plays a scenario otherwise. Asked in a child."""
    try:
        lines = played("spec", g.given, g.semantics)
    except InputError:
        return True
    return compare.first_difference(g.lines, lines) is not None


def first_noticed(m: Mutant, some: list[Golden]) -> str:
    """The first of some scenarios that comes out otherwise; empty if none does."""

    def work() -> Json:
        return {"by": next((g.name for g in some if parts(m, g)), "")}

    return str(with_defect(m, work, SECONDS).get("by", ""))


def smaller(document: Document, golden: Golden, ids: list[Mutant], budget: int) -> Document:
    """A scenario that notices the same mutants, and has less in it."""

    def notices(candidate: Document) -> bool:
        less = of(candidate, golden.name, golden.profile)
        return less is not None and all(first_noticed(m, [less]) for m in ids)

    return shrink(document, notices, budget)


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
    return parser.parse_args()


def main() -> int:
    """Draw, plant, make smaller, keep."""
    args, began = arguments(), time.monotonic()
    left = [m for m in unnoticed(every()) if reason(m) is None]
    left = [m for m in left if m.id.startswith(tuple(args.only) or "")]
    wanted = Counter(f for m in left for f in m.functions)
    pool = list(itertools.islice(drawn(args.seed, args.size), args.pool))
    documents = {g.name: document for document, g in pool}
    # All mutants play them in one order, so that few scenarios notice many.
    goldens = sorted((g for _, g in pool), key=lambda g: -sum(wanted[f] for f in g.called))
    print(f"{len(left)} mutants, {len(goldens)} scenarios, {time.monotonic() - began:.0f} s")

    def ask(m: Mutant) -> Json:
        some = [g for g in goldens if m.functions & g.called][: args.tries]
        return {"by": first_noticed(m, some) if some else ""}

    found: dict[str, list[Mutant]] = defaultdict(list)
    for m, said in answers(ask, left):
        if said["by"]:
            found[said["by"]].append(m)
    many = sum(map(len, found.values()))
    print(
        f"{many} noticed, in {len(found)} scenarios, {time.monotonic() - began:.0f} s", flush=True
    )
    by_name = {g.name: g for g in goldens}

    def less(name: str) -> Json:
        return smaller(documents[name], by_name[name], found[name], args.smaller)

    kept = json.loads(SOUGHT.read_text())
    for name, document in answers(less, list(found)):
        shows = sorted(m.id for m in found[name])
        profile = by_name[name].profile
        kept[name] = {"profile": profile, "shows": shows, "scenario": document}
        lines = (f'"{n}": {json.dumps(entry)}' for n, entry in sorted(kept.items()))
        SOUGHT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"kept {len(found)}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
