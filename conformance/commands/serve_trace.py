"""``nullblock serve-trace``: a small model serves a workload, token by token; a trace of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from nullblock.conformance import options
from nullblock.conformance.adapters import decoder
from nullblock.conformance.commands.trace import check_numbers
from nullblock.conformance.console import Screen, check_output, complain, usage_error
from nullblock.conformance.engines import DeviceName
from nullblock.conformance.errors import InputError
from nullblock.conformance.files import write_atomically
from nullblock.conformance.options import NORMATIVE, ProfileName, Settings
from nullblock.conformance.replaying.configuration import parts
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.serving import options as o
from nullblock.conformance.serving import summary
from nullblock.conformance.serving.play import Delivery, Figures, vocabulary
from nullblock.conformance.serving.run import Run, drawn_scenario, read_scenario
from nullblock.conformance.serving.workload import Span, parse_span

INCONCLUSIVE = 3
DRAWN = {"requests", "prompt_tokens", "shared_prefix", "families"}
"""What a text leaves no room for."""


def command(
    source: o.Source = None,
    text: o.Text = None,
    requests: o.Requests = None,
    prompt_tokens: o.PromptTokens = None,
    output_tokens: o.OutputTokens = None,
    shared_prefix: o.SharedPrefix = None,
    families: o.Families = None,
    every: o.Every = None,
    seed: o.Seed = None,
    engine: o.Engines = o.ServingEngine.impl,
    device: o.Device = DeviceName.cpu,
    config: o.Config = None,
    profile_name: ProfileName = NORMATIVE,
    settings: Settings = None,
    model_seed: o.ModelSeed = 0,
    layers: o.Layers = 3,
    dtype: o.DTypes = o.DType.float32,
    verify: o.Verify = False,
    output: o.Output = None,
    scenario_file: o.Scenario = None,
    stream: o.Stream = False,
    as_json: o.AsJson = False,
) -> None:
    """Serve a workload with a small decoder of random weights: real tokens from the engine's
    decisions, over a paged cache in which every slot holds NaN until somebody writes it.

    The workload is drawn, or given: texts, whose bytes are the tokens, or a scenario.
    `nullblock check` judges the trace; `--verify` compares the tokens with those that the same
    weights give without a cache.

    Exit codes: 0 served; 1 a token is wrong, something raised, or somebody is not served to the
    end; 2 command line; 3 torch is missing, a feature is out of scope, or float32 does not decide
    a token; 4 wrong content of a scenario.
    """
    given = _given(
        texts=tuple(text) if text else None,
        requests=requests,
        prompt_tokens=_span(prompt_tokens, "--prompt-tokens"),
        output_tokens=_span(output_tokens, "--output-tokens"),
        shared_prefix=shared_prefix,
        families=families,
        every=every,
        seed=seed,
    )
    _check_files(source, given, output, scenario_file)
    settled = options.semantics(profile_name, settings), options.label(profile_name, settings)
    try:
        document, taken = _scenario(source, given, config)
        vocab = vocabulary(taken, summary.BYTES)
        model = decoder.Settings(
            vocab, layers, model_seed, "cuda" if device == DeviceName.cuda else "cpu", dtype.value
        )
        run = Run(taken, engine.value, device, *settled, model, output)
        figures = run.serve(_teller(vocab) if stream and not as_json else _quiet, verify)
        if scenario_file is not None:
            write_atomically(scenario_file, json.dumps(document).encode() + b"\n")
    except InputError as error:
        complain(error.at(file=error.file or str(source or "")), as_json)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        raise usage_error(f"{error.filename or output}: {error.strerror or error}") from None
    _show(figures, model, output, as_json)
    raise typer.Exit(_code(figures))


def _given(**options: Any) -> dict[str, Any]:
    """Those that were."""
    return {key: value for key, value in options.items() if value is not None}


def _span(text: str | None, option: str) -> Span | None:
    if text is None:
        return None
    try:
        return parse_span(text)
    except ValueError:
        what = f"{text!r} is neither a number of tokens, from 1 on, nor LOW:HIGH"
        raise usage_error(what, option) from None


def _check_files(
    source: Path | None, given: dict[str, Any], output: Path | None, scenario_file: Path | None
) -> None:
    """Say before anything runs what cannot be."""
    inputs = [] if source is None else [str(source)]
    if source is not None and given:
        option = "--" + min(given).replace("_", "-").replace("texts", "text")
        raise usage_error("a scenario says itself who arrives, when and with what", option)
    if "texts" in given and (drawn := given.keys() & DRAWN):
        raise usage_error("with --text nothing is drawn but outputs", "--" + min(drawn))
    check_output(output, inputs)
    check_output(scenario_file, inputs, "--scenario")


def _scenario(
    source: Path | None, given: dict[str, Any], config: str | None
) -> tuple[dict[str, Any], Scenario]:
    changes = parts(config) if config else {}
    found = drawn_scenario(given, changes) if source is None else read_scenario(source, changes)
    check_numbers(found[1])
    return found


def _quiet(delivery: Delivery) -> None:
    """Say nothing."""


def _teller(vocab: int) -> Callable[[Delivery], None]:
    """Prints a token."""

    def tell(delivery: Delivery) -> None:
        one, step = delivery.request, delivery.step
        said = summary.spelled([delivery.token], vocab)
        end = f"  ({one.finish})" if one.finish else ""
        print(f"step {step:>5}  {one.id}  {delivery.token:>5}  {said}{end}", flush=True)

    return tell


def _show(figures: Figures, model: decoder.Settings, trace: Path | None, as_json: bool) -> None:
    """Tables, or all of it as JSON."""
    if as_json:
        print(json.dumps({"trace": trace and str(trace), **summary.as_json(figures)}))
        return
    screen, exact = Screen(), model.dtype == o.DType.float32
    screen.print(summary.requests_table(figures, model.vocab))
    screen.print()
    lines = [*summary.figures_lines(figures), *summary.verdict_lines(figures, exact)]
    if trace is not None:
        lines.append(f"trace: {trace}")
    for line in lines:
        screen.print(line, markup=False, highlight=False, soft_wrap=True)


def _code(figures: Figures) -> int:
    said = summary.outcome(figures)
    if figures.raised is not None or figures.count(None) or said["wrong"]:
        return 1
    return INCONCLUSIVE if said["undecided"] else 0
