"""The memory that a launch may touch: its tensors, what was written, and how to undo it.

Memory is seen by address, as a kernel sees it. Tensors that share a storage share a region, so
that two views of one buffer conflict as they would on a device; bounds are each tensor's own.
"""

import ctypes
import mmap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
SLOTS = 10
"""Accesses that are kept for each element, as (operation, lane): see `races`."""


@dataclass(slots=True)
class Region:
    """One storage."""

    base: int
    nbytes: int
    granule: int
    """Bytes of the smallest element that a tensor has in it: what conflicts are told apart by."""
    shadow: NDArray[np.int32] = field(init=False)
    """``[elements, SLOTS, 2]``; takes memory only where it is touched."""
    undo: list[tuple[int, Ints, NDArray[Any]]] = field(default_factory=list)
    """What each write replaced: (bytes of an element, places, values)."""
    _bytes: Any = field(init=False)
    _views: dict[int, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bytes = (ctypes.c_uint8 * self.nbytes).from_address(self.base)
        self.clear_shadow()

    def clear_shadow(self) -> None:
        """Forget who touched what."""
        rows = -(-self.nbytes // self.granule)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        pages = mmap.mmap(-1, max(1, rows) * SLOTS * 8, flags=flags)
        self.shadow = np.frombuffer(pages, np.int32)[: rows * SLOTS * 2].reshape(rows, SLOTS, 2)

    def view(self, size: int) -> NDArray[Any]:
        """The storage as unsigned integers of so many bytes."""
        if size not in self._views:
            whole = np.frombuffer(self._bytes, np.uint8)[: self.nbytes // size * size]
            self._views[size] = whole.view(f"u{size}")
        return self._views[size]

    def save(self, addresses: Ints, size: int) -> NDArray[Any]:
        """Remember what stands there before it is written, and give it back."""
        places = (addresses - self.base) // size
        values = self.view(size)[places]
        self.undo.append((size, places, values))
        return values

    def roll_back(self) -> None:
        """Undo every write since the last time."""
        for size, places, values in reversed(self.undo):
            # Of several lanes at one place the first to be saved saw the oldest value; all saw it.
            self.view(size)[places] = values
        self.undo.clear()

    def written(self) -> Ints:
        """Which granules were written, in order."""
        parts = [
            (places[:, None] * size + np.arange(0, max(size, self.granule), self.granule)).ravel()
            // self.granule
            for size, places, _ in self.undo
        ]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Extent:
    """One tensor as a kernel's argument: which addresses are its own."""

    name: str
    low: int
    high: int
    size: int
    """Bytes of an element."""
    region: Region


class Memory:
    """The tensors of one launch."""

    def __init__(self) -> None:
        self.extents: list[Extent] = []
        self.regions: dict[int, Region] = {}

    def add(self, name: str, tensor: Any) -> Extent:
        """Make a tensor known, and say where it lies. Raises ValueError for one on a device."""
        if tensor.device.type != "cpu":
            raise ValueError(
                f"checked(): {name} is on {tensor.device}; give it tensors on the CPU"
            )
        storage, size = tensor.untyped_storage(), tensor.element_size()
        region = self.regions.get(storage.data_ptr())
        if region is None and storage.nbytes():
            region = Region(storage.data_ptr(), storage.nbytes(), size)
            self.regions[storage.data_ptr()] = region
        elif region is not None and size < region.granule:
            region.granule = size
            region.clear_shadow()
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
        low = tensor.data_ptr()
        high = low + (last + 1) * size if tensor.numel() else low
        extent = Extent(name, low, high, size, region or Region(low, 0, size))
        self.extents.append(extent)
        return extent

    def owner(self, address: int) -> Extent | None:
        """The tensor that an address belongs to, whoever computed it."""
        return next((e for e in self.extents if e.low <= address < e.high), None)
