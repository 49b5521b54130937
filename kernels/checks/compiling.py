"""Kernels compiled for GPUs that are not there, and what they need of them.

Triton brings NVIDIA's assembler and AMD's code generator. An integer argument is compiled in up to
three ways: for whatever it may be, for a multiple of 16, and for 1, which becomes a constant. All
three are compiled once for each kernel, for sm_90; else multiples of 16, which sizes usually are.

What is compiled is known by a digest: of the text of a kernel and of all that it calls, of types,
constants, options and target, and of Triton's version. The same digest means the same code, so
that what has not changed since it was measured need not be compiled again.
"""

import contextlib
import hashlib
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nullblock.kernels.checks.shipped import NOTHING, Launch

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
    """Instructions of the matrix units in its text: wgmma, tcgen05.mma, mma.sync, mfma."""

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
    example: str
    integers: str
    target: str
    needs: Needs | None
    """None: it does not compile."""
    digest: str = ""
    """Of all that the code follows from."""
    error: str = ""

    @property
    def key(self) -> str:
        """What the budget calls it."""
        return " | ".join([self.kernel, self.example, self.integers, self.target])


Known = Mapping[str, Needs]
"""What is known already of code, by its digest."""


def compile_all(
    launches: Iterable[Launch], targets: Iterable[str], measured: Known = MappingProxyType({})
) -> Iterator[Compiled]:
    """Compile every launch for every target, but for what was `measured` before."""
    wanted, known = list(targets), set()
    with tempfile.TemporaryDirectory() as cache:
        triton.knobs.cache.dir = cache
        triton.knobs.nvidia.dump_ptxas_log = True
        for launch in launches:
            first = launch.name not in known and _specialised(launch)
            known.add(launch.name)
            for target in wanted:
                if launch.targets and target not in launch.targets:
                    continue
                every = first and target == "sm_90"
                for integers in (ALIGNED, ANY, ONE) if every else (ALIGNED,):
                    yield _compiled(launch, integers, target, measured)


def _specialised(launch: Launch) -> list[str]:
    """The integers that Triton compiles in several ways."""
    return [
        parameter.name
        for parameter in launch.kernel.params
        if launch.types[parameter.name] in ("i32", "i64") and not parameter.do_not_specialize
    ]


def _compiled(launch: Launch, integers: str, target: str, measured: Known) -> Compiled:
    types, constants = dict(launch.types), dict(launch.constants)
    special = _specialised(launch)
    if integers == ONE:
        constants |= dict.fromkeys(special, 1)
        types |= dict.fromkeys(special, NOTHING)
    order = list(types)
    aligned = [path for path, kind in _leaves(tuple(types.values())) if kind.startswith("*")]
    if integers == ALIGNED:
        aligned += [(order.index(name),) for name in special]
    source = ASTSource(
        fn=launch.kernel,
        signature=types,
        constexprs={(order.index(name),): value for name, value in constants.items()},
        attrs=dict.fromkeys(aligned, DIVISIBLE),
    )
    digest = _digest(source, target, launch.options)
    names = (launch.name, launch.example, integers, target)
    if digest in measured:
        return Compiled(*names, measured[digest], digest)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            made = triton.compile(source, target=TARGETS[target], options=launch.options)
        return Compiled(*names, _needs(made, target, said.getvalue()), digest)
    except Exception as caught:  # whatever a compiler raises
        why: BaseException = caught
        while why.__cause__ is not None:
            why = why.__cause__
        return Compiled(
            *names, None, digest, " ".join(f"{type(why).__name__}: {why}".split())[-400:]
        )


def _digest(source: Any, target: str, options: Mapping[str, Any]) -> str:
    everything = (triton.__version__, source.hash(), target, sorted(options.items()))
    return hashlib.sha256(repr(everything).encode()).hexdigest()[:16]


def _leaves(types: tuple[Any, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
    """The types of all parameters, those in tuples too, each with the way there."""
    for place, kind in enumerate(types):
        if isinstance(kind, str):
            yield (place,), kind
        else:
            yield from (((place, *path), leaf) for path, leaf in _leaves(kind))


def _needs(made: Any, target: str, said: str) -> Needs:
    if target.startswith("sm_"):
        text, matrix = made.asm["ptx"], r"wgmma\.mma_async|tcgen05\.mma|mma\.sync"
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
