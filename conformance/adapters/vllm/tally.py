"""Who has filled blocks, and how many, told from how many tokens each was passed on.

That is asked of hundreds of requests at once: what each has behind its last full block is a byte
of one long number, to which the tokens passed on are added in one go.
"""

from functools import lru_cache
from itertools import compress

from nullblock.conformance.adapters.vllm.filling import Filling
from nullblock.conformance.adapters.vllm.seen import Many
from nullblock.conformance.adapters.vllm.step import Step

LARGEST = 128
"""Of block sizes that there is a tally for: as many tokens more fit into a byte."""


def fits(block_size: int) -> bool:
    """Whether there is a tally for blocks of that many tokens."""
    return block_size <= LARGEST and block_size & (block_size - 1) == 0


class Tally:
    """Of the requests of a step, what each has behind its last full block, in bytes."""

    def __init__(self, block_size: int) -> None:
        """``block_size``: tokens, a size that fits."""
        self._size, self._bits = block_size, block_size.bit_length() - 1
        self._large = bytes(range(256 - block_size + 1))
        """Numbers of tokens that leave a byte with any rest a byte."""
        self._fillings: list[Filling] = []
        self._rest = b""

    def took(self, step: Step, tokens: Many) -> tuple[list[int], bytes]:
        """The requests of a step were passed on so many tokens each: the places of those that
        have filled blocks, and of everybody how many.
        """
        self._turn_to(step)
        many = len(self._rest)
        if isinstance(tokens, list) or tokens.translate(None, self._large):
            whole = [divmod(n + m, self._size) for n, m in zip(self._rest, tokens, strict=True)]
            self._rest = bytes([rest for _, rest in whole])
            filled = bytes([min(blocks, 255) for blocks, _ in whole])
        else:
            total = int.from_bytes(self._rest, "little") + int.from_bytes(tokens, "little")
            rest = total & _every(self._size - 1, many)
            self._rest = rest.to_bytes(many, "little")
            filled = ((total ^ rest) >> self._bits).to_bytes(many, "little")
        return list(compress(range(many), filled)), filled

    def _turn_to(self, step: Step) -> None:
        """Know the rests of the requests of a step."""
        fillings, before = step.fillings, self._fillings
        if fillings is before:
            return
        if step.base is before:
            rest = bytearray(self._rest)
            for place in reversed(step.gone):
                before[place].rest = rest[place]
                del rest[place]
            rest += bytes([filling.rest for filling in fillings[len(rest) :]])
            self._rest = bytes(rest)
        else:
            for filling, n in zip(before, self._rest, strict=True):
                filling.rest = n
            self._rest = bytes([filling.rest for filling in fillings])
        self._fillings = fillings


@lru_cache(64)
def _every(byte: int, many: int) -> int:
    """The number with ``byte`` in each of so many bytes."""
    return int.from_bytes(bytes([byte]) * many, "little")
