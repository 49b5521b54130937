"""A worker beside a scheduler: where the two part."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from service import Service


def parts(seed: int, seen: Counter[str] | None = None, steps: int = 60) -> str:
    """What a worker does not know as the scheduler does, or what it refuses; empty: nothing.

    It hears of nothing but messages, and takes the tokens that it samples itself.
    """
    from nullblock.impl.workers import WorkerError

    service = Service(seed, steps)
    try:
        for number, what in enumerate(_differences(service)):
            if what:
                return f"seed {seed}, step {number}: {what}"
    except (WorkerError, ValueError, IndexError, KeyError) as error:
        return f"seed {seed}: {type(error).__name__}: {error}"
    if seen is not None:
        seen.update(service.seen)
    return ""


def _differences(service: Service) -> Iterator[str]:
    """Of each step, once the worker has heard of it."""
    from nullblock.impl.workers import Encoder, Mirror, digest, view_of_scheduler

    scheduler = service.scheduler
    encoder, mirror = Encoder(), Mirror(scheduler.config)
    service.reset = encoder.withdraw_all
    play = service.play()
    step = next(play, None)
    while step is not None:
        view = view_of_scheduler(scheduler)
        known = digest(view) if service.dice.random() < 0.1 else None
        work = mirror.apply(encoder.encode(step, service.about, known))
        yield ", ".join(mirror.view().differs_from(view))
        yield difference_in_work(work, step)
        yield difference_in_params(mirror.params, view.known, service.about)
        yield difference_in_input(mirror, view, step)
        sampled = service.answer(step)
        mirror.take(sampled)
        try:
            step = play.send(sampled)
        except StopIteration:
            return


def difference_in_work(work: Any, step: Any) -> str:
    """What a worker is to compute, beside what was decided."""
    mine = (work.rows, work.num_scheduled, work.num_computed, work.samples)
    theirs = (step.rows, step.num_scheduled_tokens, step.num_computed_tokens, step.samples)
    same = all(np.array_equal(*pair) for pair in zip(mine, theirs, strict=True))
    return (
        "" if same and work.num_common_prefix_blocks == step.num_common_prefix_blocks else "work"
    )


def difference_in_params(mine: dict[str, bytes], known: list[str], about: Any) -> str:
    """What the engine said of everybody known."""
    return "" if mine == {id: about[id] for id in known} else "params"


def difference_in_input(mirror: Any, view: Any, step: Any) -> str:
    """What the model reads, beside the same built anew from the scheduler, request by request."""
    from nullblock.impl.workers import model_input

    size = mirror.config.block_size
    if (view.num_blocks * size < view.num_computed).any():
        # In vLLM 0.22.1 of a request longer than max_model_len: there is no input.
        with pytest.raises(ValueError, match="no slots"):
            model_input(mirror)
        return ""
    made = model_input(mirror)
    ends = np.cumsum(view.num_tokens), np.cumsum(view.num_blocks)
    place_of = {id: place for place, id in enumerate(view.ids)}
    ids, positions, slots, starts = list[int](), list[int](), list[int](), [0]
    for i, id in enumerate(step.ids):
        place = place_of[id]
        tokens = view.tokens[ends[0][place] - view.num_tokens[place] :]
        blocks = view.blocks[ends[1][place] - view.num_blocks[place] :]
        first = int(step.num_computed_tokens[i])
        for position in range(first, first + int(step.num_scheduled_tokens[i])):
            ids.append(int(tokens[position]))
            positions.append(position)
            slots.append(int(blocks[position // size]) * size + position % size)
        starts.append(len(ids))
    same = (
        made.input_ids.tolist() == ids
        and made.positions.tolist() == positions
        and made.slot_mapping.tolist() == slots
        and made.query_start.tolist() == starts
        and made.logits.tolist() == [start - 1 for start in starts[1:]]
        and np.array_equal(made.seq_lens, step.num_computed_tokens + step.num_scheduled_tokens)
    )
    return "" if same else "model input"


def messages(seed: int, steps: int = 60) -> Iterator[tuple[Any, bytes, Any]]:
    """The mirror before each message, the message with a digest, and what the model says then.

    The mirror has applied the message when the next one is asked for.
    """
    from nullblock.impl.workers import Encoder, Mirror, digest, view_of_scheduler

    service = Service(seed, steps)
    encoder, mirror = Encoder(), Mirror(service.scheduler.config)
    service.reset = encoder.withdraw_all
    play = service.play()
    step = next(play, None)
    while step is not None:
        known = digest(view_of_scheduler(service.scheduler))
        message, sampled = encoder.encode(step, service.about, known), service.answer(step)
        yield mirror, message, sampled
        mirror.apply(message)
        mirror.take(sampled)
        try:
            step = play.send(sampled)
        except StopIteration:
            return
