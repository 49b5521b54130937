"""Files and functions stay small enough to be read: from the first day, without exemption."""

import ast

from project import name_of, parsed, python_files

MOST_LINES_A_FILE = 400
MOST_LINES_A_FUNCTION = 70


def test_no_file_is_longer_than_its_limit() -> None:
    """A Python file has at most 400 lines."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in python_files()}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_A_FILE} == {}


def test_no_function_is_longer_than_its_limit() -> None:
    """A function, its docstring included, has at most 70 lines."""
    too_long = {
        f"{name_of(path)}:{node.lineno} {node.name}": length
        for path in python_files()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_A_FUNCTION
    }
    assert too_long == {}
