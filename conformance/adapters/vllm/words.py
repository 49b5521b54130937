"""What the recorder says in the server's log: each line names who speaks, for vLLM's own form of a
line names but a file.
"""

import logging
from collections.abc import MutableMapping
from typing import Any


class _Named(logging.LoggerAdapter):  # type: ignore[type-arg,unused-ignore]
    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """The line with the name in front."""
        return f"nullblock: {msg}", kwargs


logger = _Named(logging.getLogger("vllm.nullblock"), {})
