"""What lines after 0.22.1 do besides, for the profiles that have it.

From 0.32.0 on each request counts its tokens of the steps in flight. When it is preempted they
become stale: their output is still delivered, but as no placeholder, and only then is the request
resumed; or, after a reset, it is dropped and the request may be resumed at once.
"""

from collections import deque
from collections.abc import Iterable

from nullblock.reference.request import Request
from nullblock.reference.sched.request_queue import RequestQueue


def take_off(requests: dict[str, Request], num_scheduled_tokens: dict[str, int]) -> None:
    """The tokens of a step are in flight."""
    for request_id, num_tokens in num_scheduled_tokens.items():
        requests[request_id].num_in_flight_tokens += num_tokens


def land(request: Request, num_tokens: int) -> bool:
    """A request's tokens of a step are in flight no longer; whether they were stale.

    The request may be a later owner of the id, whose numbers then go below zero.
    """
    request.num_in_flight_tokens -= num_tokens
    if request.num_stale_output_tokens <= 0:
        return False
    request.num_stale_output_tokens -= num_tokens
    assert request.num_stale_output_tokens >= 0, f"{request.request_id}: half a step is stale"
    return True


def outdate(request: Request, drop_stale_output: bool) -> None:
    """A request is preempted: what is in flight for it is stale, and stays dropped if it was."""
    is_dropping = request.drop_stale_output and request.num_stale_output_tokens > 0
    request.drop_stale_output = drop_stale_output or is_dropping
    request.num_stale_output_tokens = request.num_in_flight_tokens
    request.num_output_placeholders = 0


def set_aside(queue: RequestQueue, aside: deque[Request]) -> None:
    """Take requests that await stale output off the head of the queue."""
    while queue:
        request = queue.peek_request()
        if not request.num_stale_output_tokens or request.drop_stale_output:
            return
        aside.append(queue.pop_request())


def put_back(queue: RequestQueue, aside: Iterable[Request]) -> None:
    """Queue requests that were set aside where they stood: at the head, in their order."""
    for request in reversed(list(aside)):
        queue.prepend_request(request)
