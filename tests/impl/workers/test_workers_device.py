"""A mirror on a device holds what the host's holds, and makes the same input of it."""

import random
from typing import Any

import numpy as np
import pytest
from planted import planted
from where import TENSORS_ON

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'nullblock[gpu]'")

STEPS = {"torch": 100, "triton": 12}


def differences(backend: str, seed: int, steps: int) -> str:
    """Where the two part, after every step of a crowded service; empty: nowhere."""
    from nullblock.impl import Request, Scheduler, update_from_output
    from nullblock.impl.workers import DeviceMirror, Encoder, Mirror, digest, view_of_scheduler
    from nullblock.spec.facts import Config

    dice = random.Random(f"device:{seed}")
    scheduler = Scheduler(
        Config(
            num_blocks=14,
            block_size=4,
            max_num_scheduled_tokens=20,
            max_num_seqs=6,
            max_model_len=40,
            long_prefill_token_threshold=6,
        )
    )
    encoder, host = Encoder(), Mirror(scheduler.config)
    where = TENSORS_ON if backend == "triton" else "cpu"
    there = DeviceMirror(scheduler.config, where, backend=backend)
    arrived = preempted = known = 0
    for turn in range(steps):
        while len(scheduler.requests) < 7:
            arrived += 1
            prompt = [dice.choice([3, 3, 4])] * dice.randrange(1, 20)
            scheduler.add_request(Request(f"r{arrived}", prompt, dice.randrange(1, 18)))
        if dice.random() < 0.1:
            scheduler.finish_requests([dice.choice(list(scheduler.requests))])
        step = scheduler.schedule()
        preempted += len(step.preempted)
        told = digest(view_of_scheduler(scheduler)) if turn % 5 == 0 else None
        known += told is not None
        message = encoder.encode(step, digest=told)
        host.apply(message)
        _, batch, inputs = there.apply(message)
        there.check()
        if what := _parts(host, there, batch, inputs):
            return f"seed {seed}, step {turn}: {what}"
        sampled = np.array([dice.randrange(5, 99) for _ in step.ids], np.int32)
        host.take(sampled)
        padded = np.append(sampled, -np.ones(6 - len(sampled), np.int32))
        there.take(torch.from_numpy(padded).to(where))
        update_from_output(scheduler, sampled)
    assert preempted or steps < 100, "nobody was preempted"
    return ""


def _parts(host: Any, there: Any, batch: Any, inputs: Any) -> str:
    from nullblock.impl.workers import model_input

    held = there.requests
    for place in range(host.count):
        row, tokens = int(host.row[place]), int(host.num_tokens[place])
        blocks = int(host.num_blocks[place])
        if int(held.num_tokens[row]) != tokens or int(held.num_blocks[row]) != blocks:
            return f"counts of {host.ids[place]}"
        if held.token_ids[row, :tokens].tolist() != host.tokens[row, :tokens].tolist():
            return f"tokens of {host.ids[place]}"
        if held.block_table[row, :blocks].tolist() != host.table[row, :blocks].tolist():
            return f"blocks of {host.ids[place]}"
    free = sorted(set(range(len(held.num_blocks))) - set(host.row[: host.count].tolist()))
    if held.num_blocks[free].any() or held.num_tokens[free].any():
        return "a row that is nobody's"
    read = model_input(host)
    n, t = len(read.rows), len(read.input_ids)
    pairs = (
        (batch.rows[:n], read.rows),
        (inputs.query_start_loc[: n + 1], read.query_start),
        (inputs.seq_lens[:n], read.seq_lens),
        (inputs.input_ids[:t], read.input_ids),
        (inputs.positions[:t], read.positions),
        (inputs.slot_mapping[:t], read.slot_mapping),
    )
    same = all(mine.tolist() == theirs.tolist() for mine, theirs in pairs)
    return "" if same and (inputs.slot_mapping[t:] == -1).all() else "the model's input"


@pytest.mark.parametrize("backend", STEPS)
def test_a_mirror_on_a_device_is_the_mirror(backend: str) -> None:
    """By the kernels' twins through a long service, and by the kernels themselves through a short
    one: tokens, tables, counts and the model's input, and digests that the scheduler sends.
    """
    assert differences(backend, 0, STEPS[backend]) == ""


DEFECTS = {
    "rows are not emptied": (
        "            self._padded(gone),\n",
        "            self._padded(gone * 0),\n",
    ),
    "the tables of those who enter come first": (
        "np.concatenate((blocks, turnover.blocks))",
        "np.concatenate((turnover.blocks, blocks))",
    ),
    "places are taken for rows": ("rows, blocks = work.rows[places]", "rows, blocks = places"),
    "tokens of a chunk are taken": (
        "who = work.samples.nonzero()[0]",
        "who = np.arange(len(work.rows))",
    ),
    "a cached prefix is forgotten": (
        "            self._padded(entered.num_computed),\n",
        "            self._padded(entered.num_computed * 0),\n",
    ),
    "tokens are not fetched for a digest": ("            self._fetch()\n", "            pass\n"),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_on_the_device_shows(what: str) -> None:
    """Each makes the device part from the host, be refused, or miss the scheduler's digest."""
    with planted("workers/device.py", *DEFECTS[what]):
        try:
            shown = any(differences("torch", seed, 40) for seed in range(3))
        except (RuntimeError, ValueError):
            shown = True
    assert shown
