"""What the plots show, in sentences."""

from nullblock.conformance.replaying import summary
from nullblock.conformance.replaying.configuration import budget
from nullblock.conformance.replaying.run import Result

_FULL = 0.98
_MANY = 0.2


def findings(result: Result) -> list[str]:
    """The remarkable ones first."""
    told = [_end(result), _pool(result), _queue(result), _hits(result), _preemptions(result)]
    told.append(_budget(result))
    return [one for one in told if one]


def _end(result: Result) -> str:
    how = summary.end(result)
    return "" if how == "complete" else f"The replay did not end well: {how}."


def _pool(result: Result) -> str:
    figures = result.figures
    spans = [(one.span, one.mean("held") or 0.0) for one in figures.timeline.bins if one.span]
    whole = sum(span for span, _ in spans)
    full = sum(span for span, held in spans if held >= _FULL * figures.usable)
    if not whole or not figures.usable:
        return ""
    if full / whole >= _MANY:
        return (
            f"For {full / whole:.0%} of the time nearly all {figures.usable:,} blocks were held: "
            "the pool decides how many requests run."
        )
    mean, peak = figures.mean("held"), figures.peaks["held"]
    of = f"{figures.usable:,} blocks"
    return (
        f"Requests held {mean / figures.usable:.0%} of {of}, {peak / figures.usable:.0%} at most."
    )


def _queue(result: Result) -> str:
    waits, figures = result.figures.waits, result.figures
    median, last = waits.queue.quantile(0.5), waits.queue.quantile(0.99)
    if median is None or last is None:
        return ""
    if last < 2 * result.plan.step_time.of(budget(result.plan.config)):
        return "Requests hardly waited: the engine kept up with the arrivals."
    return (
        f"Half of the requests waited longer than {summary.seconds(median)} to be admitted, one "
        f"in a hundred longer than {summary.seconds(last)}; at most "
        f"{figures.peaks['waiting']:,.0f} waited at once."
    )


def _hits(result: Result) -> str:
    totals = result.figures.totals
    if not totals.looked_up_tokens:
        return ""
    rate = summary.percent(totals.hit_tokens / totals.looked_up_tokens)
    most = summary.ceiling(result)
    if most is None:
        return f"The prefix cache spared {rate} of the prompt tokens."
    if not totals.seen_tokens:
        return "No prompt began like one before it: there was nothing to hit."
    return (
        f"The prefix cache spared {rate} of the prompt tokens; without a limit to its size it "
        f"could have spared {summary.percent(most)}."
    )


def _preemptions(result: Result) -> str:
    totals = result.figures.totals
    if not totals.preemptions:
        return "Nobody was preempted."
    again = totals.recomputed_tokens
    share = again / max(1, totals.prefill_tokens + totals.decode_tokens + again)
    times = "once" if totals.preemptions == 1 else f"{totals.preemptions:,} times"
    return (
        f"A request was preempted {times}; {again:,} tokens ({share:.2%} of all) were computed "
        "again for that."
    )


def _budget(result: Result) -> str:
    totals = result.figures.totals
    tokens = totals.prefill_tokens + totals.decode_tokens + totals.recomputed_tokens
    if not totals.steps:
        return ""
    share = tokens / totals.steps / budget(result.plan.config)
    return f"A step used {share:.0%} of its token budget on average."
