"""What a replay came to, as JSON and as a table for people."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from nullblock.conformance.replaying.configuration import as_written, budget
from nullblock.conformance.replaying.engine import ReplayEngineName
from nullblock.conformance.replaying.run import Result
from nullblock.conformance.replaying.series import Distribution
from nullblock.conformance.workloads.formats import Format

Json = dict[str, Any]


def ratio(part: float, whole: float) -> float | None:
    """A share, or None of nothing."""
    return part / whole if whole else None


def as_json(result: Result) -> Json:
    """Every figure. Times are seconds on the clock; only ``wall`` differs from run to run."""
    plan, figures, totals = result.plan, result.figures, result.figures.totals
    levels = {
        name: {"mean": figures.mean(name), "peak": figures.peaks[name]}
        for name in ("running", "waiting", "held", "cached")
    }
    tokens = totals.prefill_tokens + totals.decode_tokens + totals.recomputed_tokens
    return {
        "label": plan.label,
        "workload": str(plan.workload),
        "format": result.format.value,
        "notes": notes(result),
        "engine": plan.engine.value,
        "profile": None if plan.engine == ReplayEngineName.vllm else plan.profile,
        "config": as_written(plan.config),
        "config_text": plan.config_text,
        "step_time": asdict(plan.step_time),
        "pace": {**asdict(plan.pace), "scale": plan.scale, "shared_prefix": plan.shared_prefix},
        "end": end(result),
        "requests": {
            "arrived": totals.arrived,
            "finished": totals.finished,
            "rejected": totals.rejected,
            "unfinished": result.unfinished,
            "left_out_too_long": result.too_long,
            "output_shortened": result.shortened,
        },
        "clock_seconds": figures.clock,
        "steps": totals.steps,
        "decisions": figures.decisions(),
        "tokens": {
            "prefill": totals.prefill_tokens,
            "decode": totals.decode_tokens,
            "recomputed": totals.recomputed_tokens,
            "per_step": ratio(tokens, totals.steps),
            "per_second": ratio(tokens, figures.clock),
            "budget": budget(plan.config),
        },
        "prefix_cache": {
            "looked_up_tokens": totals.looked_up_tokens,
            "hit_tokens": totals.hit_tokens,
            "hit_rate_tokens": ratio(totals.hit_tokens, totals.looked_up_tokens),
            "looked_up_blocks": totals.looked_up_blocks,
            "hit_blocks": totals.hit_blocks,
            "hit_rate_blocks": ratio(totals.hit_blocks, totals.looked_up_blocks),
            "seen_before_tokens": totals.seen_tokens if figures.seen.complete else None,
            "resumed_hit_tokens": totals.resumed_hit_tokens,
            "evictions": totals.evictions,
        },
        "preemptions": totals.preemptions,
        "resumptions": totals.resumptions,
        "usable_blocks": figures.usable,
        "levels": levels,
        "seconds": {
            "queue_wait": figures.waits.queue.figures(),
            "time_to_first_token": figures.waits.first_token.figures(),
            "between_tokens": figures.waits.between_tokens.figures(),
            "latency": figures.waits.end.figures(),
        },
        "trace": None if plan.trace is None else str(plan.trace),
        "wall": {
            "seconds": result.wall_seconds,
            "steps_per_second": ratio(totals.steps, result.wall_seconds),
        },
    }


def end(result: Result) -> str:
    """How the replay ended."""
    if result.raised is not None:
        return f"the engine raised {result.raised}"
    if result.stuck:
        return f"stuck: {result.unfinished} requests are left that are never served"
    return "interrupted" if result.interrupted else "complete"


def notes(result: Result) -> list[str]:
    """What a reader has to know to read the figures right."""
    said = list(result.notes)
    if result.too_long:
        said.append(
            f"{result.too_long:,} requests are left out: their prompts are longer than "
            "max_model_len or the pool"
        )
    if result.shortened:
        said.append(f"{result.shortened:,} outputs are cut where max_model_len or the pool ends")
    if result.format == Format.weka and result.plan.shared_prefix:
        said.append(f"all sessions begin with {result.plan.shared_prefix} tokens in common")
    return said


def number(value: float | int | None) -> str:
    """A count with its thousands, or a figure with three digits that matter."""
    if value is None:
        return "–"
    if isinstance(value, int) or value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    """A duration."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f} s"
    return f"{value:.3g} s" if value >= 1 or not value else f"{value * 1000:.3g} ms"


