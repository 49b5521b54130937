"""The scheduler on the device beside the NumPy engine: a figure of one that decides otherwise
would mean nothing."""

import random

import numpy as np

from nullblock.impl import Request, Scheduler, update_from_output
from nullblock.impl.device.scheduler import Scheduler as Resident
from nullblock.impl.step import Outputs, Step
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE

EOS, VOCAB, BLOCK_SIZE = 1, 100, 4


def compare(device: str, steps: int, seed: int = 0) -> int:
    """Play random requests on both: few blocks, so that some are preempted, and shared prefixes.

    Returns how many were preempted; raises RuntimeError at the first decision that differs.
    """
    config = Config(
        num_blocks=30, block_size=BLOCK_SIZE, max_num_scheduled_tokens=64, max_num_seqs=16,
        max_model_len=64, semantics=NORMATIVE,
    )  # fmt: skip
    ours, theirs = Resident(config, device), Scheduler(config)
    draw, preempted = random.Random(seed), 0
    for number in range(steps):
        if draw.random() < 0.5:
            _arrive(draw, number, ours, theirs)
        mine, expected = ours.schedule(), theirs.schedule()
        if (here := told(mine)) != (there := told(expected)):
            raise RuntimeError(f"seed {seed}, step {number}: {here} instead of {there}")
        preempted += len(expected.preempted)
        tokens = np.array([draw.randrange(VOCAB) for _ in expected.ids], np.int64)
        outputs = ours.update_from_output(tokens), update_from_output(theirs, tokens)
        if came(outputs[0]) != came(outputs[1]):
            raise RuntimeError(f"seed {seed}, step {number}: outputs differ")
    return preempted


def _arrive(draw: random.Random, number: int, *engines: Resident | Scheduler) -> None:
    """A request; half of them begin alike."""
    prompt = [draw.randrange(VOCAB) for _ in range(draw.randrange(1, 30))]
    if draw.random() < 0.5:
        prompt = [2] * 8 + prompt
    most = draw.randrange(1, 25)
    for engine in engines:
        engine.add_request(Request(str(number), prompt, max_tokens=most, eos=EOS))


def told(step: Step) -> tuple[object, ...]:
    """All that a step tells."""
    return (
        step.ids,
        step.num_scheduled_tokens.tolist(),
        step.samples.tolist(),
        step.num_computed_tokens.tolist(),
        step.new_block_counts.tolist(),
        step.new_block_ids.tolist(),
        step.preempted,
        step.finished,
        step.num_common_prefix_blocks,
    )


def came(outputs: Outputs) -> tuple[object, ...]:
    """All that came of it."""
    return outputs.ids, outputs.tokens.tolist(), outputs.why.tolist(), outputs.rejected
