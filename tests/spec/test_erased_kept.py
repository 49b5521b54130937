"""A kept form is the form that the text has now, or it is not taken."""

import marshal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from erased_lockstep import Objects
from test_erased import SMALL

from nullblock.spec import later
from nullblock.spec.erased import kept
from nullblock.spec.erased.program import erased, residual
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.rules.steps import skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where forms are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nullblock"


def environment(**changes: Any) -> Objects:
    """An environment with a state."""
    k = Objects(replace(SMALL, **changes))
    k.start()
    return k


def same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions do the same things to the same things."""
    a, b = one.__code__, other.__code__
    return (a.co_code, a.co_consts, a.co_names) == (b.co_code, b.co_consts, b.co_names)


def test_the_second_time_it_is_not_erased(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same program comes back, for another environment, without the eraser; so does the rule
    of each of its lines, and what it names from outside.
    """
    first = kept.kept(schedule, environment())
    monkeypatch.setattr(kept, "residual", None)
    k = environment()
    again = kept.kept(schedule, k)
    assert same(first, again)
    monkeypatch.undo()
    names = residual(schedule, k)[2]
    assert {n: again.__globals__[n] for n in names} == names
    assert len(list(folder.iterdir())) == 1


def other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def granted(s: Any, n: Any) -> Any:
        return n + 1

    monkeypatch.setattr(later.granted, "__code__", granted.__code__)


def other_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(s: Any, r: Any) -> None:
        s.at += 2

    monkeypatch.setattr(skip.body, "__code__", body.__code__)


def other_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "headroom", lambda s: 1)


def other_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "WAIT_PHASE", 7)


def other_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objects, "full", lambda self, tokens: tokens)


@pytest.mark.parametrize(
    "change", [other_code, other_rule, other_function, other_constant, other_environment]
)
def test_what_was_made_of_something_else_is_not_taken(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function, a rule, a constant or a method that is another one now is noticed, though no
    file has changed: through modules, guards and the classes of the environment.
    """
    before = kept.made_of(schedule, environment())
    assert kept.made_of(schedule, environment()) == before
    change(monkeypatch)
    assert kept.made_of(schedule, environment()) != before


def test_each_configuration_has_its_own() -> None:
    """Sizes and switches are part of what a form is made of."""
    plain = kept.made_of(schedule, environment())
    assert kept.made_of(schedule, environment(block_size=4)) != plain
    switched = replace(SMALL.semantics, never_scheduled_back=False)
    assert kept.made_of(schedule, environment(semantics=switched)) != plain


@pytest.mark.parametrize("content", ["", "{", "{}", '{"names": {}, "rules": [], "text": "("}'])
def test_a_damaged_file_is_written_anew(
    content: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is believed that cannot be read: the text is erased, and kept."""
    first = kept.kept(schedule, environment())
    [file] = folder.iterdir()
    file.write_text(content)
    assert same(kept.kept(schedule, environment()), first)
    monkeypatch.setattr(kept, "residual", None)
    assert same(kept.kept(schedule, environment()), first)


def test_a_file_that_was_changed_is_not_run(folder: Path) -> None:
    """Though it can be read: it is not what was kept."""
    first = kept.kept(schedule, environment())
    [file] = folder.iterdir()
    name, _, outside, rules = marshal.loads(file.read_bytes()[32:])
    other = compile(f"def {name}(s, fired): raise AssertionError", "<other>", "exec")
    file.write_bytes(file.read_bytes()[:32] + marshal.dumps((name, other, outside, rules)))
    assert same(kept.kept(schedule, environment()), first)


def test_without_a_folder_it_is_erased_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be written, nothing is kept."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    k = environment()
    assert same(kept.kept(schedule, k), erased(schedule, k))
