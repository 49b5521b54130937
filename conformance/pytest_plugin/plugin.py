"""What pytest loads in every session where nullblock is installed: options, and nothing else.

The rest of this project is imported only if a scheduler is named.
"""

import pytest

STEPS = 2000
SCHEDULER, ASYNC_SCHEDULER = "--nullblock-scheduler", "--nullblock-async-scheduler"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which begin with ``--nullblock``."""
    group = parser.getgroup("nullblock", "a scheduler beside the specification")
    group.addoption(
        SCHEDULER,
        metavar="MODULE:CLASS",
        help="a class of vLLM's shape, or a function that makes a nullblock Engine; without "
        "paths nothing else is collected",
    )
    group.addoption(
        ASYNC_SCHEDULER,
        metavar="MODULE:CLASS",
        help="the class that schedules ahead of the outputs, if it is another one",
    )
    group.addoption(
        "--nullblock-profile", metavar="NAME", default="vllm-0.22.1", help="default: %(default)s"
    )
    group.addoption(
        "--nullblock-set",
        metavar="SWITCH=VALUE",
        action="append",
        default=[],
        help="change a switch of the profile",
    )
    group.addoption(
        "--nullblock-steps",
        metavar="N",
        type=int,
        default=STEPS,
        help="steps for each family of scenarios; default: %(default)s",
    )
    group.addoption(
        "--nullblock-seed", metavar="S", type=int, help="default: a fresh one, printed first"
    )
    group.addoption(
        "--nullblock-features",
        metavar="NAMES",
        help="what to ask for: names with commas between them, no-NAME to leave one out, or all; "
        "default: what the class does, as far as a front end lets it through",
    )
    group.addoption(
        "--nullblock-replay",
        metavar="SCENARIO.json",
        action="append",
        default=[],
        help="run these scenarios alone",
    )
    group.addoption(
        "--nullblock-out",
        metavar="DIR",
        default="nullblock-failures",
        help="where scenarios that fail are kept; default: %(default)s",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Bring in the rest, if a scheduler is named."""
    config.addinivalue_line("markers", "nullblock: a scheduler beside the specification")
    options = config.option
    if options.nullblock_scheduler or options.nullblock_async_scheduler:
        from nullblock.conformance.pytest_plugin.session import Conformance

        config.pluginmanager.register(Conformance(config), "nullblock-conformance")
    elif options.nullblock_replay:
        raise pytest.UsageError(f"--nullblock-replay: name the scheduler with {SCHEDULER}")
