"""For ``nullblock replay --engine vllm --preload THIS FILE``: vLLM publishes KV events.

A replay has no such setting, since no engine of ours records events there; the recorder inside
vLLM records what is published. Nobody listens: they are taken as they are handed to the publisher.
"""

import runpy
import sys
from functools import partial
from pathlib import Path

ORACLE = Path(__file__).resolve().parent.parent / "tests" / "oracle"
sys.path.insert(0, str(ORACLE))
runpy.run_path(str(ORACLE / "preload.py"))

from nullblock.conformance.adapters.vllm import vllm_config  # noqa: E402  (after what it needs)

vllm_config.vllm_config = partial(vllm_config.vllm_config, kv_events=True)
