"""The golden refusals: small traces that are altered, damaged or incomplete, and what each gets.

    python tests/conformance/refusals.py            makes conformance/bundled/refusals anew

Every file comes from a recipe here, so that it is known what is wrong with it. The table beside
the files says which verdict each must get; commit only a change of it that you can explain.
"""

import copy
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from alterations import (  # noqa: E402  (found through the line above)
    ALTERATIONS,
    DRAFT_ALTERATIONS,
    EMPTIED,
    EVENT_ALTERATIONS,
    first,
)
from bases import FEATURES, Lines, bases  # noqa: E402
from fields import alterations, every_field  # noqa: E402
from traces import gzipped, written, zstd  # noqa: E402

from nullblock.conformance.checker import check  # noqa: E402
from nullblock.conformance.trace.records import Header  # noqa: E402
from nullblock.conformance.trace.writer import TraceWriter  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "conformance" / "bundled" / "refusals"
TABLE = FOLDER / "table.json"
SMALL = ("busy", "priority", "ends", "uncut", "raises", "drafted", *FEATURES)
"""Traces of engines of ours, by name; the recorded one is left to the tests."""
KINDS = (
    (ALTERATIONS | DRAFT_ALTERATIONS, SMALL),
    (EVENT_ALTERATIONS | EMPTIED, ("ahead",)),
)
"""Which alterations are made to the first of which traces that they suit."""

BEFORE_A_CALL = {"matched": 1, "transfers": 2}
"""Records of what is said in a call, and how many lines behind it is judged at the latest."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file, and in words what is wrong with it."""

    name: str
    what: str
    data: bytes


def refusals() -> list[Refusal]:
    """All of them, by name."""
    made = [*_altered(), *_fields(), *_incomplete(), *_damaged()]
    assert len({r.name for r in made}) == len(made)
    return sorted(made, key=lambda r: r.name)


def entry(refusal: Refusal) -> dict[str, Any]:
    """What the checker says of a file."""
    verdict = check(Path(refusal.name), stream=io.BytesIO(refusal.data), deep=False)
    first = verdict.first
    return {
        "file": refusal.name,
        "what": refusal.what,
        "verdict": verdict.verdict,
        "exit_code": verdict.exit_code,
        "rule": first.rule if first else None,
        "line": first.line if first else None,
        "step": first.step if first and verdict.verdict == "VIOLATION" else None,
        "said": first.what if first else "; ".join(verdict.missing),
    }


def _base(name: str) -> Lines:
    """A trace without its end, to be altered; and without the names of its requests."""
    lines = [line for line in bases()[name] if line["ev"] != "end"]
    for key in ("sealed", "config_sha256"):
        lines[0].pop(key, None)
    for line in lines:
        line.pop("name", None)
    return lines


def _text(lines: Lines) -> bytes:
    return b"".join(json.dumps(x, separators=(",", ":")).encode() + b"\n" for x in lines)


def _slug(words: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in words.lower()).split())


def _altered() -> Iterator[Refusal]:
    """Decisions altered as an engine at fault would make them."""
    pairs = ((*one, among) for kinds, among in KINDS for one in kinds.items())
    for name, (_, kind, suits, alter), among in pairs:
        for base in among:
            lines = _base(base)
            try:
                at = first(lines, kind, suits)
            except StopIteration:
                continue
            told = copy.deepcopy(lines[: at + 1])
            alter(told[at])
            if told[at] == lines[at]:
                continue
            yield Refusal(f"{_slug(name)}.jsonl", name, _text(told))
            break


def _fields() -> Iterator[Refusal]:
    """One occurrence of each field altered that a decision or the order of records depends on."""
    for path in every_field():
        if path[0] in ("header", "end", "lost", "error"):
            continue
        for base in SMALL:
            found = next(alterations(_base(base), path), None)
            if found is None:
                continue
            at, told = found
            later = BEFORE_A_CALL.get(path[0], 0)
            refusal = Refusal(
                f"field-{_slug(' '.join(path))}.jsonl",
                f"{'.'.join(path)} is altered on line {at + 1}",
                _text(told[: at + 2 + later]),
            )
            if (entry(refusal)["line"] or 0) in range(at + 1, at + 2 + later):
                yield refusal
                break


