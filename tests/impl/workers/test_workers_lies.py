"""What no digest guards: a message that lies in any word is refused, or leaves a sound mirror."""

import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from mirrored import messages
from planted import planted
from test_workers_message import sealed

from nullblock.impl.workers import WorkerError
from nullblock.impl.workers.decode import decode
from nullblock.impl.workers.layout import DIGEST, ENTRY, HEADER, TURNOVER

SEEDS, STEPS = (14, 20), 25
FLAGS_AT, DIGEST_AT, NUMBERS_AT, SUM_AT = 10, 32, 16, 24


def copied(mirror: Any) -> Any:
    """Another mirror that knows the same."""
    found = type(mirror)(mirror.config)
    for name, value in vars(mirror).items():
        setattr(found, name, value.copy() if hasattr(value, "copy") else value)
    found._set_columns(mirror._columns.copy())
    return found


def lies() -> Iterator[tuple[Any, bytes]]:
    """Mirrors, and messages for them in which one word is another one, without a digest."""
    for seed in SEEDS:
        for mirror, message, _ in messages(seed, STEPS):
            true = bytearray(message)
            struct.pack_into("<H", true, FLAGS_AT, true[FLAGS_AT] & ~DIGEST)
            true[DIGEST_AT : DIGEST_AT + 8] = bytes(8)
            config = mirror.config
            others = (0, 1, 2, 2**32 - 1, config.max_num_seqs, config.num_blocks)
            for at in range(NUMBERS_AT, len(true) - 3, 4):
                # What the neighbour says, and the neighbour in the table of those who enter.
                near = [
                    struct.unpack_from("<I", true, at - back)[0]
                    for back in (4, ENTRY.size)[: at // 20]
                ]
                for other in {*others, *near}:
                    lie = bytearray(true)
                    struct.pack_into("<I", lie, at, other)
                    if lie != true and not DIGEST_AT <= at < DIGEST_AT + 8:
                        yield mirror, sealed(lie)


def unsound(mirror: Any) -> str:
    """What cannot be of a mirror, whatever it was told; empty: nothing."""
    config, n = mirror.config, mirror.count
    rows, held = mirror.row[:n], mirror.num_blocks[:n]
    blocks = mirror.view().blocks
    wrong = (
        (
            "rows",
            len({*rows.tolist()}) < n or (rows < 0).any() or (rows >= config.max_num_seqs).any(),
        ),
        ("ids", len({*mirror.ids}) < n or len(mirror.ids) != n),
        ("known", not mirror.params.keys() >= {*mirror.ids}),
        ("computed", (mirror.num_computed[:n] > mirror.num_tokens[:n]).any()),
        ("prompt", (mirror.num_prompt[:n] > mirror.num_tokens[:n]).any()),
        ("held", (held < 1).any() or (held >= config.num_blocks).any()),
        ("blocks", ((blocks < 1) | (blocks >= config.num_blocks)).any()),
        ("memory", mirror.tokens.nbytes + mirror.table.nbytes > 200_000),
    )
    return ", ".join(name for name, is_wrong in wrong if is_wrong)


def told() -> str:
    """What the first lie does that is neither refused, unchanged, nor believable; empty: none."""
    from nullblock.impl.workers import WorkerError as Refused

    for mirror, lie in lies():
        worker = copied(mirror)
        try:
            try:
                work = worker.apply(lie)
            except Refused as error:
                # A better liar also sends the sum that this worker expects.
                expected = re.search(r"knows (\d+) tokens were computed", str(error))
                if expected is None:
                    raise
                better = bytearray(lie)
                struct.pack_into("<Q", better, SUM_AT, int(expected[1]))
                work = worker.apply(sealed(better))
        except Refused as error:
            if "\n" in str(error) or worker.view().differs_from(mirror.view()):
                return f"refused, and changed: {error}"
            continue
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if what := unsound(worker):
            return what
        if (work.num_scheduled < 1).any() or len(np.unique(work.rows)) != len(work.rows):
            return "work"
    return ""


def test_a_lie_in_any_word_is_refused_or_believable() -> None:
    """Every word of every message of two services is replaced by small, large and limiting
    numbers, and the checksum made to fit: the mirror refuses and stays as it was, or has rows,
    blocks and counts that can be.
    """
    assert told() == ""


DEFECTS: dict[str, tuple[str, str, str]] = {
    "who leaves need not run": ("checks.py", "where.get(row, -1)", "where.get(row, 99)"),
    "who ends waiting need not wait": (
        "checks.py",
        "if not waiting.difference(ended).issuperset(turnover.gone):",
        "if False:",
    ),
    "a row may be taken": (
        "checks.py",
        "if np.isin(row, mirror.row[: mirror.count][stay]).any():",
        "if False:",
    ),
    "there are any number of rows": (
        "checks.py",
        "if int(row.max()) >= mirror.num_rows:",
        "if False:",
    ),
    "there are any blocks": (
        "checks.py",
        "if int(np.maximum.reduce(blocks - np.uint32(1))) >= last:",
        "if False:",
    ),
    "more tokens may be scheduled than there are": (
        "checks.py",
        "if len(computed) and int(np.minimum.reduce(remaining)) < 0:",
        "if False:",
    ),
    "any number may stay": (
        "checks.py",
        "if mirror.count - len(gone) != header.num_stay:",
        "if False:",
    ),
    "somebody may leave twice": (
        "decode_turnover.py",
        "len(np.unique(left)) == len(left)",
        "True",
    ),
    "two may enter one row": ("decode_turnover.py", "len(np.unique(row)) == len(row)", "True"),
    "tables need not be as long as they say": (
        "decode_turnover.py",
        "int(blocks.sum()) == len(turnover.blocks)",
        "True",
    ),
    "a prompt may be longer than its request": (
        "decode_turnover.py",
        "not (num_prompt > num_tokens).any()",
        "True",
    ),
    "who enters may compute more than there is": (
        "decode_turnover.py",
        "not (computed + scheduled > num_tokens).any()",
        "True",
    ),
    "who enters may compute nothing": (
        "decode_turnover.py",
        "bool(scheduled.all())",
        "True",
    ),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_each_check_is_needed(what: str) -> None:
    """Without it some lie makes the mirror fall over, or hold what cannot be."""
    file, old, new = DEFECTS[what]
    with planted(f"workers/{file}", old, new):
        assert told() != ""


def test_nobody_leaves_for_a_row_that_is_free() -> None:
    """A row that leaves and is nobody's is refused by name, not taken for another one."""
    refused = 0
    for mirror, message, _ in messages(SEEDS[0], STEPS):
        decision = decode(message)
        turnover = decision.turnover
        if turnover is None or not len(turnover.ended):
            continue
        lie = bytearray(message)
        at = HEADER.size + 8 * (decision.header.num_odd + decision.header.num_grown)
        at += TURNOVER.size + (0 if decision.scheduled is None else 4)
        assert struct.unpack_from("<I", lie, at)[0] == int(turnover.ended[0])
        free = {*range(mirror.config.max_num_seqs + 1)}.difference(mirror.row[: mirror.count])
        struct.pack_into("<I", lie, at, max(free))
        with pytest.raises(WorkerError, match="somebody leaves who does not run"):
            mirror.apply(sealed(lie))
        refused += 1
    assert refused > 3
