"""KV connectors: what a scheduler asks of one, and where that of a configuration comes from."""

import enum
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol

from nullblock.reference.request import Request


class KVConnectorRole(enum.Enum):
    """Whose side of a connector an object is."""

    SCHEDULER = 0
    WORKER = 1


class KVConnector(Protocol):
    """The scheduler's side of a connector. Other methods of vLLM's are not called here."""

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        """Tokens to load beyond those that are computed here (None: not known yet), and whether
        the load takes longer than the step.
        """
        ...

    def update_state_after_alloc(
        self, request: Request, blocks: Any, num_external_tokens: int
    ) -> None:
        """A request has its blocks, so many tokens of which are to be loaded."""
        ...

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """What workers are told with a step."""
        ...

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        """Whether the blocks must stay until they are sent, and what the client is told.

        A connector with ``request_finished_all_groups`` is asked that, with the blocks of every
        group.
        """
        ...

    def update_connector_output(self, connector_output: Any) -> None:
        """What the workers' side reports."""
        ...

    def on_new_request(self, request: Request) -> None:
        """A request was queued."""
        ...

    def take_events(self) -> Iterable[Any] | None:
        """KV events of the connector's own."""
        ...

    def get_kv_connector_stats(self) -> Any:
        """What this side has counted; None for nothing. Asked where workers tell some."""
        ...

    def reset_cache(self) -> bool | None:
        """Empty the remote cache; False if it was not done."""
        ...

    def shutdown(self) -> None:
        """No more calls will come."""
        ...


class KVConnectorFactory:
    """Makes the connector that a configuration names."""

    _registry: dict[str, tuple[str, str]] = {}
    """By name, the module and its class."""

    @classmethod
    def register_connector(cls, name: str, module_path: str, class_name: str) -> None:
        """Give a connector a name. Raises ``ValueError`` if the name is taken."""
        if name in cls._registry:
            raise ValueError(f"a connector {name!r} is registered already")
        cls._registry[name] = module_path, class_name

    @classmethod
    def create_connector(cls, config: Any, role: KVConnectorRole, kv_cache_config: Any) -> Any:
        """The connector of ``config.kv_transfer_config``. Raises ``ValueError`` if it is unknown.

        ``kv_connector_module_path`` says where the class is; without it the name is registered.
        """
        wanted = config.kv_transfer_config
        name = wanted.kv_connector
        module_path = getattr(wanted, "kv_connector_module_path", None)
        if module_path is None:
            if name not in cls._registry:
                raise ValueError(f"no connector {name!r} is registered")
            module_path, name = cls._registry[name]
        return getattr(import_module(module_path), name)(config, role, kv_cache_config)
