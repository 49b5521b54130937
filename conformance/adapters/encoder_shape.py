"""Encoder inputs in vLLM's shape: a model's processors, a request's items, what lines show."""

import zlib
from types import SimpleNamespace
from typing import Any

from nullblock.conformance.encoder_format import Encoder, Item
from nullblock.conformance.engine import Fields

MODALITY = "image"


def settings(encoder: Encoder, max_num_batched_tokens: int) -> Fields:
    """The fields of vLLM's ``scheduler_config`` that speak of an encoder."""
    compute, kept = encoder.max_num_encoder_input_tokens, encoder.encoder_cache_size
    return {
        "max_num_encoder_input_tokens": max_num_batched_tokens if compute is None else compute,
        "encoder_cache_size": max_num_batched_tokens if kept is None else kept,
        "disable_chunked_mm_input": encoder.disable_chunked_mm_input,
    }


def registry(encoder: Encoder) -> SimpleNamespace:
    """A model's processors: they know of one modality how large its items are."""
    info = SimpleNamespace(
        supported_mm_limits={MODALITY: None},
        allowed_mm_limits={MODALITY: 1},
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {
            MODALITY: encoder.max_tokens_per_item
        },
    )
    return SimpleNamespace(
        supports_multimodal_inputs=lambda model_config: True,
        processor_only_cache_from_config=lambda vllm_config: None,
        create_processor=lambda model_config, cache: SimpleNamespace(info=info),
    )


def features(inputs: Any, items: list[Item]) -> list[Any]:
    """A request's encoder inputs; ``inputs`` is the module with their classes."""
    return [
        inputs.MultiModalFeatureSpec(
            data=None,
            modality=MODALITY,
            identifier=item.hash,
            mm_position=inputs.PlaceholderRange(
                item.offset, item.length, None if item.is_embed is None else Mask(item.is_embed)
            ),
        )
        for item in items
    ]


class Mask:
    """As much of a boolean tensor as placeholders look at."""

    def __init__(self, values: list[bool]) -> None:
        self.values = values

    def cumsum(self, dim: int) -> "Mask":
        """Partial sums."""
        sums = [sum(self.values[: end + 1]) for end in range(len(self.values))]
        return Mask(sums)  # type: ignore[arg-type]  # whole numbers, as of a tensor of booleans

    def tolist(self) -> list[bool]:
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
    """An encoder connector with nothing behind it: it has what a scenario says, for ever."""

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
