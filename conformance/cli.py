"""The ``nullblock`` command.

One module a command under ``conformance/commands/``. It defines ``command``, a function with
Typer-annotated parameters whose docstring is the command's help, and ends with
``typer.Exit(code)`` where the code is not 0; or ``COMMANDS``, several of them by name, and
``ABOUT``, the help of them all. A module is imported only when its command runs or all commands
are listed, and it keeps heavy imports (Z3, engines) inside functions: ``nullblock run`` must not
wait for the prover.
"""

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COMMANDS = (
    *("explore", "prove", "ledger", "mutate", "run", "check", "trace", "serve-trace", "replay"),
    *("import", "schema", "rules", "profiles", "lines", "defects", "workflow"),
)
"""In the order in which ``--help`` shows them."""

USAGE = 2
"""A mistake on the command line."""
INTERRUPTED = 130
"""What a shell reports for a command that Ctrl-C ended."""
PIPE_CLOSED = 141
"""What a shell reports for a command whose reader went away."""
STOPPED = 74
"""It could not go on: a full disk, no memory, a terminal that cannot show a character."""


class _LazyCommands(TyperGroup):
    """Finds commands by module name, and imports the one that is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands there are."""
        return [name for name in COMMANDS if find_spec(module_of(name)) is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command called ``cmd_name``, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        application, module = _application(), import_module(module_of(cmd_name))
        if hasattr(module, "COMMANDS"):
            application.callback(help=module.ABOUT)(lambda: None)
            for name, command in module.COMMANDS.items():
                application.command(name)(_guarded(command))
        else:
            application.command(cmd_name)(_guarded(module.command))
        found = typer.main.get_command(application)
        found.name = cmd_name
        return found


def module_of(name: str) -> str:
    """Where a command is defined."""
    # A word of the language is no name for a module, nor is one with a dash.
    return f"nullblock.conformance.commands.{name.replace('-', '_')}{'_' * iskeyword(name)}"


def _application(**options: Any) -> typer.Typer:
    """Typer without its own completion and tracebacks."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        **options,
    )


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a quiet end when it is interrupted or nobody reads on."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(PIPE_CLOSED) from None

    return guarded


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # what that imports takes as long as the checker

        typer.echo(f"nullblock {version('nullblock')}")
        raise typer.Exit


app = _application(cls=_LazyCommands)


@app.callback()
def nullblock(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The executable, model-checked specification of paged KV-cache scheduling."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script: runs a command line (default: this process's) and returns its exit code.

    A mistake on the command line gets one line on standard error, and 2.
    """
    signal.signal(signal.SIGTERM, _terminate)
    _prepare_streams()
    try:
        code = app(args=arguments, prog_name="nullblock", standalone_mode=False)
        sys.stdout.flush()
    except _USAGE_ERROR as error:
        where = error.ctx.command_path if error.ctx is not None else "nullblock"
        message = " ".join(error.format_message().split()).replace("Value error, ", "")
        print(f"{where}: {message} (see {where} --help)", file=sys.stderr)
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as error:
        # What the help ends with when nobody reads on.
        if error.code != 1:
            raise
        _discard_output()
        return PIPE_CLOSED
    except (OSError, UnicodeError, MemoryError) as error:
        _discard_output()
        print(f"nullblock: stopped: {_reason(error)}", file=sys.stderr)
        return STOPPED
    return code if isinstance(code, int) else 0


_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")
"""Typer brings its own copy of Click or uses an installed one, by release."""


def _prepare_streams() -> None:
    """Streams that are closed become empty ones; no character is too strange for a terminal."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (open as long as we run)
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _discard_output() -> None:
    """Python flushes standard output once more at exit, and would complain again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    said = getattr(error, "strerror", None) or str(error)
    return " ".join(said.split())


def _terminate(number: int, frame: object) -> None:
    """Let a terminated command clean up: half-written files are removed on the way out."""
    raise SystemExit(128 + number)
