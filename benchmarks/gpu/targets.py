"""The figures that the project set itself for one H200: the names that tables refer to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the list."""

    name: str
    figure: str
    target: str
    moonshot: str


GOALS = (
    Goal("step-256", "schedule + allocate + free, in graph, 256 running", "15 µs", "8 µs"),
    Goal("step-1024", "schedule + allocate + free, in graph, 1024 running", "20 µs", "10 µs"),
    Goal("step-4096", "schedule + allocate + free, in graph, 4096 running", "40 µs", "20 µs"),
    Goal("prepare-256", "batch preparation, 256 running", "8 µs", "4 µs"),
    Goal("prepare-4096", "batch preparation, 4096 running", "20 µs", "10 µs"),
    Goal(
        "decode-attention",
        "paged decode attention, ≥ 32 requests, ≥ 4k context, page 16, GQA",
        "84 % of measured copy bandwidth",
        "≥ 90 %",
    ),
    Goal(
        "prefill-attention",
        "prefill attention, bf16, head 128, causal, 8k",
        "57 % of the measured matmul rate",
        "76 %",
    ),
    Goal("kv-write", "KV write, 64k tokens", "85 % of copy bandwidth", "95 %"),
    Goal(
        "divergences",
        "divergences from the spec",
        "0 in 1,000,000 random steps",
        "and on every bundled trace",
    ),
)