def _incomplete() -> Iterator[Refusal]:
    """What is not known, or not covered."""
    changes: dict[str, Callable[[Lines], Any]] = {
        "a feature that the rules do not have": lambda x: x[0].update(features=["kv_connector"]),
        "a request with such a feature": lambda x: x[1].update(features=["structured_output"]),
        "a profile that nobody knows": lambda x: x[0].update(spec="vllm-9.9"),
        "arrivals that were sampled": lambda x: x[0]["observed"].update(add="sampled"),
        "outputs that were not seen": lambda x: x[0]["observed"].update(output="absent"),
        "no chain numbers": lambda x: [line.pop("chain", None) for line in x],
        "no decisions": lambda x: x.__delitem__(slice(3, None)),
        "the recorder gave up": lambda x: x.__setitem__(
            slice(8, None), [{"ev": "lost", "reason": "MemoryError"}]
        ),
        "an abort that was not seen": _unseen_abort,
        "an end that nobody knows": _unknown_end,
    }
    for name, change in changes.items():
        whole = change in (_unseen_abort, _unknown_end)
        lines = _base("busy")[: None if whole else 24]
        change(lines)
        yield Refusal(f"unknown-{_slug(name)}.jsonl", name, _text(lines))


def _unseen_abort(lines: Lines) -> None:
    lines[0]["observed"]["abort"] = "absent"
    lines[:] = [line for line in lines if line["ev"] != "abort"]


def _unknown_end(lines: Lines) -> None:
    abort = next(line for line in lines if line["ev"] == "abort")
    abort["status"] = "FINISHED_ABORTEDx"


def _damaged() -> Iterator[Refusal]:
    """Files that were cut, mixed up, or saved by the wrong program."""
    lines = _base("busy")[:24]
    whole = _sealed(lines)
    rows = whole.splitlines(keepends=True)

    def one(name: str, data: bytes, suffix: str = "") -> Refusal:
        return Refusal(f"damaged-{_slug(name)}.jsonl{suffix}", name, data)

    yield one("cut in the middle of a line", whole[:-100])
    yield one("cut after a line", b"".join(rows[:-3]))
    yield one("a byte changed under the seal", whole.replace(b'"num_free":', b'"num_free": ', 1))
    yield one("two lines in the wrong order", b"".join([*rows[:5], rows[6], rows[5], *rows[7:]]))
    yield one("a line twice", b"".join([*rows[:6], rows[5], *rows[6:]]))
    yield one("a line missing", b"".join(rows[:5] + rows[6:]))
    yield one("an empty file", b"")
    yield one("an empty line", whole.replace(b"\n", b"\n\n", 1))
    yield one("saved as UTF-16", whole.decode().encode("utf-16"))
    yield one("a byte order mark", b"\xef\xbb\xbf" + whole)
    yield one("line ends of Windows", whole.replace(b"\n", b"\r\n"))
    yield one("a key twice", rows[0][:-2] + b',"spec":"normative"}\n' + b"".join(rows[1:]))
    yield one("a key that there is not", rows[0][:-2] + b',"x":1}\n' + b"".join(rows[1:]))
    yield one("a version to come", whole.replace(b'"version":"1.', b'"version":"7.', 1))
    yield one("no header", b"".join(rows[1:]))
    yield one("a nest without end", rows[0] + b'{"ev":' + b"[" * 5000 + b"\n")
    yield one("not JSON", rows[0] + b"schedule 1\n")
    yield one("after its end", whole + rows[3])
    yield one("gzip cut short", written(whole, "x.gz")[:-60], ".gz")
    yield one("zstd with a bit turned", _turned(written(whole, "x.zst")), ".zst")
    yield one("a line beyond all bounds", zstd(rows[0] + b" " * (17 * 2**20)), ".zst")
    yield one("gzip in gzip", gzipped(gzipped(whole)), ".gz")


def _turned(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


def _sealed(lines: Lines) -> bytes:
    import msgspec

    from nullblock.conformance.trace.records import Record

    stream = io.BytesIO()
    writer = TraceWriter(stream)
    for line in lines:
        kind: Any = Header if line["ev"] == "header" else Record
        writer.write(msgspec.convert(line, kind))
    writer.end()
    return stream.getvalue()


def main() -> None:
    """Write files and table."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.jsonl*"):
        old.unlink()
    made = refusals()
    for refusal in made:
        (FOLDER / refusal.name).write_bytes(refusal.data)
    rows = ",\n ".join(json.dumps(entry(refusal)) for refusal in made)
    TABLE.write_text(f"[{rows}]\n")
    print(f"{len(made)} files in {FOLDER.name}")


if __name__ == "__main__":
    main()
