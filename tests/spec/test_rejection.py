"""A reason is given exactly where LIFE-2 rejects a request, and that is exactly where a request
might never be served.
"""

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

from nullblock.spec.concrete import Env, initial
from nullblock.spec.facts import Config, Encoder, Group, Item, Request
from nullblock.spec.kernel import Broken, Disabled
from nullblock.spec.machine import events
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.rejection import why_unservable
from nullblock.spec.state import live, servable

sys.path.insert(0, str(Path(__file__).parent))
from world import arrive, new_state, step  # noqa: E402  (a module beside this one)

LENIENT = replace(NORMATIVE, reject_unservable=False)
RESETS = (None, *range(12))
PARTS = ((Group(1),), (Group(3),), (Group(0, 2),), (Group(0, 4),))
ITEMS = (
    (Item(1, 0, 1),),
    (Item(1, 0, 3),),
    (Item(1, 1, 4, (True, False, False, True)),),
    (Item(1, 0, 1), Item(2, 2, 3)),
)


def test_reason_iff_unservable() -> None:
    """LIFE-11 and the reason agree on every small configuration and request, both ways."""
    seen = set()
    for blocks, size, budget, chunked, threshold in product(
        (2, 3, 5), (1, 2), (2, 5), (True, False), (0, 2, 9)
    ):
        config = Config(
            blocks,
            size,
            budget,
            2,
            6,
            long_prefill_token_threshold=threshold,
            enable_chunked_prefill=chunked,
        )
        s = initial(Env(config))
        for prompt, output in product(range(8), range(1, 5)):
            s.k.requests["r"] = Request("r", prompt, output)
            reason = why_unservable(config, prompt, output)
            assert bool(servable(s, "r")) == (reason is None), (config, prompt, output, reason)
            seen.add(reason and reason.split()[0])
    assert None in seen and len(seen) > 3


def test_reason_iff_unservable_where_layers_see_a_part_of_the_past() -> None:
    """LIFE-11 and the reason agree there too, and a request may be longer than the pool."""
    seen: set[str | None] = set()
    is_longer = False
    for blocks, groups, drafts, ahead, scheduled, batched in product(
        (2, 3, 5, 7, 12),
        (*PARTS, *((Group(), *part) for part in PARTS), (Group(3), Group(0, 2))),
        (0, 2),
        (False, True),
        (1, 3),
        (None, 6),
    ):
        config = Config(
            *(blocks, 1, scheduled, 2, 9),
            async_scheduling=ahead,
            num_spec_tokens=drafts,
            spec_method="draft_model",
            groups=groups,
            max_num_batched_tokens=batched,
        )
        s = initial(Env(config))
        for prompt, output in product(range(1, 9), range(1, 4)):
            s.k.requests["r"] = Request("r", prompt, output)
            reason = why_unservable(config, prompt, output)
            assert bool(servable(s, "r")) == (reason is None), (config, prompt, output, reason)
            seen.add(reason and reason.split()[-3])
            is_longer |= reason is None and prompt >= blocks
    assert is_longer and seen == {None, "pool"}


def test_reason_iff_unservable_where_requests_have_encoder_inputs() -> None:
    """LIFE-11, ENC-16 and the reason agree: an item is too large for a step or for the cache, or
    must not be cut and is longer than any step.
    """
    seen = set()
    for budget, room, whole, scheduled, threshold in product(
        (1, 2, 3), (1, 2, 3), (True, False), (2, 3, 9), (0, 1, 3)
    ):
        config = Config(
            *(9, 1, scheduled, 2, 9),
            long_prefill_token_threshold=threshold,
            encoder=Encoder(budget, room, whole),
        )
        s = initial(Env(config))
        for items in ITEMS:
            s.k.requests["r"] = Request("r", 6, 1, items=items)
            reason = why_unservable(config, 6, 1, items)
            assert bool(servable(s, "r")) == (reason is None), (config, items, reason)
            seen.add(reason and reason.split(", ")[-1].split()[0])
    assert seen == {None, "and", "in"}


def test_who_is_accepted_is_served_where_layers_see_a_part_of_the_past() -> None:
    """LIFE-11, by trying, even where the cap reckons with more tokens than a step has."""
    longer = 0
    for blocks, group, scheduled, batched, reserve, output in product(
        (3, 5, 7), (Group(1), Group(3), Group(0, 4)), (1, 3), (None, 9), (True, False), (1, 4)
    ):
        config = Config(
            *(blocks, 1, scheduled, 2, 12),
            scheduler_reserve_full_isl=reserve,
            groups=(group,),
            max_num_batched_tokens=batched,
        )
        if why_unservable(config, 7, output) is None:
            longer += blocks <= 7
            assert all(served(config, 7, output, r) for r in (None, 1, 4)), (config, output)
    assert longer > 20


def served(config: Config, prompt: int, output: int, reset_after: int | None) -> bool:
    """Whether a lone request gets to its limit, preempted by a reset after so many steps."""
    s = new_state(replace(config, semantics=LENIENT))
    try:
        arrive(s, "a", prompt, output)
        for number in range(60):
            if not live(s, "a"):
                return True
            step(s)
            if number == reset_after:
                events.reset_prefix_cache(s, True)
    except (Disabled, Broken):
        return False
    return not live(s, "a")


def test_who_is_refused_could_starve_and_nobody_else() -> None:
    """LIFE-11, by trying: an accepted request that is alone is served to its limit, whenever it is
    preempted; one that is refused, for more than its prompt's length, is not, if it is preempted
    at the wrong time or even if it is not.
    """
    refused = accepted = 0
    for blocks, size, budget, length, threshold, chunked, reserve in product(
        (2, 4, 6), (1, 2), (2, 5), (4, 8), (0, 2), (True, False), (True, False)
    ):
        config = Config(
            *(blocks, size, budget, 2, length),
            long_prefill_token_threshold=threshold,
            enable_chunked_prefill=chunked,
            scheduler_reserve_full_isl=reserve,
        )
        for prompt, output in product((0, 1, 3, 4, 7, 9), (1, 4)):
            always = all(served(config, prompt, output, r) for r in RESETS)
            reason = why_unservable(config, prompt, output)
            if prompt >= length:
                # Refused for its length alone, as vLLM's front end does: some would be served.
                assert reason is not None
                continue
            assert (reason is None) == always, (config, prompt, output, reason)
            accepted, refused = accepted + always, refused + (not always)
    assert accepted > 500 and refused > 500
