"""Posting letters: what the host tells the device without touching its state."""

from typing import Any

from numpy.typing import NDArray

from nullblock.impl.requests import NO_EOS, Request
from nullblock.kernels.control import exchange
from nullblock.kernels.control.exchange import Mail
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import NO_EOS as NO_TOKEN

MOST_TOKEN = (1 << 31) - 2
"""The largest token id: one more still has to fit 32 bits."""
_MOST = (1 << 31) - 1
"""More tokens than any row holds."""


def check(request: Request) -> None:
    """Raise OverflowError for a request that says what a device's 32 bits do not hold."""
    tokens = [*request.stop, *((request.eos,) if request.eos != NO_EOS else ())]
    if len(request.tokens):
        tokens += [int(request.tokens.min()), int(request.tokens.max())]
    for token in tokens:
        if not 0 <= token <= MOST_TOKEN:
            raise OverflowError(f"token {token}: on a device they are 0 to {MOST_TOKEN}")
    if not -(1 << 63) <= request.priority < 1 << 63:
        raise OverflowError(f"priority {request.priority} has more than 64 bits")


class Postbox:
    """The host's end of the mailbox."""

    def __init__(self, mail: Mail, sizes: Sizes, posted: int = 0) -> None:
        self.posted = posted
        """Letters so far."""
        self._sizes = sizes
        # The very memory of the mailbox: an element costs much less this way.
        self._mail: dict[str, NDArray[Any]] = {
            name: column.numpy() for name, column in mail._asdict().items()
        }

    @property
    def size(self) -> int:
        """Letters that are kept."""
        return len(self._mail["kind"])

    def arrival(
        self, request: Request, row: int, tie: int, extra: tuple[int, int], takes_over: int | None
    ) -> None:
        """A request takes a row and waits.

        `extra`: the numbers of what its first block's content has besides tokens, and the
        others'. `takes_over`: the row of an earlier request whose token in flight it gets.
        """
        mail, at = self._mail, self._place
        prompt, stop = request.num_prompt_tokens, sorted(request.stop)
        mail["tokens"][at, :prompt] = request.tokens
        mail["num_prompt"][at] = prompt
        mail["limit"][at] = min(prompt + request.max_tokens, self._sizes.max_model_len, _MOST)
        mail["at_least"][at] = min(prompt + request.min_tokens, _MOST)
        mail["eos"][at] = NO_TOKEN if request.eos == NO_EOS else request.eos
        mail["stop_ids"][at, : len(stop)] = stop
        mail["num_stop"][at] = len(stop)
        mail["extra"][at] = extra
        mail["skip_reading_prefix_cache"][at] = request.skip_reading_prefix_cache
        mail["priority"][at] = request.priority
        mail["arrival"][at] = request.arrival_time
        mail["tie"][at] = tie
        mail["takes_over"][at] = exchange.NOBODY.value if takes_over is None else takes_over
        self._post(exchange.ARRIVAL.value, row)

    def end(self, row: int) -> None:
        """The request of a row ends."""
        self._post(exchange.END.value, row)

    def pause(self, state: int) -> None:
        """The pause state is another one."""
        self._post(exchange.PAUSING.value, state)

    @property
    def _place(self) -> int:
        return self.posted % self.size

    def _post(self, kind: int, row: int) -> None:
        """Everything else is written already: from now on a kernel may look."""
        self._mail["kind"][self._place] = kind
        self._mail["row"][self._place] = row
        self.posted += 1
        self._mail["posted"][0] = self.posted
