"""The bug zoo: real defects of real engines, each planted in this specification where it has the
layer, and listed as out of reach where it has not.

    entry.py      what is known of a defect, and how it is shown
    scheduler.py  defects of pools, prefix caches, schedulers, asynchronous scheduling
    features.py   … windows, groups and their sizes, Mamba layers, encoder inputs
    services.py   … KV connectors, streaming sessions, KV events
    beyond.py     defects of which the specification lacks something: tiers, workers, …
    elsewhere.py  … offloading, events of connectors, radix trees
    slips.py      what each mutant that stands for a defect changes
    specimens.py  those that take more than one of the systematic mutants
    page.py       ZOO.md
"""

from nullblock.spec.zoo.beyond import BEYOND
from nullblock.spec.zoo.elsewhere import ELSEWHERE
from nullblock.spec.zoo.entry import Entry
from nullblock.spec.zoo.features import FEATURES
from nullblock.spec.zoo.scheduler import SCHEDULER
from nullblock.spec.zoo.services import SERVICES

ZOO: tuple[Entry, ...] = tuple(
    sorted(
        (*SCHEDULER, *FEATURES, *SERVICES, *BEYOND, *ELSEWHERE),
        key=lambda e: int(e.id.removeprefix("B")),
    )
)
