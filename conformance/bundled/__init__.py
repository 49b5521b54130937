"""The recordings that come with the package; README.md beside them says where they are from."""

from pathlib import Path

TRACE = Path(__file__).with_name("mooncake-conversation.jsonl.zst")
"""The real vLLM 0.22.1 scheduler under the Mooncake conversation workload."""
CROWDED = Path(__file__).with_name("crowded-priority.jsonl.zst")
"""The same scheduler with PRIORITY in a pool that is too small, under a made-up workload."""

DRAFTED = Path(__file__).with_name("drafted-eagle.jsonl.zst")
"""The same scheduler with drafts of an EAGLE-like method, under another made-up workload."""

AGENTS = Path(__file__).with_name("weka-agents.jsonl.zst")
"""The same scheduler under the agentic sessions of WEKA, with its KV events."""


def traces() -> list[Path]:
    """Every recording, in the order of their names."""
    return sorted(p for p in Path(__file__).parent.iterdir() if ".jsonl" in p.name)
