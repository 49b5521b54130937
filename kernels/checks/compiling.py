"""Kernels compiled for GPUs that are not there, and what they need of them.

Triton brings NVIDIA's assembler and AMD's code generator. An integer argument is compiled in up to
three ways: for whatever it may be, for a multiple of 16, and for 1, which becomes a constant. All
three are compiled for sm_90; the others get the multiples of 16, which is what sizes usually are.
"""

import contextlib
import io
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nullblock.kernels.checks.shipped import Build, Shipped

TARGETS = {
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
    "gfx950": GPUTarget("hip", "gfx950", 64),
}
USUAL = ("sm_90", "sm_100", "gfx942")
"""Hopper, Blackwell, MI300; gfx950 (MI350) when asked for."""
SHARED_MEMORY = {"sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10, "gfx950": 160 << 10}
"""Bytes that one program may have."""
DIVISIBLE = [["tt.divisibility", 16]]
ALIGNED, ANY, ONE = "multiples of 16", "any integers", "ones"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a compiled kernel needs."""

    registers: int
    """A thread's."""
    spills: int
    """Bytes a thread stores to memory for want of registers; on AMD, registers spilled."""
    shared: int
    """Bytes of shared memory a program."""
    matrix: int
    """Instructions of the matrix units in its text: wgmma, tcgen05.mma, mfma."""

    def worse_than(self, budget: "Needs") -> list[str]:
        """In words, what is worse."""
        mine, most = asdict(self), asdict(budget)
        return [
            f"{name} {mine[name]}, budget {most[name]}"
            for name in mine
            if (mine[name] < most[name] if name == "matrix" else mine[name] > most[name])
        ]


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel, compiled in one way for one target."""

    kernel: str
    build: str
    integers: str
    target: str
    needs: Needs | None
    """None: it does not compile."""
    error: str = ""

    @property
    def key(self) -> str:
        """What the budget calls it."""
        return " | ".join([self.kernel, self.build, self.integers, self.target])


def compile_all(kernels: Iterable[Shipped], targets: Iterable[str]) -> Iterator[Compiled]:
    """Compile every build of every kernel, anew."""
    wanted = list(targets)
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        triton.knobs.nvidia.dump_ptxas_log = True
        for kernel in kernels:
            for name, build in kernel.builds.items():
                for target in wanted:
                    for integers in _integers(kernel, build, target):
                        yield _compiled(kernel, name, build, integers, target)


def _integers(kernel: Shipped, build: Build, target: str) -> tuple[str, ...]:
    """In which ways its integers are compiled."""
    if not _specialised(kernel, build):
        return (ALIGNED,)
    return (ALIGNED, ANY, ONE) if target == "sm_90" else (ALIGNED,)


def _types(kernel: Shipped, build: Build) -> dict[str, str]:
    """The type of each parameter, in order. Raises ValueError if they are not those declared."""
    declared = {**kernel.types, **build.types, **dict.fromkeys(build.constants, "constexpr")}
    names = kernel.kernel.arg_names
    if set(declared) != set(names):
        odd = sorted(set(declared) ^ set(names))
        raise ValueError(f"{kernel.name}: declared otherwise than written: {', '.join(odd)}")
    return {name: declared[name] for name in names}


def _specialised(kernel: Shipped, build: Build) -> list[str]:
    """The integers that Triton compiles in several ways."""
    types, free = _types(kernel, build), {p.name for p in kernel.kernel.params}
    kept = {p.name for p in kernel.kernel.params if p.do_not_specialize}
    return [n for n, kind in types.items() if kind in ("i32", "i64") and n in free - kept]


def _compiled(kernel: Shipped, name: str, build: Build, integers: str, target: str) -> Compiled:
    types, constants = _types(kernel, build), dict(build.constants)
    special = _specialised(kernel, build)
    aligned = [n for n, kind in types.items() if kind.startswith("*")]
    if integers == ALIGNED:
        aligned += special
    if integers == ONE:
        constants |= dict.fromkeys(special, 1)
        types |= dict.fromkeys(special, "constexpr")
    order = list(types)
    source = ASTSource(
        fn=kernel.kernel,
        signature=types,
        constexprs={(order.index(n),): value for n, value in constants.items()},
        attrs={(order.index(n),): DIVISIBLE for n in aligned},
    )
    options: dict[str, Any] = {"num_warps": build.num_warps}
    if build.num_stages is not None:
        options["num_stages"] = build.num_stages
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            made = triton.compile(source, target=TARGETS[target], options=options)
        needs, error = _needs(made, target, said.getvalue()), ""
    except Exception as caught:  # whatever a compiler raises
        needs, error = None, " ".join(f"{type(caught).__name__}: {caught}".split())[-400:]
    return Compiled(kernel.name, name, integers, target, needs, error)


def _needs(made: Any, target: str, said: str) -> Needs:
    if target.startswith("sm_"):
        text, matrix = made.asm["ptx"], r"wgmma\.mma_async|tcgen05\.mma"
        registers = _number(r"Used (\d+) registers", said)
        spills = _number(r"(\d+) bytes spill stores", said)
    else:
        text, matrix = made.asm["amdgcn"], r"v_mfma"
        registers = _number(r"\.vgpr_count:\s*(\d+)", text)
        spills = _number(r"\.vgpr_spill_count:\s*(\d+)", text)
    return Needs(registers, spills, int(made.metadata.shared), len(re.findall(matrix, text)))


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"the assembler does not say {pattern!r}")
    return int(found[1])