def percent(value: float | None) -> str:
    """A share."""
    return "–" if value is None else f"{value:.1%}"


def ceiling(result: Result) -> float | None:
    """The share of prompt tokens that had arrived before, of those that were looked up.

    None where not everything was watched, or where requests arrived and were not admitted.
    """
    totals = result.figures.totals
    if not result.figures.seen.complete or result.unfinished or totals.rejected:
        return None
    return ratio(totals.seen_tokens, totals.looked_up_tokens)


Rows = list[tuple[str, str]]


def rows(result: Result) -> Rows:
    """Titles and values, with an empty title before each group."""
    totals, figures = result.figures.totals, result.figures
    requests = [f"{totals.arrived:,} arrived", f"{totals.finished:,} finished"]
    for many, what in (
        (totals.rejected, "rejected"),
        (result.unfinished, "unfinished"),
        (result.too_long, "too long"),
    ):
        if many:
            requests.append(f"{many:,} {what}")
    tokens = totals.prefill_tokens + totals.decode_tokens + totals.recomputed_tokens
    return [
        ("requests", ", ".join(requests)),
        ("time on the clock", seconds(figures.clock)),
        ("steps", f"{totals.steps:,}"),
        (
            "tokens a step",
            f"{number(ratio(tokens, totals.steps))} of {budget(result.plan.config):,}",
        ),
        ("", ""),
        ("prefill tokens", f"{totals.prefill_tokens:,}"),
        ("decode tokens", f"{totals.decode_tokens:,}"),
        ("computed again", f"{totals.recomputed_tokens:,}"),
        ("", ""),
        ("hit rate, tokens", _share(totals.hit_tokens, totals.looked_up_tokens)),
        ("hit rate, blocks", _share(totals.hit_blocks, totals.looked_up_blocks)),
        ("in an unlimited cache", f"up to {percent(ceiling(result))}"),
        ("evictions", f"{totals.evictions:,} blocks"),
        ("", ""),
        ("preemptions", f"{totals.preemptions:,} ({totals.resumptions:,} resumed)"),
        ("pool held", _level(result, "held", figures.usable)),
        ("running", _level(result, "running")),
        ("waiting", _level(result, "waiting")),
        ("", ""),
        ("wait in the queue", _durations(figures.waits.queue)),
        ("time to first token", _durations(figures.waits.first_token)),
        ("from token to token", _durations(figures.waits.between_tokens)),
        ("latency", _durations(figures.waits.end)),
    ]


def _share(part: int, whole: int) -> str:
    return f"{percent(ratio(part, whole))} ({part:,} of {whole:,})"


def _level(result: Result, name: str, of: int | None = None) -> str:
    mean, peak = result.figures.mean(name), result.figures.peaks[name]
    if of:
        return f"mean {percent(mean / of)}, peak {percent(peak / of)} of {of:,} blocks"
    return f"mean {number(mean)}, peak {number(int(peak))}"


def _durations(found: Distribution) -> str:
    told = found.figures()
    return ", ".join(f"{name} {seconds(told[name])}" for name in ("p50", "p90", "p99"))


def agreement(results: Sequence[Result]) -> list[str]:
    """Of engines under one configuration, whether they decided the same."""
    told = []
    for text in dict.fromkeys(result.plan.config_text for result in results):
        group = [result for result in results if result.plan.config_text == text]
        if len(group) < 2:
            continue
        *most, last = (result.plan.engine.value for result in group)
        names = f"{', '.join(most)} and {last}"
        alike = len({result.figures.decisions() for result in group}) == 1
        steps = f"{group[0].figures.totals.steps:,} steps"
        where = "" if len(group) == len(results) else f" under {text}"
        told.append(
            f"{names} decided the same in all {steps}{where}"
            if alike
            else f"{names} decided differently{where}: nullblock check tells where by the trace"
        )
    return told


def table(results: list[Result]) -> Table:
    """A column a run."""
    made = Table(box=None, show_header=len(results) > 1, pad_edge=False)
    made.add_column("")
    for result in results:
        made.add_column(result.plan.label, overflow="fold")
    for line in zip(*(rows(result) for result in results), strict=True):
        made.add_row(line[0][0], *(value for _, value in line))
    made.add_section()
    made.add_row("wall time", *(_wall(result) for result in results))
    return made


def _wall(result: Result) -> str:
    rate = ratio(result.figures.totals.steps, result.wall_seconds)
    return f"{result.wall_seconds:.1f} s, {number(rate)} steps a second"
