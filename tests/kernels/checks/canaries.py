"""Tiny kernels, each with one defect that the interpreter hides; and their mended twins."""

import torch
import triton
import triton.language as tl


@triton.jit
def clean(x, out, total, n, WIDTH: tl.constexpr):
    """Nothing is wrong here: masks, a barrier between the phases, one atomic."""
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    mask = i < n
    value = tl.load(x + i, mask=mask, other=0)
    tl.store(out + i, value, mask=mask)
    tl.debug_barrier()
    back = tl.load(out + i, mask=mask, other=0)
    tl.atomic_add(total, tl.sum(back, 0))


@triton.jit
def shared_element(out):
    """Programs store different values to one element."""
    tl.store(out, tl.program_id(0))


@triton.jit
def neighbours_element(x, out, WIDTH: tl.constexpr):
    """A program reads what its neighbour writes."""
    p = tl.program_id(0)
    tl.store(out + p, tl.load(x + p))
    left = tl.load(out + tl.maximum(p - 1, 0))
    tl.store(x + WIDTH + p, left)


@triton.jit
def read_after_write(x, out, WIDTH: tl.constexpr, BARRIER: tl.constexpr):
    """A block is stored, loaded in another order, and stored again."""
    i = tl.arange(0, WIDTH)
    tl.store(out + i, tl.load(x + i))
    if BARRIER:
        tl.debug_barrier()
    back = tl.load(out + WIDTH - 1 - i)
    if BARRIER:
        tl.debug_barrier()
    tl.store(out + i, back)


@triton.jit
def one_barrier_too_many(x, out, WIDTH: tl.constexpr):
    """Nothing is shared across this barrier."""
    i = tl.arange(0, WIDTH)
    value = tl.load(x + i)
    tl.debug_barrier()
    tl.store(out + i, value)


@triton.jit
def _shift(x, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    value = tl.load(x + i)
    tl.store(x + (i + 1) % WIDTH, value)


@triton.jit
def write_after_read(x, WIDTH: tl.constexpr):
    """A lane overwrites what another lane reads, in a function that the kernel calls."""
    _shift(x, WIDTH)


@triton.jit
def same_lane(x, WIDTH: tl.constexpr):
    """Every lane overwrites what it has read itself: in order."""
    i = tl.arange(0, WIDTH)
    tl.store(x + i, tl.load(x + i) + 1)


@triton.jit
def scalar_counter(counter):
    """A scalar is read by all threads and overwritten by one."""
    tl.store(counter, tl.load(counter) + 1)


@triton.jit
def duplicate_store(out, same, WIDTH: tl.constexpr):
    """All lanes store to one element: what they store is the same only if ``same`` is."""
    i = tl.arange(0, WIDTH)
    tl.store(out + i * 0, tl.where(same != 0, 7, i))


@triton.jit
def beyond_the_end(x, out, n, WIDTH: tl.constexpr):
    """The mask admits one lane too many."""
    i = tl.arange(0, WIDTH)
    tl.store(out + i, tl.load(x + i, mask=i <= n, other=0), mask=i < n)


@triton.jit
def through_a_table(table, out, WIDTH: tl.constexpr):
    """Pointers come out of a table: nobody says which tensor they mean."""
    pointer = tl.load(table).to(tl.pointer_type(tl.int32))
    i = tl.arange(0, WIDTH)
    tl.store(out + i, tl.load(pointer + i))


@triton.jit
def product_wraps(x, out, block, stride):
    """A product passes 2**31 and wraps."""
    tl.store(out, tl.load(x + block * stride))


@triton.jit
def cast_loses(out, position):
    """A 64-bit number is cut to 32 bits."""
    tl.store(out, position.to(tl.int32))


@triton.jit
def counts_arrivals(counter, out):
    """Each program takes the place that the atomic gives it: first come, first served."""
    tl.store(out + tl.atomic_add(counter, 1), tl.program_id(0))


@triton.jit
def counts_lanes(counter, out, WIDTH: tl.constexpr):
    """The same among the lanes of one program."""
    i = tl.arange(0, WIDTH)
    tl.store(out + tl.atomic_add(counter + i * 0, 1), i)


@triton.jit
def sums_masked_lanes(x, out, n, WIDTH: tl.constexpr):
    """Lanes that are masked off are summed too; the interpreter gives 0 there."""
    i = tl.arange(0, WIDTH)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n), 0))


@triton.jit
def masked_scalar(x, out, n):
    """A scalar that is masked off, with an ``other`` of 0: the interpreter drops that."""
    tl.store(out, tl.load(x, mask=n > 0, other=0))


@triton.jit
def asserts(x, n):
    """An assertion of the kernel's own that does not hold."""
    tl.device_assert(tl.load(x) < n, "x must be below n")


@triton.jit
def says_so_twice(error):
    """Every program reports the same error: no conflict."""
    tl.store(error, 3)


@triton.jit
def probe_and_claim(slot, WIDTH: tl.constexpr):
    """A look at a slot, validated by the compare-and-swap that follows: meant to be so."""
    i = tl.arange(0, WIDTH)
    seen = tl.load(slot + i * 0, volatile=True)
    tl.atomic_cas(slot + i * 0, seen, i)


def ints(*values: int) -> torch.Tensor:
    """A tensor of 32-bit integers."""
    return torch.tensor(values, dtype=torch.int32)


def ramp(n: int) -> torch.Tensor:
    """The 32-bit integers from 1 to n."""
    return torch.arange(1, n + 1, dtype=torch.int32)


def zeros(n: int) -> torch.Tensor:
    """So many 32-bit zeros."""
    return torch.zeros(n, dtype=torch.int32)
