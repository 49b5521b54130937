"""A reason is given exactly where LIFE-2 rejects a request."""

from itertools import product

from nullblock.spec.concrete import Env, initial
from nullblock.spec.facts import Config, Request
from nullblock.spec.rejection import why_unservable
from nullblock.spec.state import servable


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
