"""The discipline that proofs rest on is kept, and every breach of it would be noticed."""

import pytest

from nullblock.spec.lint import Names, lint, lint_machine, lint_readings, lint_rules

NAMES = Names(
    rules=frozenset({"fire", "other"}),
    readings=frozenset({"ready", "left"}),
    machine=frozenset({"step"}),
)
LOOP = "loop(s, until=lambda: ready(s), decreases=lambda: left(s), changes=A)"
A_MACHINE = f"""
def step(s, r):
    if ready(s):
        fire(s, r)
    for _ in {LOOP}:
        x = s.run[s.at]
        fire(s, x)
    return True
"""
A_RULE = """
def _help(s, r):
    s.x[r] = 1

@rule("POOL-1", "R")
def fire(s, r):
    require(ready(s), "ready")
    s.y = least(left(s), 3)
    _help(s, r)
"""


def test_the_specification_keeps_the_discipline() -> None:
    """No breach in the machine, the rules, the readings and the invariants."""
    assert lint() == []


def test_what_is_allowed_is_not_reported() -> None:
    """Ifs, loops with an outline, rules fired, readings asked, guards before writes."""
    assert lint_machine(A_MACHINE, NAMES) == []
    assert lint_rules(A_RULE, NAMES) == []
    assert lint_readings("def ready(s):\n    return s.x == 1\n", NAMES) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    s.x = 1", "writes s.x"),
        ("    s.x[0] += 1", "writes s.x[0]"),
        ("    del s.x[0]", "writes s.x[0]"),
        ("    s.k.fill(s.x, 0, 1, 2)", "writes s.k.fill(s.x, 0, 1, 2)"),
        ("    while ready(s):\n        fire(s)", "While in the machine"),
        ("    try:\n        fire(s)\n    finally:\n        pass", "Try in the machine"),
        ("    y = [r for r in s.run]", "ListComp in the machine"),
        ("    print(s)", "calls print"),
        ("    s.k.add(s.x, 1)\n    setattr(s, 'x', 1)", "calls setattr"),
        ("    s = t", "binds s anew"),
        ("    for r in s.run:\n        fire(s, r)", "a loop without loop()"),
        ("    for r in rs:\n        x = 1", "more than fire rules"),
        (f"    for _ in {LOOP}:\n        fire(s, x)\n        x = 1", "the loop carries x"),
        (f"    for _ in {LOOP}:\n        x = 1\n    fire(s, x)", "the loop carries x"),
        (f"    for _ in {LOOP}:\n        x += 1\n        fire(s, x)", "the loop carries x"),
        ("    match s.x:\n        case 1:\n            fire(s)", "Match in the machine"),
        ("    raise ValueError", "Raise in the machine"),
        (f"    for _ in {LOOP}:\n        fire(s)\n    else:\n        fire(s)", "loop with else"),
        ("    def inner():\n        fire(s)", "FunctionDef in the machine"),
    ],
)
def test_a_breach_in_the_machine_is_reported(body: str, words: str) -> None:
    """The machine writes nothing itself, calls rules and readings only, and loops by loop()."""
    found = lint_machine(f"def step(s, rs):\n{body}\n", NAMES)
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('    s.x = 1\n    require(ready(s), "late")', "a guard after the first write"),
        ('    _help(s)\n    require(ready(s), "late")', "a guard after the first write"),
        (
            '    s.k.fill_row(s.x, 0, 1, 2, 3)\n    require(ready(s), "late")',
            "after the first write",
        ),
        ("    fire(s)", "calls fire"),
        ("    step(s)", "calls step"),
        ("    sorted(s.x)", "calls sorted"),
        ("    for b in s.x:\n        s.y = b", "For in a rule"),
        ("    while s.x:\n        s.y = 1", "While in a rule"),
        ("    s.y = {b: 1 for b in s.x}", "DictComp in a rule"),
    ],
)
def test_a_breach_in_a_rule_is_reported(body: str, words: str) -> None:
    """A rule guards, then writes, fires no other rule and does not loop."""
    text = f"def _help(s):\n    s.x = 2\n\n@rule('POOL-1')\ndef broken(s):\n{body}\n"
    found = lint_rules(text, NAMES)
    assert any(words in line for line in found), found


def test_a_guard_belongs_to_a_rule() -> None:
    """A helper that guards would be enabled by nobody."""
    found = lint_rules('def _help(s):\n    require(ready(s), "no")\n', NAMES)
    assert any("a guard outside a rule" in line for line in found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    s.x = 1", "writes s.x"),
        ("    s.k.fill(s.x, 0, 1, 2)", "a reading writes s.k.fill(s.x, 0, 1, 2)"),
        ("    fire(s)", "calls fire"),
        ("    step(s)", "calls step"),
        ('    require(s.x, "x")', "calls require"),
        ("    s.x.update(s.y)", "calls s.x.update"),
        ("    setattr(s, 'x', 1)", "calls setattr"),
    ],
)
def test_a_breach_in_a_reading_is_reported(body: str, words: str) -> None:
    """Readings and invariants change nothing."""
    found = lint_readings(f"def ready(s):\n{body}\n", NAMES)
    assert any(words in line for line in found), found
