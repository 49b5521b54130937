"""What a reader of a kernel may rely on: a twin, a rule, bounds of loops, tests on a GPU."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nullblock.spec.catalogue import FAMILIES

KERNELS, TESTS = Path(__file__).parents[3] / "kernels", Path(__file__).parents[1]
FOLDERS = ("attention", "batch", "cache", "control", "sampling")
RULE = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-[1-9][0-9]*\b")
MADE_OF_OTHERS = {"batch/update.py update_batch"}
"""Launches nothing itself: it calls wrappers that have twins."""

IN_RING = "the ring, by `load_queue`"
IN_ROW = "a row's blocks, by `bounded`"
IN_RUNS = "the tables of those who run, by `lay_out`"
IN_ROWS = "the rows, by `bounded`"
GIVEN = "the wrapper's argument, which it checks"
LOOPS = {
    "cache.py claim_slots": "turns: slots of the index, and lanes",
    "cache.py find": "turns: slots of the index",
    "decision.py _tell_blocks": IN_RUNS,
    "decision.py _common_prefix": IN_ROW,
    "decision.py _tell_ends": IN_ROWS,
    "evict.py evict_kernel": GIVEN,
    "grant.py give_blocks": IN_RUNS,
    "intake.py intake_kernel": "the mailbox, by `tl.minimum`",
    "intake.py _copy_tokens": "a row's tokens, looked at by `_arrive`",
    "keys.py name_row": "a row's tokens, by `bounded`",
    "lookup.py find_prefix": "a row's tokens, by `bounded`",
    "next_waiting.py _least": "the waiting queue's ring, by `load_waiting`",
    "publish.py publish": IN_RUNS,
    "publish.py _name": IN_ROW,
    "publish.py _name (2)": IN_RUNS,
    "queues.py close_waiting": "the waiting queue's ring, by `load_waiting`",
    "release.py _count": IN_RUNS,
    "release.py _group": IN_RUNS,
    "release.py _place": IN_RUNS,
    "ring.py pop_front": IN_RING,
    "ring.py close_holes": IN_RING,
    "running_phase.py running_phase": "turns: twice max_num_seqs",
    "running_phase.py _make_way": "who runs, by `num_running`; each turn one less",
    "running_phase.py _uncache": IN_ROW,
    "take.py take_kernel": GIVEN,
    "tell.py _copy": "what the log has room for, by `bounded`",
    "touch.py touch_kernel": GIVEN,
    "waiting_phase.py waiting_phase": "max_num_seqs: each turn one more, or the last",
    "waiting_phase.py _hold": "a row's tokens, by `find_prefix`",
}
"""In control/, what bounds each `while` of a device function: also where the state lies, which
`tests/impl/device/test_device_counts.py` plays. Elsewhere loops are `for`, over what a wrapper
knows or checks."""


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """The files of kernels: name, text, tree."""
    for folder in FOLDERS:
        for path in sorted((KERNELS / folder).glob("*.py")):
            text = path.read_text()
            yield f"{folder}/{path.name}", text, ast.parse(text)


def functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """The functions of a file, and whether they run on a device."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, any("jit" in ast.unparse(mark) for mark in node.decorator_list)


def wrappers(tree: ast.Module) -> Iterator[str]:
    """Functions that take either backend."""
    for function, on_device in functions(tree):
        names = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
        if not on_device and "backend" in names:
            yield function.name


def whiles(tree: ast.Module) -> Iterator[str]:
    """The functions with a `while` that run on a device, a name for each loop."""
    for function, on_device in functions(tree):
        found = [node for node in ast.walk(function) if isinstance(node, ast.While)]
        for nth, _ in enumerate(found if on_device else [], start=1):
            yield function.name if nth == 1 else f"{function.name} ({nth})"


def test_every_folder_is_tested_on_a_gpu_too() -> None:
    """Compiled, only tests run that take `device`: some of each folder's kernels do."""
    for folder in FOLDERS:
        texts = [path.read_text() for path in (TESTS / folder).glob("test_*.py")]
        taken = [
            function.name
            for text in texts
            for function, _ in functions(ast.parse(text))
            if function.name.startswith("test_")
            and "device" in {one.arg for one in function.args.args}
        ]
        assert len(taken) >= 5, folder


def test_every_wrapper_has_its_twin_beside_it() -> None:
    """`NAME` and `NAME_torch` stand in one file: a reader sees what the kernel computes."""
    found, lacking = Counter[str](), set[str]()
    for name, _, tree in modules():
        there = {function.name for function, _ in functions(tree)}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                there |= {ast.unparse(target) for target in node.targets}
        for wrapper in wrappers(tree):
            found[name.partition("/")[0]] += 1
            if f"{wrapper}_torch" not in there:
                lacking.add(f"{name} {wrapper}")
    assert lacking == MADE_OF_OTHERS and set(found) == set(FOLDERS)


def test_every_wrapper_says_which_rule() -> None:
    """Its file names a rule of the specification; `tests/tidy` sees that there are such rules."""
    named = {name: RULE.findall(text) for name, text, tree in modules() if any(wrappers(tree))}
    assert len(named) > 20 and [name for name, rules in named.items() if not rules] == []


def test_every_loop_of_a_device_has_a_bound() -> None:
    """Each `while` is one whose bound somebody has written down, and none is gone."""
    found = {f"{name} {loop}" for name, _, tree in modules() for loop in whiles(tree)}
    assert found == {f"control/{loop}" for loop in LOOPS}
