"""Claims about arithmetic alone: in bounds, one place for each thing, and the bits it takes."""

import z3  # type: ignore[import-untyped]

from nullblock.conformance.index_proofs.claim import Arithmetic, Claim, Problem
from nullblock.conformance.index_proofs.numbers import Term

LIMIT = 1 << 28
"""Blocks, tokens of a request and rows are fewer each (`Sizes` refuses more)."""


def below(n: Term, bound: Term) -> Term:
    """From 0 on, and below a bound."""
    return z3.And(0 <= n, n < bound)


def slot_in_pool(a: Arithmetic) -> Problem:
    block, position, size, blocks = z3.Ints("block position block_size num_blocks")
    slot = a.slot_index(block, a.block_offset(position, size), size)
    return Problem(
        {
            "the block is one of the pool's": below(block, blocks),
            "a block has room for a token": size > 0,
            "positions are not negative": position >= 0,
        },
        z3.And(below(slot, blocks * size), a.trail.divides_alike()),
        ("the block is one of the pool's", "positions are not negative"),
        # A product of what is not negative is not: Z3 need not search for that.
        (z3.Implies(z3.And(blocks - block - 1 >= 0, size > 0), (blocks - block - 1) * size >= 0),),
    )


def slot_tells_its_place(a: Arithmetic) -> Problem:
    block, offset, size = z3.Ints("block offset block_size")
    slot = a.slot_index(block, offset, size)
    found = z3.And(a.block_index(slot, size) == block, a.block_offset(slot, size) == offset)
    return Problem(
        {"the offset lies in the block": below(offset, size), "a block": block >= 0},
        found,
        ("the offset lies in the block",),
    )


def entry_in_matrix(a: Arithmetic) -> Problem:
    row, rows, stride, column = z3.Ints("row rows stride column")
    entry = a.row_entry(row, stride, column)
    return Problem(
        {"the row is there": below(row, rows), "the column is there": below(column, stride)},
        below(entry, rows * stride),
        ("the row is there", "the column is there"),
        (z3.Implies(z3.And(rows - row - 1 >= 0, stride > 0), (rows - row - 1) * stride >= 0),),
    )


def entries_differ(a: Arithmetic) -> Problem:
    row, column, other_row, other_column, stride = z3.Ints(
        "row column other_row other_column stride"
    )
    entry = a.row_entry(row, stride, column)
    other = a.row_entry(other_row, stride, other_column)
    return Problem(
        {
            "the column is there": below(column, stride),
            "the other column is there": below(other_column, stride),
            "they are two": z3.Or(row != other_row, column != other_column),
        },
        entry != other,
        ("the column is there", "the other column is there", "they are two"),
    )


def token_major(a: Arithmetic) -> Problem:
    block, offset, head, column, size, heads, width = z3.Ints(
        "block offset head column block_size heads head_size"
    )
    strides = (size * heads * width, heads * width, width)
    entry = a.cache_entry(block, offset, head, column, *strides)
    nested = a.row_entry(a.row_entry(a.row_entry(block, size, offset), heads, head), width, column)
    return Problem({}, entry == nested, ())


def head_major(a: Arithmetic) -> Problem:
    block, offset, head, column, size, heads, width = z3.Ints(
        "block offset head column block_size heads head_size"
    )
    strides = (heads * size * width, width, size * width)
    entry = a.cache_entry(block, offset, head, column, *strides)
    nested = a.row_entry(a.row_entry(a.row_entry(block, heads, head), size, offset), width, column)
    return Problem({}, entry == nested, ())


def heads_in_rows(a: Arithmetic) -> Problem:
    token, head, heads, width = z3.Ints("token head heads head_size")
    begins = a.head_entry(token, head, heads * width, width)
    return Problem({}, begins == a.row_entry(a.row_entry(token, heads, head), width, 0), ())


def tiles_are_of_one_request(a: Arithmetic) -> Problem:
    start, count, request, later_start, later, tile, width = z3.Ints(
        "query_start num_tokens request later_query_start later_request tile width"
    )
    own, others = a.first_tile(start, request, width), a.first_tile(later_start, later, width)
    apart = a.trail.divide(later_start, width)[0] - a.trail.divide(start, width)[0] - tile
    return Problem(
        {
            "the tile has a token": z3.And(tile >= 0, tile * width < count),
            "tokens of one request follow those of another": z3.And(
                request < later, start + count <= later_start
            ),
            "tokens are counted from 0": start >= 0,
            "a tile has room": width > 0,
        },
        z3.And(own + tile < others, a.trail.divides_alike()),
        ("the tile has a token", "tokens of one request follow those of another"),
        (z3.Implies(z3.And(width > 0, apart <= -1), apart * width <= -width),),
        (width == 2, below(start, 9), below(later_start, 9)),
    )


def ring_places_differ(a: Arithmetic) -> Problem:
    one, other, head, tail, capacity = z3.Ints("position other_position head tail capacity")
    places = a.ring_place(one, capacity), a.ring_place(other, capacity)
    apart = z3.And(places[0] != places[1], below(places[0], capacity))
    return Problem(
        {
            "both are in the queue": z3.And(head <= one, one < tail, head <= other, other < tail),
            "the queue is no longer than the ring": tail - head <= capacity,
            "positions are not negative": head >= 0,
            "they are two": one != other,
            "the ring has room": capacity > 0,
        },
        z3.And(apart, a.trail.divides_alike()),
        ("the queue is no longer than the ring", "positions are not negative", "they are two"),
    )


