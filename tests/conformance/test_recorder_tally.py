"""Who has filled blocks is told from the tokens that come, as if hashes had been counted."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from bases import RECORDED
from traces import read, unsealed

from nullblock.conformance.adapters.vllm.drafts import told
from nullblock.conformance.adapters.vllm.filling import Filling
from nullblock.conformance.adapters.vllm.seen import Many, differing, lengths
from nullblock.conformance.adapters.vllm.step import Step, absent, without
from nullblock.conformance.adapters.vllm.tally import Tally, fits
from nullblock.conformance.trace.deltas import OutputDelta, ScheduleDelta
from nullblock.conformance.trace.errors import Malformed


def test_sizes_there_is_a_tally_for() -> None:
    """Powers of two, to which a byte can be added."""
    assert [size for size in range(1, 300) if fits(size)] == [1, 2, 4, 8, 16, 32, 64, 128]


def steps(draw: random.Random, tokens: dict[str, int], size: int) -> Iterator[Step]:
    """Steps of changing requests, each led by those of the one before that stay, mostly."""
    fillings: dict[str, Filling] = {}
    before = Step(0, None, [], [], [], [], single=False)
    for number in range(1, 40):
        gone = [place for place in range(len(before.ids)) if draw.random() < 0.2]
        led = draw.random() < 0.8
        ids = without(before.ids, gone)
        away = [r for r in fillings if r not in ids and draw.random() < 0.3]
        new = [f"{number}-{i}" for i in range(draw.randrange(3))]
        for r in new:
            tokens[r] = draw.randrange(5 * size)
            fillings[r] = Filling(0, None, (), tokens[r] // size, tokens[r] % size)
        ids += away + new
        if not led:
            draw.shuffle(ids)
        each = before.fillings
        if led and ids == before.ids and draw.random() < 0.5:
            pass  # steps that are alike share their lists
        else:
            each = [fillings[r] for r in ids]
        step = Step(number, None, ids, [0] * len(ids), each, [1] * len(ids), single=True)
        if led:
            step.after, step.base, step.gone = before.ids, before.fillings, gone
        yield step
        before = step


@pytest.mark.parametrize("size", [1, 2, 16, 128])
def test_blocks_are_filled_as_tokens_come(size: int) -> None:
    """Whoever goes, comes back or moves, and however many tokens come at once."""
    draw = random.Random(size)
    for _ in range(40):
        tally, tokens = Tally(size), dict[str, int]()
        for step in steps(draw, tokens, size):
            most = draw.choice([1, 4, 4, 120, 255, 400])
            came: Many = [draw.randrange(most + 1) for _ in step.ids]
            came = came if most > 255 else bytes(came)
            due = []
            for r, n in zip(step.ids, came, strict=True):
                due.append((tokens[r] + n) // size - tokens[r] // size)
                tokens[r] += n
            places, many = tally.took(step, came)
            assert list(many) == [min(n, 255) for n in due]
            assert places == [place for place, n in enumerate(due) if n]


def test_numbers_for_each_are_compared_as_bytes_and_as_lists() -> None:
    """Where they differ, and how long frames are, in bytes as far as these go."""
    assert lengths([[1, 2], [], [3]]) == b"\2\0\1" and lengths([[0] * 300]) == [300]
    for one in (b"\1\2\3\4", [1, 2, 3, 4]):
        for other in (b"\1\3\3\5", [1, 3, 3, 5]):
            assert differing(one, other) == [1, 3] and differing(one, one) == []


def test_many_absent_ones_are_found() -> None:
    """More than are looked for one by one, and whoever has moved behind the others is not."""
    ids = [str(n) for n in range(100)]
    assert absent(ids, ids[::2]) == list(range(1, 100, 2))
    assert absent(ids, [*ids[1:50], *ids[51:], ids[0], "new"]) == [50]


def test_drafts_of_others_than_those_who_stay_are_told_one_by_one() -> None:
    """A new one may have some where nobody else has any, and the other way round."""
    for each, many, expected in (
        ((3, 3), 2, {"drafts": 3}),
        ((3, 3, 0), 2, {"drafts": 3}),
        ((0, 3), 1, {"drafted": [(1, 3)]}),
        ((3, 3, 3), 2, {"drafts": 3, "drafted": [(2, 3)]}),
        ((2, 2, 0, 2, 0, 1), 4, {"drafts": 2, "drafted": [(2, 0), (5, 1)]}),
        ((0, 0, 0), 2, {}),
    ):
        ids = [str(n) for n in range(len(each))]
        numbers, tokens = list(range(len(each))), [n + 1 for n in each]
        step = Step(1, None, ids, numbers, [], tokens, single=False, drafts=bytes(each))
        assert told(step, many) == expected, each


def lines_of(name: str) -> list[dict[str, Any]]:
    """Of a kept recording of the real engine, without its end."""
    (path,) = (path for path in RECORDED if path.stem == name)
    return [json.loads(line) for line in path.read_text().splitlines()[:-1]]


@pytest.mark.parametrize("name", ["many-drafts", "drafts-by-priority", "drafts-ahead"])
def test_what_names_requests_stands_for_what_names_them_one_by_one(name: str) -> None:
    """`gets` and `fills` in a recording of the real engine, spelt out as older ones have them."""
    lines, spelt = lines_of(name), lines_of(name)
    found = 0
    for line in spelt:
        if line["ev"] == ScheduleDelta.__struct_config__.tag and "gets" in line:
            given = dict(zip(line.pop("gets"), line.pop("given"), strict=True))
            assert not given.keys() & {id for id, _ in line.get("blocks", ())}
            if not line.get("blocks"):
                line["blocks"] = [[id, [[block]]] for id, block in given.items()]
                found += 1
                continue
            line["gets"], line["given"] = list(given), list(given.values())
        if line["ev"] == OutputDelta.__struct_config__.tag and "fills" in line:
            fills, first = line.pop("fills"), line.pop("fresh")
            line["chain"] = [[id, first + i] for i, id in enumerate(fills)]
            found += 1
    assert found > 2 and read(unsealed(lines)) == read(unsealed(spelt))


def test_a_name_too_few_is_damage() -> None:
    """As many blocks as names."""
    lines = lines_of("many-drafts")
    place = next(i for i, line in enumerate(lines) if len(line.get("gets", ())) > 1)
    lines[place]["gets"] = lines[place]["gets"][1:]
    with pytest.raises(Malformed, match="differ in length"):
        read(unsealed(lines))
