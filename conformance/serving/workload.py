"""A workload in a few numbers, or in words: the scenario that it comes to.

What is random is drawn from a seed, by Python's own generator, and is the same everywhere.
"""

import random
from dataclasses import dataclass
from typing import Any

CONFIG: dict[str, Any] = {
    "block_size": 4,
    "num_blocks": 32,
    "max_num_batched_tokens": 32,
    "max_num_seqs": 8,
}
"""What is not said otherwise: small enough that requests are chunked, preempted and resumed."""
MAX_STEPS = 10_000
"""In which everybody has to be served."""


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def draw(self, source: random.Random) -> int:
        """One of them."""
        return source.randint(self.low, self.high)


def parse_span(text: str) -> Span:
    """``5`` or ``5:20``. Raises ValueError."""
    low, colon, high = text.partition(":")
    span = Span(int(low), int(high if colon else low))
    if not 1 <= span.low <= span.high:
        raise ValueError(text)
    return span


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests that arrive over time."""

    texts: tuple[str, ...] = ()
    """Prompts as they stand, byte by byte; empty: drawn."""
    requests: int = 16
    prompt_tokens: Span = Span(4, 24)
    """Of each, behind the shared prefix."""
    output_tokens: Span = Span(4, 16)
    shared_prefix: int = 16
    """Tokens that the prompts of a family begin with; every second request is of a family."""
    families: int = 2
    every: int = 1
    """Steps between two arrivals; 0: all are there at once."""
    seed: int = 0
    vocab: int = 256

    def prompts(self) -> list[list[int]]:
        """One for each request."""
        if self.texts:
            return [list(text.encode()) for text in self.texts]
        source = random.Random(f"prompts {self.seed}")

        def drawn(n: int) -> list[int]:
            return [source.randrange(self.vocab) for _ in range(n)]

        heads = [drawn(self.shared_prefix) for _ in range(self.families)]
        return [
            (heads[source.randrange(self.families)] if number % 2 else [])
            + drawn(self.prompt_tokens.draw(source))
            for number in range(self.requests)
        ]

    def scenario(self, config: dict[str, Any]) -> dict[str, Any]:
        """The scenario: arrivals with steps between them, then steps to the end.

        `config` changes CONFIG; without max_model_len in it the longest request just fits.
        """
        source, events = random.Random(f"outputs {self.seed}"), list[dict[str, Any]]()
        longest = 2
        by_priority = config.get("policy") == "priority"
        for number, prompt in enumerate(self.prompts()):
            if number and self.every:
                events.append({"op": "step", "n": self.every})
            added: dict[str, Any] = {
                "op": "add",
                "id": f"r{number}",
                "prompt": prompt,
                "max_tokens": self.output_tokens.draw(source),
            }
            if by_priority:
                added["priority"] = source.randrange(3)
            events.append(added)
            longest = max(longest, len(prompt) + added["max_tokens"])
        events.append({"op": "run", "max_steps": MAX_STEPS})
        return {"config": {"max_model_len": longest, **CONFIG, **config}, "events": events}
