"""What serving came to, as JSON and as tables for people."""

from collections import Counter
from typing import Any

from rich.console import JustifyMethod
from rich.table import Table

from nullblock.conformance.serving.play import Figures, Served

BYTES = 256
_WIDTH = 48
"""Characters of a request's tokens in the table."""


def spelled(tokens: list[int], vocab: int) -> str:
    """Tokens as text, where they are bytes, or as numbers."""
    if vocab > BYTES:
        return " ".join(map(str, tokens))
    return bytes(tokens).decode("latin-1").encode("unicode_escape").decode("ascii")


def outcome(figures: Figures) -> Counter[str]:
    """How many requests were right, wrong and undecided; empty if nobody asked."""
    return Counter(one.verdict["outcome"] for one in figures.requests if one.verdict)


def as_json(figures: Figures) -> dict[str, Any]:
    """Every request, and every figure. Only ``wall`` differs from run to run."""
    return {
        "requests": [
            {
                "id": one.id,
                "prompt": one.prompt,
                "tokens": one.tokens,
                "finish": one.finish,
                "why": one.why,
                "hit_tokens": one.hits,
                "preemptions": one.preemptions,
                "verdict": one.verdict,
            }
            for one in figures.requests
        ],
        "steps": figures.steps,
        "tokens": {"sampled": figures.sampled, "computed": figures.computed},
        "hit_tokens": figures.total("hits"),
        "preemptions": figures.total("preemptions"),
        "chunks": figures.chunks,
        "most_together": figures.most_together,
        "unfinished": figures.count(None),
        "raised": figures.raised,
        "verdicts": dict(outcome(figures)),
        "wall": {
            "seconds": figures.seconds,
            "model_seconds": figures.model_seconds,
            "tokens_per_second": figures.sampled / figures.seconds if figures.seconds else None,
        },
    }


def requests_table(figures: Figures, vocab: int) -> Table:
    """A line for each request."""
    table = Table(box=None, pad_edge=False)
    for name in ("request", "prompt", "hits", "preempted", "end"):
        justify: JustifyMethod = "left" if name in ("request", "end") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    if outcome(figures):
        table.add_column("verified", no_wrap=True)
    table.add_column("tokens", no_wrap=True)
    for one in figures.requests:
        said = [one.verdict["outcome"] if one.verdict else ""] * bool(outcome(figures))
        numbers = (len(one.prompt), one.hits, one.preemptions)
        tokens = spelled(one.tokens, vocab)
        tokens = tokens if len(tokens) <= _WIDTH else tokens[: _WIDTH - 1] + "…"
        table.add_row(_plain(one.id), *map(str, numbers), one.finish or "–", *said, _plain(tokens))
    return table


def _plain(text: str) -> str:
    """Text that no markup is read into."""
    return text.replace("[", r"\[")


def figures_lines(figures: Figures) -> list[str]:
    """What all came to together, a line for each thing."""
    rate = figures.sampled / figures.seconds if figures.seconds else 0.0
    share = figures.model_seconds / figures.seconds if figures.seconds else 0.0
    lines = [
        f"{len(figures.requests)} requests, {figures.steps} steps, at most "
        f"{figures.most_together} requests in one",
        f"{figures.sampled} tokens sampled, {figures.computed} computed, "
        f"{figures.total('hits')} found in the prefix cache",
        f"{figures.total('preemptions')} preemptions, {figures.chunks} chunks",
        f"{rate:,.0f} tokens/s, {share:.0%} of the time in the model, the rest in deciding and "
        "writing it down",
    ]
    if figures.count(None):
        lines.append(f"{figures.count(None)} requests were not served to their end")
    if figures.raised is not None:
        lines.append(f"raised {figures.raised}")
    return lines


def verdict_lines(figures: Figures, exact: bool) -> list[str]:
    """What the comparison with the unpaged decoder said, `exact` or by the allowance of a type."""
    said = outcome(figures)
    if not said:
        return []
    wrong = [one for one in figures.requests if one.verdict and one.verdict["at"] is not None]
    lines = [_told(one) for one in wrong]
    margins = [one.verdict["margin"] for one in figures.requests if one.verdict and one.tokens]
    if not wrong:
        least = min((m for m in margins if m is not None), default=0.0)
        until = "until then " if figures.raised is not None else ""
        have = "have the tokens" if exact else "have tokens within the allowance"
        lines.append(
            f"{until}all {said['right']} requests {have} of the decoder without a cache "
            f"(least margin {least:.4f})"
        )
    return lines


def _told(one: Served) -> str:
    assert one.verdict is not None
    at, margin, expected = (one.verdict[key] for key in ("at", "margin", "expected"))
    if one.verdict["outcome"] == "undecided":
        return (
            f"request {one.id}, output token {at}: UNDECIDED: the first logit is only {margin:g} "
            "above the second; take another --seed or --model-seed"
        )
    return (
        f"request {one.id}, output token {at}: WRONG: {one.tokens[at]} was served, without a "
        f"cache it is {expected} (least margin {margin:g})"
    )
