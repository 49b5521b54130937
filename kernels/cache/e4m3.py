"""Float8 e4m3 (OCP, finite only), rounded in integers: the same bits on every back end.

Hardware that has a conversion instruction, hardware that has none (or another e4m3), and Triton's
interpreter, whose own conversion does not round to nearest, would each round in their own way.

**Criterion**: the nearest representable value, ties to the even mantissa; what lies beyond
448 becomes 448 with its sign, infinities too; NaN stays NaN (``0x7f`` with the sign bit as it
was). Compared bit by bit with ``torch.Tensor.to(torch.float8_e4m3fn)`` after a clamp.
"""

import torch
import triton
import triton.language as tl

LARGEST = 448.0
"""The largest finite value; torch.finfo(torch.float8_e4m3fn).max."""

# Of float32: the bits of 448, of the smallest normal e4m3 (2**-6), of infinity.
MOST_BITS: tl.constexpr = tl.constexpr(0x43E00000)
NORMAL_BITS: tl.constexpr = tl.constexpr(0x3C800000)
INFINITY_BITS: tl.constexpr = tl.constexpr(0x7F800000)
# Adding 2**14 leaves multiples of 2**-9, the smallest subnormal e4m3, in the mantissa.
SHIFT: tl.constexpr = tl.constexpr(16384.0)
SHIFT_BITS: tl.constexpr = tl.constexpr(0x46800000)


@triton.jit
def e4m3_bits(x):
    """The bits, as int32, of a float32 rounded to e4m3."""
    bits = x.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    size = bits & 0x7FFFFFFF
    low = tl.minimum(size, MOST_BITS)
    # Drop 20 of 23 mantissa bits, to nearest even, and change the bias from 127 to 7.
    normal = ((low + 0x7FFFF + ((low >> 20) & 1)) >> 20) - (120 << 3)
    small = (low.to(tl.float32, bitcast=True) + SHIFT).to(tl.int32, bitcast=True) - SHIFT_BITS
    rounded = tl.where(low < NORMAL_BITS, small, normal)
    return sign | tl.where(size > INFINITY_BITS, 0x7F, rounded)


def e4m3_bits_torch(x: torch.Tensor) -> torch.Tensor:
    """The bits, as uint8, of a float32 rounded to e4m3: torch's conversion, after a clamp."""
    return x.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).view(torch.uint8)
