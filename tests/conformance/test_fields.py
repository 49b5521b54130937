"""Every field of every record, altered: caught at its step by the right rule, or named as one on
which no decision depends.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from altered import (
    INPUT,
    Caught,
    Damage,
    Expected,
    Explained,
    Input,
    Unobserved,
    Unsaid,
    caught,
    each_alteration,
    judge,
)
from bases import Lines, bases, midway
from fields import alterations, every_field

from nullblock.conformance.checker import Verdict, check
from nullblock.spec.catalogue import catalogue

KEPT = ("header.config_sha256", "header.sealed")
"""Fields that only a sealed trace has."""


EVENT = ("chain", "parent", "tokens")
NOTES = Unobserved("who recorded what is for people")
PROMISE = "unseen inputs matter only where a decision is not explained"
POST = {
    "num_free": caught("QUEUE-4"),
    "num_waiting": caught("WAIT-14"),
    "waiting": caught("WAIT-12", "WAIT-1"),
}


def post(kind: str, *gone: str) -> dict[str, Expected]:
    """The state that comes with a decision."""
    named = POST | dict.fromkeys(("num_running", "running"), caught(*gone))
    return {f"{kind}.state.{name}": expected for name, expected in named.items()}


TABLE: dict[str, Expected] = {
    **dict.fromkeys(("header.format", "header.version", *KEPT), Damage()),
    **dict.fromkeys(("header.spec", "header.features", "header.start"), Unsaid()),
    **{f"header.engine.{n}": NOTES for n in ("name", "version", "commit", "scheduler")},
    "header.writer": NOTES,
    "header.config.block_size": Damage(),
    "header.config.num_blocks": INPUT,
    "header.config.max_num_scheduled_tokens": INPUT,
    "header.config.max_num_seqs": INPUT,
    "header.config.max_model_len": INPUT,
    "header.config.long_prefill_token_threshold": INPUT,
    "header.config.enable_chunked_prefill": INPUT,
    "header.config.enable_prefix_caching": INPUT,
    "header.config.scheduler_reserve_full_isl": INPUT,
    "header.config.watermark_blocks": INPUT,
    "header.config.policy": INPUT,
    "header.config.async_scheduling": INPUT,
    "header.config.num_spec_tokens": INPUT,
    "header.config.spec_method": INPUT,
    "header.config.eagle_group": INPUT,
    "header.config.groups.sliding_window": INPUT,
    "header.config.groups.attention_chunk_size": INPUT,
    "header.config.groups.eagle": INPUT,
    "header.config.groups.mla": Unsaid(),
    "header.config.use_v2_model_runner": Unsaid(),
    **{f"header.config.groups.{n}": INPUT for n in ("block_size", "mamba")},
    "header.config.groups.cross_attention": Unsaid(),
    "header.config.groups.sink_len": Damage(),
    "header.config.groups.num_speculative_blocks": INPUT,
    "header.config.groups.prefill_checkpoint_alignment": INPUT,
    "header.config.mamba_split": INPUT,
    "header.config.max_num_batched_tokens": INPUT,
    "header.config.max_concurrent_batches": INPUT,
    "header.config.max_loras": INPUT,
    "header.config.runner_type": Unsaid(),
    "header.config.encoder.max_num_encoder_input_tokens": INPUT,
    "header.config.encoder.encoder_cache_size": INPUT,
    "header.config.encoder.disable_chunked_mm_input": INPUT,
    **{f"header.config.encoder.{n}": Unsaid() for n in ("is_encoder_decoder", "ec_connector")},
    "header.config.connector.failure_policy": INPUT,
    "header.config.connector.loads_beside_steps": INPUT,
    "header.config.connector.requires_kv_delivery": INPUT,
    "header.config.pipeline_parallel_size": Unobserved("steps in flight show by themselves"),
    "header.data_parallel_rank": NOTES,
    "header.observed.add": Unsaid(),
    "header.observed.output": Unsaid(),
    "header.observed.draft": Unsaid(),
    "header.observed.compiled": Unsaid(),
    "header.observed.chunk": Unsaid(),
    **{f"header.observed.{kind}": Unsaid() for kind in ("matched", "transfers")},
    **{
        f"header.observed.{kind}": Unobserved(PROMISE, kind)
        for kind in ("abort", "pause", "reset", "evict", "schedule", "update", "state")
    },
    "header.observed.events": Unobserved(PROMISE, "update.events"),
    "header.block_ids": Unobserved(
        "what conforms with exact ids conforms with fewer", "block_ids"
    ),
    **dict.fromkeys(("header.recording", "part.number", "part.recording"), Damage()),
    "add.id": Damage(),
    "add.prompt": INPUT,
    "add.max_tokens": INPUT,
    "add.min_tokens": INPUT,
    "add.priority": INPUT,
    "add.arrival": INPUT,
    "add.tie": INPUT,
    "add.skip_reading_prefix_cache": INPUT,
    "add.chain": INPUT,
    "add.features": Unsaid(),
    "add.adapter": INPUT,
    **{f"add.items.{name}": INPUT for name in ("item", "offset", "length", "is_embed")},
    "add.name": Unobserved("a request's own id is for people"),
    "abort.asked": INPUT,
    "abort.status": Unsaid(),
    "abort.aborted": caught("LIFE-4", "LIFE-5"),
    **post("abort", "LIFE-4"),
    "pause.pause_state": INPUT,
    "reset.reset_running": caught("LIFE-10"),
    "reset.ok": caught("LIFE-10"),
    **post("reset", "LIFE-3"),
    "evict.blocks": INPUT,
    "compiled.ids": INPUT,
    "chunk.id": Damage(),
    **{f"chunk.{name}": INPUT for name in ("prompt", "max_tokens", "min_tokens")},
    **{f"chunk.{name}": INPUT for name in ("arrival", "tie")},
    "chunk.features": Unsaid(),
    **{f"chunk.items.{name}": INPUT for name in ("item", "offset", "length", "is_embed")},
    "chunk.taken.tokens": caught("SESS-3"),
    "chunk.taken.chain": INPUT,
    "session_end.id": INPUT,
    "session_end.ended": caught("SESS-12"),
    **{f"matched.answers.{name}": INPUT for name in ("id", "local", "tokens", "over_steps")},
    **{f"matched.answers.{name}": INPUT for name in ("begins", "blocks")},
    **{f"transfers.{name}": INPUT for name in ("received", "sent", "invalid", "failed")},
    "transfers.delayed": INPUT,
    "schedule.step": Damage(),
    "schedule.ids": caught(*("RUN-4", "RUN-14", "WAIT-5", "WAIT-8", "WAIT-9", "WAIT-10", "OUT-1")),
    "schedule.tokens": caught("RUN-1", "RUN-2", "WAIT-2"),
    "schedule.drafts": caught("DRAFT-3", "OUT-11"),
    "schedule.new.id": caught("WAIT-9", "OUT-16"),
    "schedule.new.computed": caught("HASH-11"),
    "schedule.new.prefill": caught("OUT-17"),
    "schedule.new.blocks": caught("POOL-10", "HASH-10", "GROUP-4"),
    "schedule.cached.ids": caught("OUT-5"),
    "schedule.cached.computed": caught("UPD-1", "HASH-11"),
    "schedule.cached.num_output": caught("UPD-3"),
    "schedule.cached.blocks": caught("POOL-10", "OUT-2"),
    "schedule.cached.resumed": caught("WAIT-9"),
    "schedule.cached.all_tokens": caught("OUT-3"),
    "schedule.preempted": caught("PREEMPT-1", "PREEMPT-2", "ALLOC-1"),
    "schedule.finished": caught("OUT-6"),
    "schedule.common_prefix": caught("OUT-4"),
    "schedule.encoder_inputs": caught("OUT-14"),
    "schedule.evicted_items": caught("OUT-15"),
    "schedule.item_answers": INPUT,
    "schedule.connector_items": caught("OUT-21"),
    "schedule.zeroed": caught("GROUP-26"),
    **post("schedule", "RUN-19"),
    **dict.fromkeys(("output.step", "output.ids"), Damage()),
    "output.counts": INPUT,
    "output.eos": INPUT,
    "output.stop": INPUT,
    "output.rejected": INPUT,
    "output.chain": INPUT,
    "update.step": Damage(),
    "update.ids": caught("UPD-2", "UPD-3", "UPD-9", "LIFE-2"),
    "update.tokens": caught("UPD-3", "DRAFT-9", "DRAFT-10"),
    "update.finish.id": caught("UPD-4", "UPD-50", "UPD-54", "LIFE-2"),
    "update.finish.reason": caught("UPD-4", "UPD-50", "UPD-54", "LIFE-2"),
    "update.finish.by_stop_id": caught("UPD-4"),
    "update.finish.why": caught("LIFE-2"),
    "update.turns.id": caught("SESS-6"),
    "update.turns.taken.tokens": caught("SESS-3"),
    "update.turns.taken.chain": INPUT,
    **post("update", "UPD-5"),
    "draft.ids": INPUT,
    "draft.counts": INPUT,
    **{f"update.events.{n}": caught("OUT-8", "OUT-9", "OUT-10") for n in EVENT},
    "update.events.group": caught("OUT-8", "OUT-9"),
    "update.events.kind": caught("OUT-8"),
    "update.events.window": caught("OUT-8"),
    "state.step": caught("UPD-7"),
    "state.running": caught("RUN-19", "RUN-22"),
    "state.waiting": caught("WAIT-12", "WAIT-1"),
    "state.skipped": caught("WAIT-45"),
    "state.requests.id": caught("LIFE-12"),
    "state.requests.status": caught("LIFE-12"),
    "state.requests.computed": caught("UPD-1"),
    "state.requests.tokens": caught("UPD-3"),
    "state.requests.blocks": caught("POOL-10", "GROUP-6"),
    "state.free_queue": caught("QUEUE-10"),
    "state.ref_cnt": caught("POOL-2"),
    "state.chains": caught("HASH-12"),
    "state.chain_groups": caught("HASH-12"),
    "state.encoder.num_free_slots": caught("ENC-12", "ENC-54"),
    "state.encoder.num_freeable_slots": caught("ENC-14"),
    "state.encoder.cached": caught("ENC-12", "ENC-14"),
    "state.encoder.freeable": caught("ENC-9"),
    "state.encoder.to_forget": caught("ENC-52"),
    "state.encoder.at_connector": Damage(),
    "state.remote.received": caught("REMOTE-13"),
    "state.remote.failed": caught("REMOTE-26"),
    "state.remote.kept.id": caught("REMOTE-4"),
    "state.remote.kept.blocks": caught("POOL-10"),
    "error.during": Explained(),
    "error.reset_running": Explained(),
    "error.type": Unobserved("that the engine raised is what counts"),
    "lost.reason": Unsaid(),
    **{f"end.{name}": Damage() for name in ("steps", "records", "sha256")},
}
"""Each field, and what becomes of a trace in which it is altered."""
MIDDLE: dict[str, Expected] = {
    **{
        f"state.requests.{name}": INPUT
        for name in (
            *("prompt", "max_tokens", "min_tokens", "priority", "arrival", "chain"),
            *("skip_reading_prefix_cache", "placeholders", "discard", "num_cached"),
            "states_before",
            *("drafts", "chunk", "adapter"),
            *(f"items.{field}" for field in ("item", "offset", "length", "is_embed")),
        )
    },
    "state.requests.tie": Unobserved("no two arrived at one time here; add.tie has its cases"),
    "state.requests.preemptions": Unobserved("no decision depends on it"),
    "state.requests.features": Unsaid(),
    "state.requests.name": Unobserved("a request's own id is for people"),
    **{f"state.requests.session.{name}": INPUT for name in ("ended", "by_stop_id")},
    "state.requests.session.lost": Unobserved("in vllm-0.22.1 who lost some is in no queue"),
    **{f"state.requests.session.chunks.{name}": INPUT for name in ("prompt", "min_tokens")},
    "state.requests.session.chunks.max_tokens": Unobserved("in vllm-0.22.1 the first one counts"),
    "state.requests.session.chunks.arrival": INPUT,
    "state.requests.session.chunks.tie": Unobserved("no two arrived at one time here"),
    "state.requests.session.chunks.features": Unsaid(),
    **{
        f"state.requests.session.chunks.items.{name}": INPUT
        for name in ("item", "offset", "length", "is_embed")
    },
    **{f"state.in_flight.{name}": INPUT for name in ("step", "ids", "owed", "drafts")},
    "state.in_flight.tokens": Unobserved("computed counts them already"),
    "state.in_flight.gone": Unsaid(),
    **{f"state.{name}": INPUT for name in ("finished", "previous", "pause_state", "heap")},
}
"""What a recording that begins in the middle of a run says of it, and the rules go on from."""
NUMBERED = ("chunk.taken.chain", "update.turns.taken.chain")
"""Content that is new to a trace: another number for it skips one, or stands for too much."""
FITS_ANOTHER_SIZE = (
    *("turns by priority", "uncached", "recorded uncached"),
    *("encoder-decoder", "recorded encoder-decoder"),
)
"""The prompts of the first have as many full blocks of one token more; of the others nobody has
numbers.
"""
IN_FILES = ("header.part", "gap.records", "gap.reason", "end.continued")
"""Only a recording that goes on in another file, or after a gap, has them: test_check_midway.py,
and below.
"""
NAMED = ("feature.name", "header.observed.feature")
"""Nothing behind what is named is judged: test_recorder_calls.py, test_check_unknown.py."""
IN_PARTS = ("header.recording", "part.number", "part.recording")
"""Only a recording of several files has them."""


def opened(name: str, path: str) -> Lines:
    """A trace to alter: without its seal, unless that is what is altered."""
    lines = bases()[name]
    if path.startswith("end") or path in KEPT:
        return lines
    lines = [line for line in lines if line["ev"] != "end"]
    for key in ("sealed", "config_sha256"):
        lines[0].pop(key, None)
    return lines


def test_no_field_is_forgotten() -> None:
    """The table has every field that the types have, and no other; it names rules that exist."""
    told = [*TABLE, *MIDDLE, *IN_FILES, *NAMED]
    assert sorted(told) == sorted(".".join(path) for path in every_field())
    named = [rule for e in TABLE.values() if isinstance(e, Caught) for rule in e.rules]
    assert set(named) <= {s.id for s in catalogue()}


@pytest.mark.parametrize("name", bases())
def test_what_is_altered_conforms_before(name: str) -> None:
    """It is the alteration that is noticed."""
    assert judge(opened(name, "")).verdict == ("INCONCLUSIVE" if name == "lost" else "CONFORMS")


@pytest.mark.parametrize("path", sorted(set(TABLE) - set(IN_PARTS)))
def test_an_altered_field(path: str) -> None:
    """Several occurrences of it, in several traces, each altered alone."""
    expected = TABLE[path]
    names = [name for name in bases() if name != "lost" or path == "lost.reason"]
    if path == "header.config.block_size":
        names = [name for name in names if name not in FITS_ANOTHER_SIZE]
    traces = [opened(name, path) for name in names]
    if path == "header.sealed":
        traces = [lines for lines in traces if lines[-1]["ev"] == "end"]
    found = each_alteration(traces, path, expected)
    if path in NUMBERED:
        assert "CONFORMS" not in found
    elif path == "header.config.spec_method":
        assert "INCONCLUSIVE" in found  # an EAGLE-like method is hidden
    elif isinstance(expected, (Caught, Input)):
        assert "VIOLATION" in found


@pytest.mark.parametrize("name", FITS_ANOTHER_SIZE)
def test_a_block_size_that_every_prompt_fits_is_told_by_the_first_decision(name: str) -> None:
    """No prompt contradicts it: the blocks that are given out do, as soon as they are others."""
    before = opened(name, "")
    ((_, lines),) = alterations(before, ("header", "config", "block_size"))
    verdict, size = judge(lines), before[0]["config"]["block_size"]
    ends = (line for line in before if line["ev"] == "schedule" and _ends_with_a_block(line, size))
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert (verdict.first.rule, verdict.first.line) == ("POOL-10", before.index(next(ends)) + 1)


def _ends_with_a_block(schedule: dict[str, Any], size: int) -> bool:
    """Whether larger blocks are fewer: somebody has more tokens than a multiple of one more."""
    told = schedule.get("cached", {"ids": [], "computed": []})
    before = dict(zip(told["ids"], told["computed"], strict=True))
    before |= {new["id"]: new["computed"] for new in schedule.get("new", ())}
    after = [before[r] + n for r, n in zip(schedule["ids"], schedule["tokens"], strict=True)]
    return any(-(-n // size) != -(-n // (size + 1)) for n in after)


@pytest.mark.parametrize("name", midway())
def test_a_state_to_go_on_from_conforms_before(name: str) -> None:
    """It is the alteration that is noticed there, too."""
    assert judge(midway()[name]).verdict == "CONFORMS"


@pytest.mark.parametrize("path", MIDDLE)
def test_an_altered_field_of_a_state_to_go_on_from(path: str) -> None:
    """Of the first state of a recording, which the rules take for granted."""
    expected, traces = MIDDLE[path], midway().values()
    found = each_alteration(traces, path, expected)
    if isinstance(expected, Input):
        assert set(found) != {"CONFORMS"}


def test_an_altered_gap() -> None:
    """What is lost is told, and nothing more is concluded from it."""
    header, *rest = midway()["fcfs"]
    for records, reason in ((3, "full"), (4, "full"), (3, "")):
        gap = {"ev": "gap", "records": records, "reason": reason}
        verdict = judge([header, gap, *rest])
        assert verdict.verdict == "INCONCLUSIVE" and verdict.first is None
        said = f"{records} records that the recorder lost"
        assert verdict.missing == [said + f" ({reason})" * bool(reason)]


@pytest.mark.parametrize("path", IN_PARTS)
def test_an_altered_field_of_a_recording_in_parts(path: str, tmp_path: Path) -> None:
    """What ties the files of a recording together is checked."""
    lines = opened("busy", path)
    lines[0]["recording"] = "r"
    part = {"ev": "part", "number": 2, "recording": "r"}
    half = len(lines) // 2
    files = [lines[:half], [part, *lines[half:]]]

    def written() -> Verdict:
        for number, content in enumerate(files, start=1):
            data = "".join(json.dumps(line) + "\n" for line in content)
            (tmp_path / f"{number:04d}.jsonl").write_text(data)
        return check(tmp_path, deep=False)

    assert written().verdict == "CONFORMS"
    kind, name = path.split(".")
    holder = lines[0] if kind == "header" else part
    holder[name] = 3 if name == "number" else "s"
    verdict = written()
    assert verdict.verdict == "MALFORMED"
    assert verdict.first is not None and verdict.first.file.endswith("0002.jsonl")
