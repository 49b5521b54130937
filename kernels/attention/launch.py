"""Sizes of launches: pure functions of shapes, so that company changes no bit of a result.

What a request computes, and in which order it adds, follows from its own length, the model's
heads, the width of the block table and the device. None of it follows from the batch.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

PROCESSORS, SHARED_MEMORY = 132, 227 << 10
"""Of an H200, where there is no device to ask: multiprocessors, and bytes a program may have."""
LEAST_SPLIT = 128
"""Below this many tokens, starting a program costs more than the keys that it reads."""
MOST_SPLIT = 512
"""One program reads 256 KiB of 16-bit keys and values of 128 columns in that many tokens: enough
to hide how it starts."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How one program works."""

    rows: int
    """Query rows it holds."""
    keys: int
    """Tokens it takes at a time."""
    num_warps: int
    num_stages: int
    """Tiles of keys and values on their way at once."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What Triton has to know of a call before it compiles."""

    group: int
    """Query heads for each key/value head."""
    block_size: int
    head_size: int
    head_pad: int
    """The head size, rounded up to what a tile can be wide."""
    compute: tl.dtype
    """What products are made of; sums are float32."""

    @property
    def width(self) -> int:
        """Bytes of a row of a tile."""
        return self.head_pad * (4 if self.compute is tl.float32 else 2)


def compute_dtype(query: torch.dtype, cache: torch.dtype) -> tl.dtype:
    """The type of products: the query's, unless that would lose what the cache holds.

    Triton's interpreter cannot compute with bfloat16; there it is float32.
    """
    is_float8 = cache.itemsize == 1
    if query == torch.float32 or not (is_float8 or cache == query):
        return tl.float32
    if query == torch.bfloat16:
        return tl.float32 if triton.knobs.runtime.interpret else tl.bfloat16
    return tl.float16


def decode_tile(numbers: Numbers) -> Tile:
    """For one token a request: memory decides, so many loads are on their way.

    A matrix instruction takes 16 rows at least; those past the group are empty. Keys are 8 KiB, as
    are values: with four stages that is 54 KiB, and 120 registers, so that four programs share a
    processor of an H200 and keep 128 KiB on their way; its memory wants about 32 KiB a
    microsecond of latency. (Counted from what the compiler says; not measured.)
    """
    rows = max(16, triton.next_power_of_2(numbers.group))
    keys = max(16, min(64, 8192 // numbers.width))
    return Tile(rows, keys, num_warps=4 if rows <= 64 else 8, num_stages=4)


def prefill_tile(numbers: Numbers, shared_memory: int) -> Tile:
    """For chunks: matrix units decide, so rows are many.

    128 rows of 8 warps are two warp groups of 64, the shape of Hopper's matrix instruction; twice
    the keys would spill registers. A third stage, if ``shared_memory`` (bytes a program may have)
    holds it, gives loads a whole tile's time more. float32 has no matrix instruction that is
    exact; its tiles are what registers hold.
    """
    if numbers.compute is tl.float32:
        rows = max(32, triton.next_power_of_2(numbers.group))
        return Tile(rows, 16, num_warps=8, num_stages=2)
    keys = 64 if numbers.head_pad <= 128 else 32
    stage = 2 * keys * numbers.width
    rows = 128
    stages = 3 if rows * numbers.width + 3 * stage <= shared_memory else 2
    return Tile(rows, keys, num_warps=8, num_stages=stages)


def split_size(capacity: int, num_heads: int, num_kv_heads: int, num_processors: int) -> int:
    """Tokens of a split: how one request's keys are shared out among programs.

    ``capacity`` is the most tokens that any request may ever have here. A lone request of that
    length keeps every processor busy once, unless splits become too short to be worth starting:
    each writes a float32 row for each query head, which is to stay below a sixteenth of the
    16-bit keys and values that it reads.
    """
    wanted = -(-capacity * num_kv_heads // num_processors)
    least = max(LEAST_SPLIT, 32 * triton.next_power_of_2(num_heads // num_kv_heads))
    return int(max(least, min(MOST_SPLIT, triton.next_power_of_2(max(wanted, 1)))))


def num_splits(num_tokens: int, size: int) -> int:
    """How many splits hold so many tokens: at least one, which also says that there is none."""
    return max(1, -(-num_tokens // size))


def prefix_split_size(prefix: int, num_programs: int, num_processors: int, tile: Tile) -> int:
    """Tokens of a split of a common prefix of ``prefix`` tokens: whole tiles.

    ``num_programs`` is how many there are for each split. Together they are to occupy every
    processor about twice: few splits if the queries are many, so that partials stay few.
    """
    wanted = max(1, 2 * num_processors // num_programs)
    size = max(-(-prefix // wanted), MOST_SPLIT)
    return -(-size // tile.keys) * tile.keys


def processors(device: torch.device) -> int:
    """Multiprocessors of a device."""
    if device.type != "cuda":
        return PROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def shared_memory(device: torch.device) -> int:
    """Bytes of shared memory that one program may have."""
    if device.type != "cuda":
        return SHARED_MEMORY
    properties = torch.cuda.get_device_properties(device)
    # AMD's have no more than the ordinary limit.
    return int(getattr(properties, "shared_memory_per_block_optin", 64 << 10))
