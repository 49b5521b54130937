"""Every kernel compiles for GPUs that are not here, and needs no more of them than it did."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import triton

from nullblock.kernels.checks import budget
from nullblock.kernels.checks.budget import complaints
from nullblock.kernels.checks.compiling import Compiled, Needs

HERE = Path(__file__).parent
COMPILED = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": str(HERE)}
TOYS = """
import json, toys
from dataclasses import asdict
from nullblock.kernels.checks.compiling import Needs, compile_all
from nullblock.kernels.checks.shipped import launches, undeclared
found = launches(toys)
made = list(compile_all(found, ["sm_90", "gfx942"]))
measured = {one.digest: Needs(7, 7, 7, 7) for one in made if one.needs}
print(json.dumps({
    "launches": [[one.name, one.types, one.options] for one in found],
    "undeclared": undeclared(found, toys),
    "compiled": [asdict(one) for one in made],
    "again": [asdict(one) for one in compile_all(found, ["sm_90", "gfx942"], measured)],
}))
"""
NEEDS = Needs(registers=40, spills=0, shared=1024, matrix=8)
ONE = Compiled("a.kernel", "small", "multiples of 16", "sm_90", NEEDS, "da39a3ee")
LIMITS = {ONE.key: NEEDS}


@pytest.mark.slow
def test_every_kernel_is_within_its_budget() -> None:
    """All kernels compile for sm_90, sm_100 and gfx942, none needs more registers, spills or
    shared memory than the budget says, and none is missing from it."""
    command = [sys.executable, "-m", "nullblock.kernels.checks.aot", "--json"]
    run = subprocess.run(command, env=COMPILED, capture_output=True, text=True)
    assert run.stdout, run.stderr
    document = json.loads(run.stdout)
    assert document["wrong"] == [] and run.returncode == 0
    assert document["budget"] == (budget.read(triton.__version__) is not None)
    assert {one["target"] for one in document["compiled"]} == {"sm_90", "sm_100", "gfx942"}


def test_a_package_of_kernels() -> None:
    """What an example launches is compiled as the wrapper chose it, integers in three ways; what
    does not compile and what nobody launches is found."""
    run = subprocess.run(
        [sys.executable, "-c", TOYS], env=COMPILED, capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    assert found["launches"] == [
        [
            "toys.things.ships",
            {"x": "*i32", "out": "*i32", "n": "i32", "WIDTH": "constexpr"},
            {"num_warps": 2},
        ],
        ["toys.things.breaks", {"x": "*i32", "WIDTH": "constexpr"}, {}],
    ]
    assert found["undeclared"] == ["toys.things.forgotten"]
    good = {(c["integers"], c["target"]): c["needs"] for c in found["compiled"] if c["needs"]}
    assert list(good) == [
        ("multiples of 16", "sm_90"),
        ("any integers", "sm_90"),
        ("ones", "sm_90"),
        ("multiples of 16", "gfx942"),
    ]
    assert all(0 < needs["registers"] <= 32 and not needs["spills"] for needs in good.values())
    digests = [c["digest"] for c in found["compiled"]]
    assert len(set(digests)) == len(digests) and digests == [c["digest"] for c in found["again"]]
    sevens = [c["needs"]["registers"] == 7 for c in found["again"] if c["needs"]]
    assert sevens == [True] * len(good), "what is known is not compiled again"
    broken = [c for c in found["compiled"] if not c["needs"]]
    assert len(broken) == 2 and all("power of 2" in c["error"] for c in broken)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ONE, None),
        (replace(ONE, needs=replace(NEEDS, registers=39, spills=0, matrix=9)), None),
        (replace(ONE, needs=replace(NEEDS, registers=41)), "registers 41, budget 40"),
        (replace(ONE, needs=replace(NEEDS, spills=4)), "spills 4, budget 0"),
        (replace(ONE, needs=replace(NEEDS, shared=2048)), "shared 2048, budget 1024"),
        (replace(ONE, needs=replace(NEEDS, matrix=0)), "matrix 0, budget 8"),
        (replace(ONE, needs=replace(NEEDS, shared=300 << 10)), "the GPU has 232448"),
        (replace(ONE, needs=None, error="no"), "does not compile: no"),
    ],
)
def test_a_regression_is_told(result: Compiled, said: str | None) -> None:
    """More registers, spills or shared memory, fewer matrix instructions, or no code at all: each
    is one line that names the kernel; less is fine."""
    lines = complaints([result], LIMITS, [], ["sm_90"])
    assert lines == [] if said is None else (said in lines[0] and lines[0].startswith(ONE.key))


def test_the_budget_covers_what_there_is() -> None:
    """A kernel that is new, gone or undeclared is told, and a release of Triton that has no budget
    is held to nothing but compiling."""
    new = replace(ONE, kernel="a.newcomer")
    assert "not in the budget" in complaints([ONE, new], LIMITS, [], ["sm_90"])[0]
    assert "not compiled" in complaints([], LIMITS, [], ["sm_90"])[0]
    assert complaints([], LIMITS, [], ["gfx942"]) == []
    assert "no example" in complaints([ONE], LIMITS, ["a.forgotten"], ["sm_90"])[0]
    assert complaints([new], None, [], ["sm_90"]) == []


def test_a_budget_is_written_and_read(tmp_path: Path) -> None:
    """What is measured becomes the budget of one release of Triton; others keep theirs."""
    file = tmp_path / "budget.json"
    assert budget.read("3.7.1", file) is None
    budget.write("3.6.0", [replace(ONE, kernel="older")], file)
    budget.write("3.7.1", [replace(ONE, needs=None), ONE], file)
    assert budget.read("3.7.1", file) == LIMITS
    assert budget.measured("3.7.1", file) == {ONE.digest: NEEDS}
    assert list(budget.read("3.6.0", file) or {}) == [replace(ONE, kernel="older").key]


def test_a_mistake_on_the_command_line_gets_a_line() -> None:
    """A kernel that there is not, or a budget of half the kernels, is refused: exit code 2."""
    module = [sys.executable, "-m", "nullblock.kernels.checks.aot"]
    for arguments, said in (["nosuch"], "no kernel is called so"), (["x", "--write"], "--write"):
        run = subprocess.run([*module, *arguments], env=COMPILED, capture_output=True, text=True)
        assert run.returncode == 2 and said in run.stderr and "Traceback" not in run.stderr
