"""Defects to plant in the kernels of batch, cache and sampling, and the test that notices each.

Attention and control have lists of their own, beside their tests.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from triton.runtime import KernelInterface

import nullblock.kernels
from nullblock.kernels.errors import Error

TESTS = Path(__file__).resolve().parents[1]
KERNELS = Path(nullblock.kernels.__file__).parent
CPU = torch.device("cpu")


class Defect(NamedTuple):
    """One text of a file for another, and who notices."""

    name: str
    file: str
    """From `kernels` on, without its suffix."""
    old: str
    new: str
    test: str
    """The file of tests, from `tests/kernels` on, and the test."""
    arguments: tuple[Any, ...] = ()
    """What it takes beside the device."""


@contextmanager
def planted(defect: Defect, folder: Path) -> Iterator[None]:
    """Inside, whoever launches or calls the kernels of a file gets the altered ones.

    Only in the interpreter, where a jit function is an object that says which text it runs.
    """
    text = (KERNELS / f"{defect.file}.py").read_text()
    assert text.count(defect.old) == 1, f"{defect.old!r} stands {text.count(defect.old)} times"
    path = folder / "altered.py"
    path.write_text(text.replace(defect.old, defect.new))
    altered = _loaded(f"altered_{defect.name.replace(' ', '_')}", path)
    original = import_module(f"nullblock.kernels.{defect.file.replace('/', '.')}")
    saved = []
    for name, function in vars(original).items():
        own = isinstance(function, KernelInterface) and function.fn.__module__ == original.__name__
        if own:
            saved.append((function, dict(vars(function))))
            vars(function).update(vars(getattr(altered, name)))
    try:
        yield
    finally:
        for function, values in saved:
            vars(function).update(values)


def run(defect: Defect) -> None:
    """The test that should notice."""
    file, name = defect.test.split("::")
    getattr(_tests(file), name)(CPU, *defect.arguments)


@cache
def _tests(file: str) -> ModuleType:
    path = TESTS / f"{file}.py"
    for folder in (TESTS, path.parent):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return _loaded(f"kernel_{path.stem}", path)


def _loaded(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


LENGTHS = "batch/test_prepare::test_more_requests_than_one_turn_takes"
PLACES = "batch/test_prepare::test_rows_may_be_named_by_64_bits"
GROWTH = "batch/test_update::test_rows_grow_as_lists_do"
MANY = "batch/test_update::test_more_rows_than_one_turn_takes"
VIEWS = "cache/test_write::test_head_major_caches_and_packed_sources"
STRANGE = "cache/test_write::test_a_slot_that_the_cache_does_not_have_is_left_out_and_said"
COUNTS = "cache/test_blocks::test_only_as_many_as_the_count_says"
PAIRS = "cache/test_blocks::test_more_pairs_than_one_turn_takes"
REFUSED = "cache/test_blocks::test_pairs_that_disturb_each_other_are_refused"
TIES = "sampling/test_greedy::test_ties_zeros_infinities_and_nan"
STOP = "sampling/test_stop::test_every_combination_stops_as_the_rule_says"
SWAP = ([(1, 2), (2, 1)], Error.ALIAS, [])
NULL = ([(0, 1)], Error.BLOCK, [])
NEGATIVE = ([-5.0, -5.0, -6.0, -5.0], 0, Error(0))

STRIDES = ("block_stride", "slot_stride")
AT_LAST = "cache_head_stride,\n    )  # fmt: skip\n    return"

BATCH = [
    Defect(
        "a place in the batch for a position",
        "index",
        "num_computed + (token - query_start)",
        "num_computed + token",
        PLACES,
    ),
    Defect(
        "a stale position", "index", "(token - query_start)", "(token - query_start) - 1", PLACES
    ),
    Defect(
        "offsets across blocks", "index", "return n % block_size", "return n // block_size", PLACES
    ),
    Defect(
        "the sum of a tile is lost", "batch/lengths", "total += tl.sum", "total = tl.sum", LENGTHS
    ),
    Defect(
        "lengths before the step", "batch/lengths", "computed + count, 0)", "computed, 0)", PLACES
    ),
    Defect("padding has a slot", "batch/slots", "tl.where(good, slot, PAD)", "slot", LENGTHS),
    Defect(
        "places for rows",
        "batch/slots",
        "row_entry(row, token_stride",
        "row_entry(place, token_stride",
        PLACES,
    ),
    Defect(
        "values go one further",
        "batch/append",
        "(replace, 0, held)",
        "(replace, 0, held + 1)",
        GROWTH,
        (1,),
    ),
    Defect(
        "nothing is replaced",
        "batch/append",
        "(replace, 0, held)",
        "(replace, held, held)",
        GROWTH,
        (1,),
    ),
    Defect(
        "sums begin anew", "batch/append", "ends = total + tl.cumsum", "ends = tl.cumsum", MANY
    ),
    Defect(
        "all begin with the first value",
        "batch/append",
        "nth = v - tl.load(",
        "nth = v + 0 * tl.load(",
        GROWTH,
        (1,),
    ),
    Defect(
        "owners are not waited for",
        "batch/append",
        "W)\n    tl.debug_barrier()\n    tl.store(starts",
        "W)\n    tl.store(starts",
        MANY,
    ),
]
CACHE = [
    Defect("one slot too many", "cache/write", "(slot < slots)", "(slot <= slots)", STRANGE),
    Defect(
        "one token too many", "cache/write", "mask=token < tokens", "mask=token <= tokens", VIEWS
    ),
    Defect(
        "blocks and slots change places",
        "cache/write",
        f"{STRIDES[0]}, {STRIDES[1]}, {AT_LAST}",
        f"{STRIDES[1]}, {STRIDES[0]}, {AT_LAST}",
        VIEWS,
    ),
    Defect(
        "tokens lie dense",
        "cache/write",
        "row_entry(token[:, None], source_stride",
        "row_entry(token[:, None], COLUMNS",
        VIEWS,
    ),
    Defect(
        "the null block is copied",
        "cache/blocks",
        "real = (source > 0)",
        "real = (source >= 0)",
        REFUSED,
        NULL,
    ),
    Defect(
        "one block too many",
        "cache/blocks",
        "there = (k < n) & (k < most)\n    block",
        "there = (k <= n) & (k < most)\n    block",
        COUNTS,
    ),
    Defect(
        "a pair too many",
        "cache/blocks",
        "(k < tl.load(num_pairs))",
        "(k <= tl.load(num_pairs))",
        COUNTS,
    ),
    Defect(
        "sources may be written",
        "cache/blocks",
        "alone & (tl.load(roles + source, mask=good, other=0) < WRITTEN)",
        "(target > 0)",
        REFUSED,
        SWAP,
    ),
    Defect(
        "writes are not waited for",
        "cache/blocks",
        "WRITTEN, mask=good)\n    tl.debug_barrier()\n",
        "WRITTEN, mask=good)\n",
        PAIRS,
    ),
    Defect(
        "roles stay",
        "cache/blocks",
        "        tl.store(roles + target, 0, mask=good)\n",
        "",
        COUNTS,
    ),
]
SAMPLING = [
    Defect(
        "the last of equals wins",
        "sampling/greedy",
        "(token ^ LOW).to(tl.int64)",
        "token.to(tl.int64)",
        TIES,
        NEGATIVE,
    ),
    Defect(
        "negative logits are reversed",
        "sampling/greedy",
        "bits ^ LOW, bits)",
        "bits, bits)",
        TIES,
        NEGATIVE,
    ),
    Defect(
        "what is behind the vocabulary counts",
        "sampling/greedy",
        "tl.where(inside, _packed(x, token), LEAST)",
        "_packed(x, token)",
        TIES,
        NEGATIVE,
    ),
    Defect(
        "a token before the limit",
        "sampling/stop",
        "at_limit = at + 1 >=",
        "at_limit = at + 2 >=",
        STOP,
        (True, 1),
    ),
    Defect(
        "min_tokens one short",
        "sampling/stop",
        "below = at + 1 <",
        "below = at + 2 <",
        STOP,
        (True, 1),
    ),
    Defect(
        "a token one further",
        "sampling/stop",
        "row_entry(row, token_stride, at)",
        "row_entry(row, token_stride, at + 1)",
        STOP,
        (True, 1),
    ),
]
DEFECTS = [*BATCH, *CACHE, *SAMPLING]
