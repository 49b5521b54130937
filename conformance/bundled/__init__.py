"""The recording that comes with the package; README.md beside it says where it is from."""

from pathlib import Path

TRACE = Path(__file__).with_name("mooncake-conversation.jsonl.zst")
"""The real vLLM 0.22.1 scheduler under the Mooncake conversation workload."""
