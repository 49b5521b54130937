"""The small decoder as a model for the fast engine. Torch is imported when it is asked for."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from nullblock.conformance.engine import Engine, Fields
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.groups import size_of_chains
from nullblock.conformance.scenario_format import Config

if TYPE_CHECKING:
    from nullblock.impl.decoder import Weights, Worker
    from nullblock.impl.step import Step

MOST_TOKENS = 2**16
"""In the vocabulary."""
MOST_BYTES = 2**33
"""That the cache may take."""

Device = Literal["cpu", "cuda"]
Type = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Which model, and where it computes."""

    vocab: int
    layers: int
    seed: int
    device: Device
    dtype: Type


def check(settings: Settings) -> None:
    """Raise OutOfScope, in one line, where that model cannot be had."""
    for package in ("torch", "triton"):
        if find_spec(package) is None:
            raise OutOfScope(f"the small model needs {package}", "pip install 'nullblock[gpu]'")
    if settings.vocab > MOST_TOKENS:
        raise OutOfScope(
            f"a vocabulary of {settings.vocab} tokens for the small model",
            f"it has at most {MOST_TOKENS}",
        )


def create(engine: Engine, config: Config, settings: Settings) -> "Decoder":
    """A model that computes the steps of an engine that `adapters.impl` made.

    Raises OutOfScope.
    """
    check(settings)
    from nullblock.impl.decoder import Shape, Worker, place, random_weights, use_one_thread
    from nullblock.impl.decoder.paged import size_in_bytes

    shape = Shape(vocab_size=settings.vocab, num_layers=settings.layers)
    block_size = size_of_chains(config)  # ranks are not told apart: this one has whole blocks
    takes = size_in_bytes(shape, config.num_blocks, block_size)
    if takes > MOST_BYTES:
        raise OutOfScope(
            f"a cache of {takes} bytes for the small model",
            f"num_blocks * block_size: at most {MOST_BYTES} bytes",
            "config.num_blocks",
        )
    use_one_thread()
    try:
        weights = place(random_weights(shape, settings.seed), settings.device, settings.dtype)
    except ValueError as error:
        raise OutOfScope(f"the small model: {error}", "--device cpu") from error
    try:
        worker = Worker(weights, config.num_blocks, block_size)
    except ValueError as error:
        raise OutOfScope(f"the small model: {error}", place="config.block_size") from error
    return Decoder(engine, weights, worker)


class Decoder:
    """Implements :class:`nullblock.conformance.serving.play.Model`."""

    def __init__(self, engine: Any, weights: "Weights", worker: "Worker") -> None:
        self.engine, self.weights, self.worker = engine, weights, worker

    def compute(self) -> dict[str, int]:
        """Compute the step decided last."""
        step: Step = self.engine.decided
        return dict(zip(step.ids, self.worker.execute(step).tolist(), strict=True))

    def judge(self, prompt: list[int], served: list[int]) -> Fields:
        """Compare with the decoder without a cache."""
        from nullblock.impl.decoder import judge

        verdict = judge(self.weights, prompt, served)
        return {
            "outcome": verdict.outcome.value,
            "margin": round(verdict.margin, 6) if served else None,
            "at": verdict.at,
            "expected": verdict.expected,
        }
