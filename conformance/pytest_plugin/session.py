"""One session: the scheduler, the profile and the seed, and what is collected and said of them."""

import secrets
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance.errors import InputError
from nullblock.conformance.pytest_plugin import loading
from nullblock.conformance.pytest_plugin.items import PROPERTY, Collected
from nullblock.spec.profiles import UnknownSwitch, profile
from nullblock.spec.switches import with_switches

ENDS = ("passed", "failed", "skipped")


class Conformance:
    """The plugin's hooks, and the values that its items share."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options; raises :class:`pytest.UsageError` with one line."""
        options = config.option
        self.root = config.invocation_params.dir
        loading.find_modules_from([str(self.root)])
        settings: list[str] = options.nullblock_set
        self.label = ", ".join([options.nullblock_profile, *settings])
        try:
            self.semantics = with_switches(profile(options.nullblock_profile), settings)
            self.loaded = loading.load(
                options.nullblock_scheduler,
                options.nullblock_async_scheduler,
                options.nullblock_features,
                self.semantics,
            )
        except (InputError, UnknownSwitch) as error:
            raise pytest.UsageError(str(error)) from None
        self.subject = self.loaded.subject
        # A worker of pytest-xdist is told what the session that started it has decided.
        told: dict[str, Any] = getattr(config, "workerinput", {})
        chosen = options.nullblock_seed
        fresh = secrets.randbelow(10**9) if chosen is None else chosen
        self.seed: int = told.get("nullblock_seed", fresh)
        named = config.args_source == pytest.Config.ArgsSource.ARGS
        self.alone: bool = told.get("nullblock_alone", not named)
        self.steps: int = options.nullblock_steps
        self.out: Path = self.root / options.nullblock_out
        self.replays = [self.root / name for name in options.nullblock_replay]
        self.commands = _commands(options)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what it cannot know."""
        node.workerinput["nullblock_seed"] = self.seed
        node.workerinput["nullblock_alone"] = self.alone

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Collect the conformance tests before everything else, or instead of it."""
        report = yield
        if isinstance(collector, pytest.Session) and report.result is not None:
            ours = Collected.from_parent(
                collector, name="nullblock", nodeid="nullblock", conformance=self
            )
            report.result = [ours, *([] if self.alone else report.result)]
        return report

    def pytest_report_header(self) -> list[str]:
        """What is under test, and how to repeat it."""
        subject = self.subject
        lines = [
            f"nullblock: {subject.name} beside {self.label}, seed {self.seed} "
            f"(--nullblock-seed {self.seed})"
        ]
        shown = {"full": "decisions and state", "brief": "decisions, queues and requests"}
        compared = shown.get(subject.shows, "decisions alone")
        why = f" ({self.loaded.hidden})" if self.loaded.hidden else ""
        lines.append(f"nullblock: compared are {compared}{why}")
        reasons = self.loaded.lacking
        for reason in dict.fromkeys(reasons.values()):
            named = ", ".join(sorted(f.value for f in reasons if reasons[f] == reason))
            lines.append(f"nullblock: not asked for: {named}: {reason}")
        return lines

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What each family came to: nothing here is called proved."""
        stats: dict[str, list[Any]] = terminalreporter.stats
        told = [line for kind in ENDS for line in _told(stats.get(kind, []))]
        vectors = {kind: sum(map(_is_vector, stats.get(kind, []))) for kind in ENDS}
        if vectors["passed"] + vectors["failed"]:
            counted = ", ".join(f"{n} {kind}" for kind, n in vectors.items() if n)
            told.append(f"golden vectors: {counted}")
        if told:
            terminalreporter.section(f"{self.subject.name} beside {self.label}")
            for line in told:
                terminalreporter.line(f"  {line}")


def _told(reports: list[Any]) -> list[str]:
    return [line for r in reports for name, line in r.user_properties if name == PROPERTY]


def _is_vector(report: Any) -> bool:
    return str(report.nodeid).startswith("nullblock::vector-")


def _commands(options: Any) -> str:
    """The options that say what is under test, as they stand on a command line."""
    parts = [
        f"{flag} {value}"
        for flag, value in (
            ("--nullblock-scheduler", options.nullblock_scheduler),
            ("--nullblock-async-scheduler", options.nullblock_async_scheduler),
            ("--nullblock-features", options.nullblock_features),
        )
        if value
    ]
    if options.nullblock_profile != "vllm-0.22.1":
        parts.append(f"--nullblock-profile {options.nullblock_profile}")
    return " ".join([*parts, *(f"--nullblock-set {value}" for value in options.nullblock_set)])
