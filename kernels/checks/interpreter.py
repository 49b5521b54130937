"""Triton's interpreter, watched: every load, store, atomic and barrier of a launch passes here.

The interpreter's own classes are wrapped while a check is on, and left as they were afterwards.
What is relied on is its builder (one method an operation) and ``GridExecutor`` (one call a
launch); both are alike in Triton 3.6 and 3.7. Pointers carry the argument that they come from, so
that an access beyond one tensor is seen even where it hits another.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from nullblock.kernels.checks.findings import Finding, Kind, Report, Site
from nullblock.kernels.checks.launch import Launch, Run, Values

BUILDER = triton_interpreter.InterpreterBuilder
EXECUTOR = triton_interpreter.GridExecutor
SEMANTIC = triton_interpreter.TritonSemantic
POINTERS = (
    *("create_addptr", "create_splat", "create_unsplat", "create_broadcast", "create_bitcast"),
    *("create_expand_dims", "create_reshape", "create_trans", "create_select"),
)
"""What makes pointers of pointers."""
ATOMICS = (
    *("atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min"),
    *("atomic_or", "atomic_xchg", "atomic_xor"),
)
WATCHED = Run(watched=True, poison=False, shuffle=False)
DISTURBED = Run(watched=False, poison=True, shuffle=True)
APART = {
    Kind.POISON: Run(watched=False, poison=True, shuffle=False),
    Kind.ORDER: Run(watched=False, poison=False, shuffle=True),
}


class Interpreter:
    """Watches all launches while it is installed; of several the one installed last."""

    installed_ones: ClassVar[list["Interpreter"]] = []

    def __init__(
        self, report: Report, without: Site | None, extra: dict[str, Any], narrow: bool
    ) -> None:
        self.report, self.without, self.extra = report, without, extra
        self.narrow = narrow
        # Of each its own, so that a run may repeat one of the two.
        self.order = np.random.default_rng((report.seed, 0))
        self.noise = np.random.default_rng((report.seed, 1))
        self.launch: Launch | None = None
        self._origins: dict[int, Any] = {}
        self._order: list[int] = []
        self._grid = (1, 1, 1)
        self._dummy = np.zeros(1, np.uint64)
        self._other_given = self._scalar = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Wrap the interpreter."""
        saved = []

        def wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
            if hasattr(owner, name):  # not every version has every operation
                saved.append((owner, name, getattr(owner, name)))
                setattr(owner, name, wrapper(getattr(owner, name)))

        wrap(EXECUTOR, "__call__", self._calls)
        wrap(EXECUTOR, "_init_args_hst", self._arguments)
        wrap(triton_interpreter, "_implicit_cvt", self._converts)
        wrap(triton_interpreter.TensorDescHandle, "materialize_pointers", self._materializes)
        for name in POINTERS:
            wrap(BUILDER, name, self._pointers)
        wrap(BUILDER, "set_grid_dim", self._grids)
        wrap(BUILDER, "set_grid_idx", self._programs)
        wrap(SEMANTIC, "load", self._semantic_loads)
        for name in ("store", *ATOMICS):
            wrap(SEMANTIC, name, self._semantic_writes)
        wrap(BUILDER, "create_masked_load", self._loads)
        wrap(BUILDER, "create_masked_store", self._stores)
        wrap(BUILDER, "create_atomic_rmw", self._atomics)
        wrap(BUILDER, "create_atomic_cas", self._exchanges)
        wrap(BUILDER, "create_barrier", self._barriers)
        wrap(BUILDER, "create_assert", self._assertions)
        wrap(BUILDER, "create_int_cast", self._casts)
        self.installed_ones.append(self)
        try:
            yield
        finally:
            self.installed_ones.pop()
            for owner, name, original in reversed(saved):
                setattr(owner, name, original)

    def _calls(self, original: Any) -> Any:
        def call(executor: Any, *args: Any, **kwargs: Any) -> None:
            if self.installed_ones[-1] is not self:
                original(executor, *args, **kwargs)
                return
            name = executor.fn.__name__
            self.report.launches[name] = self.report.launches.get(name, 0) + 1
            threads = 32 * int(kwargs.get("num_warps", 4))
            launch = Launch(name, self.report, self.without, threads * self.narrow)
            states = [(r.bit_generator, r.bit_generator.state) for r in (self.order, self.noise)]

            def run(how: Run) -> Values:
                launch.start(how)
                self.launch = launch
                for generator, state in states:
                    generator.state = state
                self._debug(how.watched)
                try:
                    original(executor, *args, **kwargs)
                finally:
                    self.launch = None
                    self._debug(False)
                launch.finish()
                return launch.outcome()

            _compare(launch, run)

        return call

    @staticmethod
    def _debug(on: bool) -> None:
        """Whether overflows and assertions are looked at."""
        builder = triton_interpreter.interpreter_builder
        builder.options = replace(builder.options, debug=on)

    def _arguments(self, original: Any) -> Any:
        def arguments(executor: Any, args: Any, kwargs: Any) -> Any:
            host, named = original(executor, args, kwargs)
            if self.launch is not None:
                self._origins.clear()
                self.launch.memory.extents.clear()
                everything = dict(zip(executor.arg_names, host, strict=False)) | named | self.extra
                for name, value in everything.items():
                    self._register(name, value)
            return host, named

        return arguments

    def _register(self, name: str, value: Any) -> None:
        assert self.launch is not None
        if isinstance(value, tuple | list):
            fields = getattr(value, "_fields", None)
            for number, part in enumerate(value):
                known = f"{name}.{fields[number]}" if fields else f"{name}[{number}]"
                self._register(known, part)
        elif hasattr(value, "base") and hasattr(value, "block_shape"):
            self._register(name, value.base)
        elif hasattr(value, "data_ptr"):
            self._origins[id(value)] = self.launch.memory.add(name, value)

    def _converts(self, original: Any) -> Any:
        def convert(argument: Any) -> Any:
            made = original(argument)
            if id(argument) in self._origins and hasattr(made, "handle"):
                made.handle.attr["extent"] = self._origins[id(argument)]
            return made

        return convert

    def _materializes(self, original: Any) -> Any:
        def materialize(descriptor: Any, *args: Any) -> Any:
            pointers, mask = original(descriptor, *args)
            pointers.attr.update(descriptor.base.attr)
            return pointers, mask

        return materialize

    def _pointers(self, original: Any) -> Any:
        def pointers(builder: Any, *args: Any) -> Any:
            made = original(builder, *args)
            extents = {id(e): e for a in args if (e := getattr(a, "attr", {}).get("extent"))}
            if len(extents) == 1 and hasattr(made, "attr"):
                (made.attr["extent"],) = extents.values()
            return made

        return pointers

    def _grids(self, original: Any) -> Any:
        def grid(builder: Any, x: int, y: int, z: int) -> Any:
            self._grid, self._order = (x, y, z), list(range(x * y * z))
            if self.launch is not None and self.launch.run.shuffle:
                self.order.shuffle(self._order)
            return original(builder, x, y, z)

        return grid

    def _programs(self, original: Any) -> Any:
        def program(builder: Any, x: int, y: int, z: int) -> Any:
            if self.launch is not None:
                _, columns, layers = self._grid
                rest, z = divmod(self._order[(x * columns + y) * layers + z], layers)
                x, y = divmod(rest, columns)
                self.launch.begin_program((x, y, z))
            return original(builder, x, y, z)

        return program

    def _semantic_loads(self, original: Any) -> Any:
        """Here it is known whether a load has an ``other``: for a block of one element the
        interpreter takes an ``other`` of 0 for none, which to it is the same."""

        def load(semantic: Any, pointer: Any, mask: Any, other: Any, *rest: Any) -> Any:
            self._other_given = other is not None
            self._scalar = not pointer.type.is_block()
            return original(semantic, pointer, mask, other, *rest)

        return load

    def _semantic_writes(self, original: Any) -> Any:
        """Here it is known whether a scalar is written, or a block that has one element."""

        def write(semantic: Any, pointer: Any, *rest: Any) -> Any:
            self._scalar = not pointer.type.is_block()
            return original(semantic, pointer, *rest)

        return write

    def _loads(self, original: Any) -> Any:
        def load(builder: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
            if self.launch is None:
                return original(builder, ptrs, mask, other, *rest, **named)
            volatile = rest[2] if len(rest) > 2 else named.get("is_volatile")
            kind = triton_interpreter._get_np_dtype(ptrs.get_element_ty())
            action = "volatile load" if volatile else "load"
            allowed = self._access(ptrs, mask.data, action, kind.itemsize)
            missing = other is None and not self._other_given and not np.all(mask.data)
            if missing and self.launch.run.poison:
                other = _handle(self._poison(np.shape(ptrs.data), kind), ptrs.get_element_ty())
            return original(builder, ptrs, _handle(allowed, tl.int1), other, *rest, **named)

        return load

    def _stores(self, original: Any) -> Any:
        def store(builder: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
            if self.launch is None:
                return original(builder, ptrs, value, mask, *rest)
            data = value.data
            allowed = self._access(ptrs, mask.data, "store", data.dtype.itemsize, data)
            return original(builder, ptrs, value, _handle(allowed, tl.int1), *rest)

        return store

    def _atomics(self, original: Any) -> Any:
        def atomic(builder: Any, op: Any, ptr: Any, value: Any, mask: Any, *rest: Any) -> Any:
            if self.launch is None:
                return original(builder, op, ptr, value, mask, *rest)
            size = value.data.dtype.itemsize
            allowed = self._access(ptr, mask.data, "atomic", size)
            order = self._lanes(allowed.size)
            made = original(
                builder,
                op,
                _permuted(ptr, order, allowed.shape),
                _permuted(value, order, allowed.shape),
                _permuted(_handle(allowed, tl.int1), order, allowed.shape),
                *rest,
            )
            back = _permuted(made, np.argsort(order), allowed.shape)
            if self.launch.run.poison and not allowed.all():
                bad = self._poison(allowed.shape, back.data.dtype)
                back.data = np.where(allowed, back.data, bad)
            return back

        return atomic

    def _exchanges(self, original: Any) -> Any:
        def exchange(builder: Any, ptr: Any, compare: Any, value: Any, *rest: Any) -> Any:
            if self.launch is None:
                return original(builder, ptr, compare, value, *rest)
            every = np.ones(np.shape(ptr.data), bool)
            size = value.data.dtype.itemsize
            allowed = self._access(ptr, every, "atomic", size)
            # It takes no mask: what is out of bounds is led to a place of our own.
            data = np.where(allowed, ptr.data, np.uint64(self._dummy.ctypes.data))
            order = self._lanes(every.size)
            made = original(
                builder,
                _permuted(_handle(data, ptr.dtype), order, every.shape),
                _permuted(compare, order, every.shape),
                _permuted(value, order, every.shape),
                *rest,
            )
            return _permuted(made, np.argsort(order), every.shape)

        return exchange

    def _barriers(self, original: Any) -> Any:
        def barrier(builder: Any) -> Any:
            if self.launch is not None:
                self.launch.barrier()
            return original(builder)

        return barrier

    def _assertions(self, original: Any) -> Any:
        def check(builder: Any, condition: Any, message: Any) -> Any:
            if self.launch is None:
                return original(builder, condition, message)
            failed = ~np.asarray(condition.data, bool)
            if failed.any():
                kind = Kind.OVERFLOW if "overflow detected" in str(message) else Kind.ASSERTION
                self._say(kind, f"{message}", int(failed.sum()))
            return None

        return check

    def _casts(self, original: Any) -> Any:
        def cast(builder: Any, source: Any, target: Any, *rest: Any) -> Any:
            made = original(builder, source, target, *rest)
            if self.launch is not None and self.launch.run.watched and target.scalar == tl.int32:
                lost = np.asarray(made.data).astype(source.data.dtype) != source.data
                if lost.any():
                    value = int(np.asarray(source.data)[lost].reshape(-1)[0])
                    self._say(Kind.OVERFLOW, f"int32 cannot hold {value}", int(lost.sum()))
            return made

        return cast

    def _access(self, pointers: Any, mask: Any, *what: Any) -> Any:
        assert self.launch is not None
        self.launch.scalar = self._scalar
        return self.launch.access(pointers, mask, *what)

    def _say(self, kind: Kind, detail: str, count: int) -> None:
        assert self.launch is not None
        detail = f"{detail}, {self.launch.site()}, program {self.launch.program}"
        self.report.add(Finding(kind, self.launch.kernel, "", None, (), detail, count))

    def _lanes(self, number: int) -> Any:
        assert self.launch is not None
        natural = np.arange(number)
        return self.order.permutation(natural) if self.launch.run.shuffle else natural

    def _poison(self, shape: tuple[int, ...], kind: Any) -> Any:
        if kind == np.dtype(bool):
            return np.ones(shape, bool)
        if kind.kind in "iu" and kind.itemsize > 2:
            # Large enough to be nobody's, small enough for the interpreter to add a block of them.
            content = self.noise.integers(1 << 12, 1 << 15, shape)
            signs = self.noise.integers(0, 2 if kind.kind == "i" else 1, shape)
            return np.where(signs, -content, content).astype(kind)
        noise = self.noise.bytes(int(np.prod(shape)) * kind.itemsize)
        return np.frombuffer(noise, np.uint8).view(kind).reshape(shape).copy()


def _compare(launch: Launch, run: Callable[[Run], Values]) -> None:
    """Run a launch as it is and disturbed; leave memory as the undisturbed run made it."""
    plain = run(WATCHED)
    launch.roll_back()
    both = _differs(launch, plain, run, DISTURBED)
    if both is not None:
        apart = {kind: _differs(launch, plain, run, how) for kind, how in APART.items()}
        if not any(apart.values()):  # each alone does no harm
            apart[Kind.ORDER] = both
        for kind, found in apart.items():
            if found is not None:
                name, index, words, count = found
                finding = Finding(kind, launch.kernel, name, index, (), words, count)
                launch.report.add(finding)
    launch.write(plain)


Difference = tuple[str, int | None, str, int]


def _differs(
    launch: Launch, plain: Values, run: Callable[[Run], Values], how: Run
) -> Difference | None:
    try:
        other = run(how)
    except triton_interpreter.InterpreterError as error:
        launch.roll_back()
        return "", None, f"it fails with {error}", 1
    launch.roll_back()
    found = launch.difference(plain, other)
    if found is None:
        return None
    extent, index, words, count = found
    return extent.name if extent else "", index, words, count


def _handle(data: Any, kind: Any) -> Any:
    return triton_interpreter.TensorHandle(data, kind)


def _permuted(handle: Any, order: Any, shape: tuple[int, ...]) -> Any:
    data = np.broadcast_to(handle.data, shape).reshape(-1)[order].reshape(shape)
    return _handle(data, handle.dtype)
