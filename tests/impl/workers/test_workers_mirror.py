"""A worker that hears of nothing but messages knows what the scheduler knows."""

import re
import struct
import sys
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mirrored import messages, parts
from planted import planted
from service import SEEDS

import nullblock.impl
import nullblock.impl.workers
from nullblock.impl import Request, Scheduler, update_from_output
from nullblock.impl.workers import (
    Diverged,
    Encoder,
    Mirror,
    OutOfTurn,
    digest,
    model_input,
    view_of_scheduler,
)
from nullblock.impl.workers.layout import (
    CHANGED,
    DIGEST,
    ENTRY,
    HEADER,
    SOME,
    TURNOVER,
    WIDE,
)
from nullblock.spec.facts import Config
from nullblock.spec.fields import LENGTH
from nullblock.spec.profiles import VLLM_0_22_1

RARE = {
    "aborted": 50,
    "id again": 30,
    "preempted": 15,
    "resumed": 40,
    "reset": 5,
    "reset in flight": 5,
    "row again": 100,
    "passed over": 50,
    "hit": 100,
    "chunk": 100,
    "several blocks": 30,
    "common prefix": 50,
    "empty": 50,
    "ended waiting": 20,
    "passed over between": 3,
    "died": 1,
}
"""What has to happen, and how often, for the scenarios to show anything."""


def serving(count: int = 4, **constants: int) -> Scheduler:
    """A scheduler with requests that wait."""
    defaults = {
        "num_blocks": 64,
        "block_size": 4,
        "max_num_scheduled_tokens": 4096,
        "max_num_seqs": 256,
        "max_model_len": 64,
    }
    made = Scheduler(Config(**(defaults | constants), semantics=VLLM_0_22_1))
    for number in range(count):
        made.add_request(Request(f"r{number}", [number] * 5, 30))
    return made


def test_the_mirror_is_the_scheduler_after_every_step() -> None:
    """Order, rows, tokens, counts and tables of all who run, what is to be computed, what the
    model reads, and what was said of everybody known: through preemption and resumption, aborts
    and resets with a step in flight, rows and ids that are used again, chunks and cached prefixes.
    """
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        assert parts(seed, seen) == ""
    assert {what: seen[what] for what, least in RARE.items() if seen[what] < least} == {}


