"""Serving: requests come in whenever they like, tokens come out as they are sampled."""

from collections.abc import Iterator
from dataclasses import dataclass

from nullblock.impl.decoder.worker import Worker
from nullblock.impl.protocol import Engine
from nullblock.impl.requests import Request
from nullblock.spec.fields import CONTINUE, LENGTH


@dataclass(frozen=True, slots=True)
class Token:
    """One token of one request."""

    id: str
    token: int
    finish: str | None
    """None: there will be more; "length" or "stop"."""


class Server:
    """A scheduler and a worker, one step after another. The worker is told steps, nothing else."""

    def __init__(self, scheduler: Engine, worker: Worker) -> None:
        self.scheduler, self.worker = scheduler, worker
        self.idle = False
        """Whether the last step changed nothing, so that the next one will not either."""

    def add(self, request: Request) -> None:
        """A request arrives. Raises ValueError where its id belongs to one that is alive."""
        self.scheduler.add_request(request)

    def step(self) -> list[Token]:
        """One step of everybody's; the tokens that it gave."""
        step = self.scheduler.schedule()
        self.idle = not (step.ids or step.preempted)
        outputs = self.scheduler.update_from_output(self.worker.execute(step))
        names = {CONTINUE: None, LENGTH: "length"}
        return [
            Token(id, token, names.get(why, "stop"))
            for id, token, why in zip(
                outputs.ids, outputs.tokens.tolist(), outputs.why.tolist(), strict=True
            )
        ]

    def run(self) -> Iterator[Token]:
        """Tokens until nobody waits for any; others may be added meanwhile.

        Raises RuntimeError when those who are left are never served: the pool, the budget or the
        length that the model may have is too small for them.
        """
        while self.scheduler.num_unfinished():
            yield from self.step()
            if self.idle:
                left = ", ".join(map(repr, self.scheduler.requests))
                raise RuntimeError(f"nobody can be served: {left}")
