"""The engine's configuration for a replay: presets, files and single settings.

Written ``PART,PART,...``, where a later part wins: the name of a preset, a JSON or TOML file with
the keys of a scenario's ``config``, or ``KEY=VALUE``.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from nullblock.conformance import scenario, strict_json
from nullblock.conformance.errors import InputError, OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Config

_SERVE = {
    "block_size": 16,
    "num_blocks": 32768,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 1024,
    "max_model_len": 131072,
    "async_scheduling": True,
}
PRESETS: dict[str, dict[str, Any]] = {
    "vllm": _SERVE,
    "vllm-sync": {**_SERVE, "async_scheduling": False},
    "vllm-small": {
        **_SERVE,
        "num_blocks": 8192,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 256,
        "max_model_len": 32768,
    },
}
"""``vllm serve`` of 0.22.1 without options, on a GPU of 70 GiB or more and on a smaller one; the
pool's size is that of 512 or 128 thousand tokens, since it depends on the model."""
DEFAULT = "vllm"
_WITHOUT = (
    ("num_spec_tokens", "drafts: no workload tells which of them a model accepts"),
    ("kv_events", "the KV event stream"),
)
"""What a replay does without, and nullblock run and trace do."""


def configuration(text: str) -> Config:
    """The configuration that the parts make.

    Raises:
        ScenarioError: a part that is none, or a value that cannot be.
        OutOfScope: a feature that no engine has, or that a replay does without.
        OSError: a file cannot be read.
    """
    written = PRESETS[DEFAULT] | parts(text)
    try:
        config = scenario.from_dict({"config": written, "events": []}).config
    except InputError as error:
        place = error.place.removeprefix("config.").removeprefix("config")
        raise error.at(place=f"--config {text}: {place}".removesuffix(": ")) from None
    for key, what in _WITHOUT:
        if getattr(config, key):
            remedy = f"leave {key} out, or write a scenario: nullblock run and trace play it"
            raise OutOfScope(f"a replay does without {what}", remedy, "--config")
    if config.pipeline_parallel_size > 1:
        what = "a replay does without pipeline parallelism"
        raise ScenarioError(what, "leave pipeline_parallel_size out", "--config")
    return config


def parts(text: str) -> dict[str, Any]:
    """The keys that the parts write, a later part winning. Raises as `configuration` does."""
    written: dict[str, Any] = {}
    for part in text.split(","):
        written |= _part(part.strip())
    return written


def _part(part: str) -> dict[str, Any]:
    if part in PRESETS:
        return PRESETS[part]
    key, equals, value = part.partition("=")
    if equals:
        return {key.strip(): _value(value.strip())}
    path = Path(part)
    if path.suffix not in (".json", ".toml"):
        known = ", ".join(PRESETS)
        what = f"{part!r} is no preset, no .json or .toml file and no KEY=VALUE"
        raise ScenarioError(what, f"presets: {known}", "--config")
    return _file(path)


def _value(text: str) -> Any:
    """A value as JSON writes it; what is none is a word."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def _file(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    if path.suffix == ".json":
        try:
            found = strict_json.loads(data)
        except InputError as error:
            raise error.at(file=str(path)) from None
    else:
        try:
            found = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"not TOML: {error}", file=str(path)) from None
    found = found.get("config", found) if isinstance(found, dict) else found
    if not isinstance(found, dict):
        raise ScenarioError("no configuration", 'write {"num_blocks": 4096}', file=str(path))
    return found


def room(config: Config) -> int:
    """Tokens that a request may grow to without being one that is never served."""
    usable = (config.num_blocks - 1) * config.block_size
    tokens = min(config.max_model_len, usable)
    if not config.enable_chunked_prefill and config.long_prefill_token_threshold <= 0:
        budget = config.max_num_scheduled_tokens or config.max_num_batched_tokens
        tokens = min(tokens, budget)
    return tokens


def budget(config: Config) -> int:
    """Tokens that a step may have."""
    return config.max_num_scheduled_tokens or config.max_num_batched_tokens


def as_written(config: Config) -> dict[str, Any]:
    """The keys that decisions depend on."""
    keys = (
        *("block_size", "num_blocks", "max_num_seqs", "max_model_len"),
        *("long_prefill_token_threshold", "enable_chunked_prefill", "enable_prefix_caching"),
        *("scheduler_reserve_full_isl", "policy", "async_scheduling"),
    )
    fields = {key: getattr(config, key) for key in keys}
    fields["max_num_batched_tokens"] = budget(config)
    if config.async_scheduling:
        fields["queue_depth"] = config.queue_depth
    return fields
