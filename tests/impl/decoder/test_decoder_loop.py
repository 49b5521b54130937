"""Tokens out of the loop that the host does not step: scheduler, model and ends on the device."""

import pytest
from served import expected, prompts, weights_on
from where import KERNELS_ON

from nullblock.impl import Request
from nullblock.impl.decoder.resident import ResidentModel
from nullblock.impl.device import Loop, Scheduler
from nullblock.kernels.control.exchange import Rings
from nullblock.spec.facts import Config

CONFIG = Config(
    num_blocks=14, block_size=4, max_num_scheduled_tokens=16, max_num_seqs=4, max_model_len=48
)


@pytest.mark.parametrize(("device", "rounds", "count"), [("twins", 8, 3), (KERNELS_ON, 1, 2)])
def test_enqueued_ahead_the_tokens_are_the_same(device: str, rounds: int, count: int) -> None:
    """Five steps at a time, with arrivals before each and nothing read between them, through
    chunks, hits, preemptions and resumptions: the tokens of the unpaged decoder.
    """
    rings = Rings(letters=8, steps=5)
    scheduler = Scheduler(CONFIG, device, num_rows=32, row_tokens=48, rings=rings)
    there = scheduler.resident.place
    model = ResidentModel(
        weights_on(str(there.device)), CONFIG.num_blocks, CONFIG.block_size, backend=there.kernels
    )
    loop, asked, got = Loop(scheduler, model), dict[str, tuple[tuple[int, ...], int]](), {}
    preempted = chunks = hits = turn = 0
    while turn < rounds or scheduler.requests:
        for number in range(count if turn < rounds else 0):
            id, prompt = f"r{turn}.{number}", prompts()[(turn * 5 + number) % len(prompts())]
            asked[id] = prompt, 3 + number * 4
            got[id] = list[int]()
            scheduler.add_request(Request(id, prompt, 3 + number * 4))
        loop.enqueue(5)
        for step, outputs in loop.collect():
            preempted += len(step.preempted)
            chunks += int((~step.samples).sum())
            hits += int((step.num_computed_tokens[step.running :] > 0).sum())
            for id, token in zip(outputs.ids, outputs.tokens.tolist(), strict=True):
                got[id].append(token)
        turn += 1
        assert turn < 200
    model.check()
    assert got == {id: expected(prompt, n) for id, (prompt, n) in asked.items()}
    assert rounds == 1 or (preempted > 3 and chunks > 3 and hits > 3)
