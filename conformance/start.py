"""Where the console script begins: Ctrl-C is quiet from the first import on."""


def main() -> int:
    """Run the command line."""
    try:
        from nullblock.conformance.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        return 130
