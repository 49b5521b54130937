"""Whose row is whose: what the host knows of the requests on the device.

A request has a row from its arrival until a step has told, and the host has read, that it ended:
until then what the device says of the row can be about nobody else.
"""

from nullblock.impl.requests import Request


class Rows:
    """The rows of the device, and the requests in them."""

    def __init__(self, num_rows: int) -> None:
        self._requests: list[Request | None] = [None] * num_rows
        self._free = list(range(num_rows - 1, -1, -1))
        self._row: dict[Request, int] = {}

    def __len__(self) -> int:
        """Rows, taken or not."""
        return len(self._requests)

    @property
    def num_free(self) -> int:
        """Rows that nobody has."""
        return len(self._free)

    def add(self, n: int) -> None:
        """So many rows more."""
        have = len(self)
        self._requests += [None] * n
        self._free[:0] = range(have + n - 1, have - 1, -1)

    def take(self, request: Request) -> int:
        """Give a request a row; there has to be one."""
        row = self._free.pop()
        self._requests[row] = request
        self._row[request] = row
        return row

    def give_back(self, row: int) -> None:
        """Nobody speaks of the request in this row any more."""
        del self._row[self[row]]
        self._requests[row] = None
        self._free.append(row)

    def __getitem__(self, row: int) -> Request:
        """The request in a row."""
        request = self._requests[row]
        assert request is not None, f"row {row} is nobody's"
        return request

    def of(self, request: Request) -> int:
        """The row of a request."""
        return self._row[request]
