"""Encoder inputs as they are played: an item's mask, a prompt's embeddings, an encoder connector;
and what lines show of a scheduler's encoder inputs.
"""

import zlib
from typing import Any

Fields = dict[str, Any]


class Mask:
    """As much of a boolean tensor as placeholders look at."""

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def cumsum(self, dim: int) -> "Mask":
        """Partial sums."""
        return Mask([sum(self.values[: end + 1]) for end in range(len(self.values))])

    def tolist(self) -> list[int]:
        """Its values."""
        return self.values


class Embeds:
    """As much of a tensor of embeddings as hashes look at: four bytes a token."""

    def __init__(self, rows: list[bytes]) -> None:
        self.rows = rows

    @classmethod
    def of(cls, seed: int, num_tokens: int) -> "Embeds":
        """The embeddings of a prompt."""
        checksums = (zlib.crc32(f"{seed}:{i}".encode()) for i in range(num_tokens))
        return cls([checksum.to_bytes(4, "big") for checksum in checksums])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice) -> "Embeds":
        return Embeds(self.rows[rows])

    def _itself(self, *_: Any) -> "Embeds":
        return self

    flatten = cpu = contiguous = view = numpy = byte = new_empty = _itself
    dtype = None

    @property
    def data(self) -> memoryview:
        """The memory."""
        return memoryview(b"".join(self.rows))


class EncoderConnector:
    """An encoder connector with nothing behind it: it has what a scenario says, for ever.

    What vllm-0.32.0 asks besides, it answers as vLLM's own base class does.
    """

    def __init__(self, held: list[str]) -> None:
        self.held, self.asked = frozenset(held), list[list[Any]]()

    def has_cache_item(self, identifier: str) -> bool:
        """Whether an item need not be computed."""
        return identifier in self.held

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        """An item has room now, whether it is computed or loaded."""
        self.asked.append([request.request_id, index])

    def build_connector_meta(self, scheduler_output: Any) -> None:
        """Nothing to tell the workers."""

    def ensure_cache_available(self, request: Any, num_computed_tokens: int) -> bool:
        """Nothing is under way that a step had to wait for."""
        return True

    def take_unavailable_requests(self) -> set[str]:
        """Nothing is lost that it had."""
        return set()

    def update_state_after_free(self, request: Any, index: int) -> None:
        """A request has no more use for an item."""

    def request_finished(self, request: Any) -> tuple[bool, None]:
        """A request that ends need not keep its blocks, and has nothing to tell."""
        return False, None

    def has_pending_push_work(self) -> bool:
        """Nothing is sent that an engine had to go on for."""
        return False

    def get_ec_connector_stats(self) -> None:
        """Nothing is counted."""

    def shutdown(self) -> None:
        """Nothing is to be ended."""

    def take_asked(self) -> list[list[Any]]:
        """What was asked since the last call: request id and index of each item."""
        asked, self.asked = self.asked, []
        return asked


def decision(scheduler: Any, output: Any) -> Fields:
    """What a ``schedule`` line shows of encoder inputs."""
    fields = {
        "scheduled_encoder_inputs": {
            id: list(inputs) for id, inputs in output.scheduled_encoder_inputs.items()
        },
        "free_encoder_mm_hashes": list(output.free_encoder_mm_hashes),
    }
    connector = scheduler.ec_connector
    return fields if connector is None else fields | {"encoder_connector": connector.take_asked()}


def state(scheduler: Any) -> Fields:
    """What the ``state`` of a line shows of the encoder cache."""
    manager = scheduler.encoder_cache_manager
    if scheduler.is_encoder_decoder:
        shown = {
            "num_free_slots": manager.num_free_slots,
            "allocated": list(manager.allocated),
            "to_free": list(manager.to_free),
        }
    else:
        shown = {
            "num_free_slots": manager.num_free_slots,
            "num_freeable_slots": manager.num_freeable_slots,
            "cached": {key: sorted(holders) for key, holders in manager.cached.items()},
            "freeable": [list(entry) for entry in manager.freeable.items()],
            "freed": list(manager.freed),
        }
    return {"encoder_cache": shown}
