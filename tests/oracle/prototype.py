"""The drivers with which this project was specified, which lie beside some checkouts.

They were written before the driver here, by others, and read the real engine for themselves: what
they print is a second opinion on what the real engine does.
"""

from pathlib import Path
from typing import Any

from oracle.client import Oracle

FOLDER = Path(__file__).parents[3] / "shared" / "oracle"
MODULES = {"0.22.1": "drive", "0.32.0": "drive_any"}
"""By release, which of them drives it."""
SERVER = Path(__file__).with_name("serve_prototype.py")

Scenario = dict[str, Any]

_ADD = (
    *("id", "prompt", "max_tokens", "min_tokens", "priority", "arrival", "lora", "lora_id"),
    *("salt", "stop", "eos", "eos_at", "skip_cache_read", "resumable"),
)
EVENTS = {
    "add": _ADD,
    **dict.fromkeys(("schedule", "update", "drain"), ()),
    **{"step": ("n",), "run": ("max_steps",), "abort": ("ids", "status"), "pause": ("state",)},
    **{"reset_prefix_cache": ("reset_running",), "evict_blocks": ("ids",)},
    "kv_done": ("recv", "send"),
}
"""The events that they know, with their keys but ``op``."""
NEWER = ("drafts", "encoder", "include_finished_set")
NEWER += ("decode_context_parallel_size", "prefill_context_parallel_size")
"""Settings that they do not know."""
CONNECTOR = ("matched", "async", "delay_free")


class Prototype(Oracle):
    """A server of the prototype for a release."""

    def __init__(self, python: Path, release: str) -> None:
        super().__init__(python)
        self.command = [str(python), "-B", str(SERVER), str(FOLDER), MODULES[release]]


def in_its_words(document: Scenario, release: str) -> Scenario:
    """A scenario that asks only for what the prototype of a release plays: of this one what it
    can say.

    The one for any release leaves out what 0.32.0 works out from its configuration beside a draft
    model, for hashes of a size of their own, and beside a connector with several steps in flight.
    """
    config = {k: v for k, v in document["config"].items() if k not in NEWER}
    groups = [g for g in config.get("groups", ()) if g["type"] != "cross_attention"]
    if "groups" in config:
        config["groups"] = groups or [{"type": "full"}]
    if isinstance(config.get("accept"), list):
        config["accept"] = [number or 0 for number in config["accept"]]
    if config.get("connector"):
        config["connector"] = _connector(config["connector"])
    if MODULES[release] == "drive_any":
        config.pop("hash_block_size", None)
        if config.get("spec_method") == "draft_model":
            config["spec_method"] = "eagle"
        if config.get("async_scheduling") or config.get("pipeline_parallel_size", 1) > 1:
            config.pop("connector", None)
    ops = EVENTS.keys() - (set() if config.get("connector") else {"kv_done"})
    known = (event for event in document["events"] if event["op"] in ops)
    events = [{k: e[k] for k in ("op", *EVENTS[e["op"]]) if k in e} for e in known]
    return {"config": config, "events": events}


def _connector(scripted: dict[str, Any]) -> dict[str, Any]:
    """What loads asynchronously, or keeps blocks, does so for all or for nobody."""
    kept = {key: scripted[key] for key in CONNECTOR if key in scripted}
    return {k: v if k == "matched" else bool(v) for k, v in kept.items()}
