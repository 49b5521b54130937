"""The engine on a device beside the NumPy engine: the same calls, and what differs."""

from dataclasses import fields
from typing import Any

import numpy as np
from device_audit import audit

from nullblock.spec.facts import Config

IGNORED = {"places", "requests", "rows", "admitted"}
"""Fields of a step that backends may fill as they like, or hold objects of their own in."""


class Beside:
    """Two engines that are told the same; every call raises AssertionError where they part."""

    def __init__(self, device: str, **constants: Any) -> None:
        from nullblock.impl import Scheduler
        from nullblock.impl.device import Scheduler as OnDevice

        defaults: dict[str, Any] = {
            "num_blocks": 12,
            "block_size": 4,
            "max_num_scheduled_tokens": 24,
            "max_num_seqs": 6,
            "max_model_len": 40,
        }
        given = {
            name: constants.pop(name) for name in ("num_rows", "row_tokens") & constants.keys()
        }
        config = Config(**{**defaults, **constants})
        self.numpy: Any = Scheduler(config)
        self.device: Any = OnDevice(config, device, **given)
        self.turn = 0

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of both."""
        expected = getattr(self.numpy, method)(*args, **kwargs)
        found = getattr(self.device, method)(*args, **kwargs)
        assert found == expected, (method, args)
        self.compare()
        return found

    def add(self, id: str, prompt: Any, max_tokens: int, **facts: Any) -> None:
        """A request arrives."""
        from nullblock.impl import Request

        for engine in (self.numpy, self.device):
            engine.add_request(Request(id, prompt, max_tokens, **facts))

    def pause(self, state: int) -> None:
        """Change how much is scheduled."""
        self.numpy.pause_state = self.device.pause_state = state
        assert self.numpy.num_unfinished() == self.device.num_unfinished()

    def schedule(self) -> Any:
        """Decide a step."""
        expected, found = self.numpy.schedule(), self.device.schedule()
        same(expected, found)
        assert [(r.id, bool(r.num_preemptions)) for r in expected.admitted] == [
            (r.id, bool(r.num_preemptions)) for r in found.admitted
        ]
        self.compare()
        return found

    def update(self, tokens: Any = None) -> Any:
        """Take in what was sampled: those tokens, or some."""
        self.turn += 1
        if tokens is None:
            n = len(self.device.step.ids)
            tokens = [(self.turn * 31 + i * 7) % 41 for i in range(n)]
        expected = self.numpy.update_from_output(tokens)
        found = self.device.update_from_output(tokens)
        same(expected, found)
        self.compare()
        return found

    def compare(self) -> None:
        """The whole state, but for what contents are called."""
        expected, found = self.numpy.picture(), self.device.picture()
        spelled = {b: expected.pool.content[b] for b in found.pool.content}
        assert spelled == expected.pool.content
        names = {found.pool.content[b]: name for b, name in spelled.items()}
        assert len(names) == len(set(names.values())) == len(expected.pool.copies)
        found.pool.copies = {names[key]: blocks for key, blocks in found.pool.copies.items()}
        found.pool.content = spelled
        found.finished, expected.finished = sorted(found.finished), sorted(expected.finished)
        assert found == expected
        audit(self.device)


def same(expected: Any, found: Any) -> None:
    """Two steps, or two outputs, say the same."""
    for field in fields(expected):
        if field.name in IGNORED:
            continue
        left, right = getattr(expected, field.name), getattr(found, field.name)
        if isinstance(left, np.ndarray):
            left, right = left.tolist(), right.tolist()
        assert right == left, field.name
