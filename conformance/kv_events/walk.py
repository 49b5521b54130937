"""Where a MessagePack value ends, found without building it.

A decoder that is given a whole value has nothing left to fear: every length in it is within the
bytes that are there, and it is nested no deeper than :data:`MAX_DEPTH`.
"""

from nullblock.conformance.kv_events.errors import Damaged

MAX_DEPTH = 32
"""Arrays and maps that may stand inside one another."""
_REMEDY = "write each batch as vLLM publishes it (conformance/kv_events/FORMAT.md)"


class Short(Exception):
    """The value goes on after the bytes that are there."""


def _fixed_sizes() -> list[int]:
    """By first byte, the bytes of a value whose first byte says it all; 0 for the others."""
    sizes = [1] * 0x80 + [0] * 0x20 + [1 + n for n in range(32)] + [0] * 0x20 + [1] * 0x20
    for byte, size in (
        *((0xC0, 1), (0xC2, 1), (0xC3, 1), (0xCA, 5), (0xCB, 9)),
        *((0xCC, 2), (0xCD, 3), (0xCE, 5), (0xCF, 9)),
        *((0xD0, 2), (0xD1, 3), (0xD2, 5), (0xD3, 9)),
        *((0xD4, 3), (0xD5, 4), (0xD6, 6), (0xD7, 10), (0xD8, 18)),
    ):
        sizes[byte] = size
    return sizes


_FIXED = _fixed_sizes()
_LENGTH_BYTES = {
    **{0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4},
    **{0xC7: 1, 0xC8: 2, 0xC9: 4},
    **{0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4},
}
_EXTENSIONS = (0xC7, 0xC8, 0xC9)


def end_of(data: bytes | bytearray, start: int) -> int:
    """Where the value that begins at ``start`` ends.

    Raises :class:`Short` where it goes on after the data, :class:`Damaged` where there is none;
    the place of the error is to be filled in.
    """
    position, todo, outer = start, 1, list[int]()
    while True:
        try:
            # Most of a stream is token ids.
            while todo and (size := _FIXED[data[position]]):
                position += size
                todo -= 1
            if not todo:
                if not outer:
                    break
                todo = outer.pop()
                continue
            first = data[position]
        except IndexError:
            raise Short from None
        todo -= 1
        position, inner = _enter(data, position, first)
        if inner:
            if len(outer) == MAX_DEPTH:
                raise Damaged("nested too deeply", _REMEDY)
            outer.append(todo)
            todo = inner
    if position > len(data):
        raise Short
    return position


def _enter(data: bytes | bytearray, position: int, first: int) -> tuple[int, int]:
    """Behind the head of an array or a map, or behind a string; and how many values follow."""
    if 0x80 <= first < 0xA0:
        return position + 1, first - 0x90 if first >= 0x90 else 2 * (first - 0x80)
    width = _LENGTH_BYTES.get(first)
    if width is None:
        raise Damaged(f"0x{first:02x} begins no MessagePack value", _REMEDY)
    head = data[position + 1 : position + 1 + width]
    if len(head) < width:
        raise Short
    length = int.from_bytes(head, "big")
    behind = position + 1 + width
    if first >= 0xDC:
        return behind, length * (1 if first <= 0xDD else 2)
    return behind + length + (first in _EXTENSIONS), 0