DEFECTS: dict[str, tuple[str, str, str]] = {
    "output tokens of a resumed request are not sent": (
        "encode_turnover.py",
        "step.all_token_ids[request.id] if known else request.tokens",
        "request.tokens[: request.num_prompt_tokens]",
    ),
    "a resumed request is taken for a new one": (
        "encode_turnover.py",
        "request.num_preemptions > 0",
        "False",
    ),
    "who waits and ends is not named": (
        "encode_turnover.py",
        "if id in waiting]",
        "if id in row_of]",
    ),
    "an id is forgotten that is used again": (
        "encode_turnover.py",
        "waiting.difference(left.gone)",
        "waiting",
    ),
    "ended ones are put back": (
        "encode_turnover.py",
        "numbers = (len(left.ended_rows), len(left.put_back_rows),",
        "numbers = (len(left.put_back_rows), len(left.ended_rows),",
    ),
    "a token of 8 bytes is cut": (
        "encode_turnover.py",
        "int(tokens.max()) > _NARROW.max",
        "False",
    ),
    "a reset does not empty rows": (
        "encode.py",
        "        self._withdrawn.extend(self._row_of.values())\n",
        "",
    ),
    "several blocks of one request go to several": (
        "encode.py",
        "grown = grown.repeat(counts[grown])",
        "grown = np.arange(len(blocks))",
    ),
    "blocks of those who enter are sent for those who stay": (
        "encode.py",
        "blocks = blocks[: int(np.add.reduce(counts))]",
        "pass",
    ),
    "the bitmap is written highest bit first": (
        "encode.py",
        'np.packbits(scheduled, bitorder="little")',
        "np.packbits(scheduled)",
    ),
    "a chunk is taken for a decode": (
        "encode.py",
        "odd, grown = (tokens != 1).nonzero()[0]",
        "odd, grown = (tokens > 2).nonzero()[0]",
    ),
    "who leaves stays": ("mirror.py", "        if planned.gone:\n", "        if False:\n"),
    "ids do not move with their columns": (
        "mirror.py",
        "            del self.ids[place]\n",
        "            self.ids.pop()\n",
    ),
    "what was said of an ended request is kept": (
        "mirror.py",
        "            del self.params[id]\n",
        "            self.params[id]\n",
    ),
    "a block lands one column too far": (
        "mirror.py",
        "cells(first, held - first, len(blocks))",
        "cells(first + (first > 0), held - first, len(blocks))",
    ),
    "blocks are written to the place, not to the row": (
        "mirror.py",
        "self.table[self.row[places][which], columns] = blocks",
        "self.table[places[which], columns] = blocks",
    ),
    "a new table starts with the second block": (
        "mirror.py",
        "np.zeros_like(held), held, turnover.blocks)",
        "np.ones_like(held), held + 1, turnover.blocks)",
    ),
    "tokens are written to the place, not to the row": (
        "mirror.py",
        "self.tokens[entered.row[which], columns] = turnover.tokens",
        "self.tokens[first + np.arange(last - first)[which], columns] = turnover.tokens",
    ),
    "a cached prefix is computed again": (
        "mirror.py",
        "entered.num_computed + entered.num_scheduled),",
        "entered.num_scheduled),",
    ),
    "a chunk takes a token": ("mirror.py", "if not work.samples.all():", "if False:"),
    "who is passed over is counted on": (
        "checks.py",
        "places = decision.scheduled.nonzero()[0]",
        "places = np.arange(int(decision.scheduled.sum()))",
    ),
    "a token's slot is that of its block's first": ("inputs.py", "    slots += offsets\n", ""),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_shows(what: str) -> None:
    """Each makes a worker part from the scheduler in some scenario, or refuse a message."""
    file, old, new = DEFECTS[what]
    with planted(f"workers/{file}", old, new):
        assert any(parts(seed) for seed in SEEDS)


def test_a_worker_that_drifts_is_told() -> None:
    """Where a mirror is not what it should be, the sum over all who are scheduled shows it at
    once, and a digest whatever it is.
    """
    for spoil, shown_by_sum in (("num_tokens", True), ("tokens", False), ("table", False)):
        engine, encoder = serving(), Encoder()
        mirror = Mirror(engine.config)
        mirror.apply(encoder.encode(engine.schedule()))
        mirror.take([1, 2, 3, 4])
        update_from_output(engine, [1, 2, 3, 4])
        getattr(mirror, spoil)[..., 0] += 1
        step = engine.schedule()
        message = encoder.encode(step, digest=digest(view_of_scheduler(engine)))
        with pytest.raises(Diverged, match="sampled" if shown_by_sum else "not the scheduler's"):
            mirror.apply(message)


def test_every_message_is_applied_once_and_in_turn() -> None:
    """A message lost, doubled or overtaken is named with the steps that are missing; the mirror
    stays as it was and goes on with the right one.
    """
    played = [(message, sampled) for _, message, sampled in messages(3, 8)]
    mirror = Mirror(next(messages(3, 1))[0].config)
    for number, (message, sampled) in enumerate(played):
        before = mirror.view()
        for other, missing in ((number - 1, "came again"), (number + 1, f"of step {number}:")):
            if 0 <= other < len(played):
                with pytest.raises(OutOfTurn, match=missing):
                    mirror.apply(played[other][0])
        if number + 2 < len(played):
            with pytest.raises(OutOfTurn, match=f"of step {number} to {number + 1}:"):
                mirror.apply(played[number + 2][0])
        assert not mirror.view().differs_from(before)
        mirror.apply(message)
        with pytest.raises(OutOfTurn, match="take"):
            mirror.apply(played[min(number + 1, len(played) - 1)][0])
        mirror.take(sampled)


def test_misuse_of_a_mirror_is_named() -> None:
    """Tokens without a step, tokens for somebody else, an input without a step."""
    engine, encoder = serving(), Encoder()
    mirror = Mirror(engine.config)
    with pytest.raises(OutOfTurn, match="no step waits"):
        mirror.take([])
    with pytest.raises(RuntimeError, match="no step waits"):
        model_input(mirror)
    mirror.apply(encoder.encode(engine.schedule()))
    with pytest.raises(ValueError, match="for 4 scheduled"):
        mirror.take([1, 2])
    mirror.num_blocks[2] = 1
    with pytest.raises(ValueError, match="'r2' has tokens to compute and no slots"):
        model_input(mirror)


def test_an_encoder_says_when_workers_could_not_know() -> None:
    """A step that was left out, a reset that nobody told of, numbers that are none."""
    engine, encoder = serving(), Encoder()
    engine.schedule()
    update_from_output(engine, [1] * 4)
    with pytest.raises(ValueError, match="encode every step once"):
        encoder.encode(engine.schedule())

    engine, encoder = serving(), Encoder()
    encoder.encode(engine.schedule())
    engine.reset_prefix_cache(reset_running=True)
    update_from_output(engine, [1] * 4)
    step = engine.schedule()
    with pytest.raises(ValueError, match=r"call withdraw_all\(\) after a reset"):
        encoder.encode(step)
    encoder.withdraw_all()
    encoder.encode(step)
    update_from_output(engine, [1] * 4)
    step = engine.schedule()
    step.num_scheduled_tokens[1] = -3
    with pytest.raises(ValueError, match="-3 to -3 tokens are scheduled"):
        encoder.encode(step)


def test_a_decode_costs_eight_bytes_a_block() -> None:
    """Whoever gets neither a block nor another number of tokens than one is not mentioned: 256
    requests take a small part of the 3 KB of a pair of numbers for each.
    """
    engine, encoder = serving(256, num_blocks=9999), Encoder()
    sizes = list[int]()
    for _ in range(9):
        step = engine.schedule()
        sizes.append(len(encoder.encode(step)) - 8 * len(step.new_block_ids))
        update_from_output(engine, np.ones(256, np.int64))
    assert set(sizes[1:]) == {56}


def test_there_is_room_for_more_and_longer_requests_than_before() -> None:
    """Rows and their width grow with who comes; what stands in them stays."""
    engine, encoder = serving(3, num_blocks=999, max_model_len=600), Encoder()
    mirror = Mirror(engine.config)
    for turn in range(40):
        if turn % 10 == 0:
            for number in range(turn):
                engine.add_request(Request(f"{turn}:{number}", [turn] * (turn * 5), 50))
        step = engine.schedule()
        mirror.apply(encoder.encode(step))
        assert mirror.view().differs_from(view_of_scheduler(engine)) == []
        mirror.take(np.full(len(step.ids), 3))
        update_from_output(engine, np.full(len(step.ids), 3))
    assert mirror.count == 60 and mirror.tokens.shape[1] > 150


@pytest.mark.parametrize(
    ("name", "lacks", "extra"), [("Mirror", "numpy", "impl"), ("Channel", "torch", "gpu")]
)
def test_what_is_not_installed_is_named(
    name: str, lacks: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that brings it; what does not need it is there."""
    monkeypatch.setitem(sys.modules, lacks, None)
    with pytest.raises(ImportError, match=rf"pip install 'nullblock\[{extra}\]'"):
        getattr(nullblock.impl.workers, name)
    with pytest.raises(AttributeError, match="no attribute 'Worker'"):
        _ = nullblock.impl.workers.Worker


def test_the_example_in_the_readme_runs() -> None:
    """As it stands, until everybody is served; what was said of the request is gone with it."""
    text = Path(nullblock.impl.__file__).with_name("workers").joinpath("README.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["outputs"].why.tolist() == [LENGTH] and names["worker"].count == 1
    names["worker"].apply(names["encoder"].encode(names["scheduler"].schedule()))
    assert names["worker"].count == 0 and not names["worker"].params


def test_the_layout_in_the_readme_is_the_layout() -> None:
    """Offsets, sizes and flags that it states are those of the code."""
    path = Path(nullblock.impl.__file__).with_name("workers").joinpath("README.md")
    text = " ".join(path.read_text().split())
    names = "magic,CRC-32,version,flags,length,step,sum,digest,num_common_prefix_blocks"
    kinds = re.findall(r"4s|[A-Z]", HEADER.format.replace("QQQ4I", "QQQIIII"))
    ends = accumulate(struct.calcsize(f"<{kind}") for kind in kinds)
    offsets = zip(
        (0, *ends), (*names.split(","), "num_stay", "num_odd", "num_grown"), strict=False
    )
    flags = ((WIDE, "token ids"), (SOME, "somebody"), (DIGEST, "there"), (CHANGED, "there is a t"))
    sizes = (("header", HEADER.size), ("turnover", TURNOVER.size), ("entered", ENTRY.size))
    stated = [f"{number} {name}" for number, name in (*offsets, *flags)]
    stated += [f"| {name} | {size} " for name, size in sizes]
    assert [what for what in stated if what not in text] == []
