"""One image, sound or video of a request: its place in the prompt, and by what it is known."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any


@dataclass(frozen=True)
class PlaceholderRange:
    """The tokens of the prompt that stand for an item: ``[offset, offset + length)``."""

    offset: int
    length: int
    is_embed: Any | None = None
    """By position in the range, whether an embedding goes there; None: everywhere.

    A sequence of booleans, or anything with a tensor's ``tolist``.
    """

    @cached_property
    def embeds_cumsum(self) -> list[int] | None:
        """Embeddings up to and including each position; None: every position is one."""
        if self.is_embed is None:
            return None
        mask = self.is_embed.tolist() if hasattr(self.is_embed, "tolist") else self.is_embed
        return list(accumulate(int(bool(position)) for position in mask))

    def get_num_embeds(self) -> int:
        """Embeddings that the encoder makes of the item."""
        if self.embeds_cumsum is None:
            return self.length
        return self.embeds_cumsum[-1] if self.embeds_cumsum else 0

    def extract_embeds_range(self) -> list[tuple[int, int]]:
        """The runs of embeddings in the prompt: first and last position of each."""
        sums = self.embeds_cumsum
        if sums is None:
            return [(self.offset, self.offset + self.length - 1)]
        runs: list[tuple[int, int]] = []
        for position, (before, after) in enumerate(pairwise((0, *sums)), start=self.offset):
            if after == before:
                continue
            if runs and runs[-1][1] == position - 1:
                runs[-1] = runs[-1][0], position
            else:
                runs.append((position, position))
        return runs

    def get_embeds_indices_in_range(self, start_idx: int, end_idx: int) -> tuple[int, int]:
        """Which of the item's embeddings belong to positions ``[start_idx, end_idx)`` of it."""
        sums = self.embeds_cumsum
        if sums is None:
            return start_idx, end_idx
        start = sums[start_idx - 1] if start_idx > 0 else 0
        end = sums[end_idx - 1] if end_idx > 0 else 0
        return start, end


@dataclass
class MultiModalFeatureSpec:
    """One item. Items of a request are sorted by their place in the prompt."""

    data: Any | None
    modality: str
    identifier: str
    """Equal identifiers, equal embeddings: what the encoder cache goes by."""
    mm_position: PlaceholderRange
    mm_hash: str | None = None
    """The same without the adapter, for whoever prepares the item."""