def ranks_rise(a: Arithmetic) -> Problem:
    rank = z3.Function("rank", z3.IntSort(), z3.IntSort())
    chosen = z3.Function("chosen", z3.IntSort(), z3.IntSort())
    lane, later, total, lanes = z3.Ints("lane later_lane total lanes")
    # By induction over the lanes: from one lane to the next, and so from any to any later one.
    step = z3.And(rank(later + 1) == rank(later) + chosen(later), below(chosen(later), 2))
    behind = rank(lane) + chosen(lane) <= rank(later)
    return Problem(
        {
            "a prefix sum of zeros and ones": step,
            "up to the lane before": z3.And(lane < later, behind),
            "the lane is chosen": chosen(lane) == 1,
            "ranks before the end": z3.And(rank(later + 1) <= total, 0 <= rank(lane)),
        },
        z3.And(
            rank(lane) + chosen(lane) <= rank(later + 1),
            rank(lane) < rank(later),
            z3.Implies(chosen(later) == 1, below(rank(later), total)),
        ),
        ("a prefix sum of zeros and ones", "up to the lane before", "the lane is chosen"),
    )


def tiles_cover(a: Arithmetic) -> Problem:
    thing, width, tile, lane = z3.Ints("thing width tile lane")
    quotient, rest = a.trail.divide(thing, width)
    there = z3.And(a.tile_entry(quotient, width, rest) == thing, below(rest, width))
    once = z3.Implies(
        z3.And(a.tile_entry(tile, width, lane) == thing, below(lane, width)),
        z3.And(tile == quotient, lane == rest),
    )
    return Problem(
        {"a tile has lanes": width > 0, "things are counted from 0": thing >= 0},
        z3.And(there, once, quotient >= 0),
        ("things are counted from 0",),
    )


def table_has_column(a: Arithmetic) -> Problem:
    position, tokens, size = z3.Ints("position num_tokens block_size")
    column = a.block_index(position, size)
    return Problem(
        {"the position is a token's": below(position, tokens), "a block has room": size > 0},
        z3.And(below(column, a.blocks_for(tokens, size)), a.trail.divides_alike()),
        ("the position is a token's",),
    )


def counts_fit(a: Arithmetic) -> Problem:
    tokens, size, position, tile, width, lane, things = z3.Ints(
        "num_tokens block_size position tile width lane things"
    )
    for expression in (a.block_index, a.block_offset, a.blocks_for):
        expression(tokens, size)
    a.tile_entry(tile, width, lane)
    return Problem(
        {
            "sizes are below the limit": z3.And(
                below(tokens, LIMIT), 0 < size, size < LIMIT, below(things, LIMIT)
            ),
            "the last tile begins within the things": z3.And(
                tile >= 0, below(lane, width), 0 < width, width <= 1 << 20, tile * width < LIMIT
            ),
        },
        a.trail.fits(32),
        ("sizes are below the limit", "the last tile begins within the things"),
    )


def offsets_fit_64(a: Arithmetic) -> Problem:
    row, stride, column = z3.Ints("row stride column")
    a.row_entry(row, stride, column)
    a.slot_index(row, column, stride)
    return Problem(
        {"sizes are below the limit": z3.And(*[below(n, LIMIT) for n in (row, stride, column)])},
        a.trail.fits(64),
        ("sizes are below the limit",),
        (z3.Implies(z3.And(*[below(n, LIMIT) for n in (row, stride)]), row * stride <= 1 << 56),),
    )


def offsets_need_64(a: Arithmetic) -> Problem:
    row, rows, stride, column = z3.Ints("row rows stride column")
    a.row_entry(row, stride, column)
    return Problem(
        {
            "row and column are there": z3.And(below(row, rows), below(column, stride)),
            "there are at most 2**31 entries": rows * stride <= 1 << 31,
        },
        a.trail.fits(32),
        ("there are at most 2**31 entries",),
        (z3.Implies(z3.And(rows - row - 1 >= 0, stride > 0), (rows - row - 1) * stride >= 0),),
    )


CLAIMS = (
    Claim("slot-in-pool", "A slot is one of the pool's.", slot_in_pool),
    Claim(
        "slot-tells-its-place",
        "From a slot follow the block and the offset that it was made of, and so no two places of"
        " the pool have one slot.",
        slot_tells_its_place,
    ),
    Claim("entry-in-matrix", "An entry of a matrix lies within it.", entry_in_matrix),
    Claim("entries-differ", "Two entries of a matrix never coincide.", entries_differ),
    Claim(
        "token-major",
        "A token-major cache is a matrix of matrices: what holds of entries holds of it.",
        token_major,
    ),
    Claim("head-major", "So is a head-major cache.", head_major),
    Claim("heads-in-rows", "Heads of tokens are rows of a matrix.", heads_in_rows),
    Claim(
        "tiles-are-of-one-request",
        "No tile that has a token of one request is another request's.",
        tiles_are_of_one_request,
    ),
    Claim(
        "ring-places-differ",
        "Positions of a queue that is no longer than its ring have places of their own.",
        ring_places_differ,
    ),
    Claim(
        "ranks-rise",
        "Lanes that a prefix sum ranks have ranks of their own, below their number.",
        ranks_rise,
    ),
    Claim("tiles-cover", "Tiles visit each thing once.", tiles_cover),
    Claim(
        "table-has-column",
        "The column of a token lies in a table that has as many blocks as its tokens need.",
        table_has_column,
    ),
    Claim("counts-fit", "Blocks, offsets, counts of blocks and tiles fit 32 bits.", counts_fit),
    Claim("offsets-fit-64", "Entries and slots fit 64 bits.", offsets_fit_64),
    Claim(
        "offsets-need-64",
        "Entries fit 32 bits only as long as the matrix has no more than 2**31 of them.",
        offsets_need_64,
    ),
)
