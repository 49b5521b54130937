"""Defects planted in the kernels of this layer, in their twins and in the host are found."""

from collections.abc import Callable
from typing import Any

import pytest
from device_beside import Beside
from planted import planted
from where import COMPILED, KERNELS_ON

from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

KERNELS, HOST = "nullblock.kernels.control", "nullblock.impl.device"


def play(device: str, semantics: Semantics) -> None:
    """Few steps in which much happens: chunks that sample nothing, ends by every cause and of
    every stage, rows used again and tables that grow, an id that comes back in flight, a reset in
    flight. Raises AssertionError where the device parts from NumPy.
    """
    both = Beside(
        device,
        semantics=semantics,
        num_blocks=18,
        max_num_seqs=4,
        max_num_scheduled_tokens=14,
        max_model_len=24,
        num_rows=3,
        row_tokens=10,
    )

    def step(between: Callable[[], object] = lambda: None, **says: int) -> None:
        both.schedule()
        between()
        both.update([says.get(id, 6) for id in both.device.step.ids])

    def in_flight() -> None:
        for engine in (both.numpy, both.device):
            assert engine.finish_requests(["c", "e"]) == ["c", "e"]
        both.add("c", [2] * 9, 7)

    def all_over() -> None:
        both.call("reset_prefix_cache", reset_running=True)
        for id in "ghijkl":
            both.add(id, [ord(id)] * 2, 1)

    def first_leaves() -> None:
        ids = both.device.step.ids[:1]
        for engine in (both.numpy, both.device):
            assert engine.finish_requests(ids) == ids

    both.add("a", [1] * 5, 1)
    both.add("f", [6] * 22, 9)
    step(a=5)
    both.add("c", [2] * 6, 3)
    step()
    both.add("e", [4], 2)
    both.add(
        "d", [1] * 9, 9, min_tokens=1, eos=8, stop=frozenset({8}), skip_reading_prefix_cache=True
    )
    step(in_flight, d=8)
    step(all_over, d=8)
    step(first_leaves)
    step()


def breaks(device: str, *profiles: Semantics) -> bool:
    """Whether the engine parts from NumPy, or raises, under one of the profiles."""
    for semantics in profiles:
        try:
            play(device, semantics)
        except (AssertionError, LookupError, RuntimeError, ValueError):
            return True
    return False


IN_KERNELS: dict[str, tuple[str, str, str]] = {
    "who has ended takes a token": ("update.py", "(stage != ABSENT) & (samples", "(samples"),
    "a chunk takes a token": ("update.py", "& (samples != 0)", "& (samples >= 0)"),
    "a length stays": ("update.py", "row, n + 1, mask=takes)", "row, n, mask=takes)"),
    "who waits goes on after its end": (
        "ends.py",
        "ABSENT, mask=runs | waits)",
        "ABSENT, mask=runs)",
    ),
    "of who waited nobody is told": (
        "ends.py",
        "_tell_of(a, row, runs | waits, z)",
        "_tell_of(a, row, runs, z)",
    ),
    "a row keeps the keys of whom it had before": (
        "intake.py",
        "    tl.store(requests.num_keys + row, 0)\n",
        "",
    ),
    "an id that comes again gets nothing in flight": (
        "intake.py",
        "(former >= 0) & (scheduled == former)",
        "(former >= 0) & (scheduled != scheduled)",
    ),
    "letters are taken from the last one on": (
        "intake.py",
        "at = (taken % LETTERS).to(tl.int32)",
        "at = ((posted - 1) % LETTERS).to(tl.int32)",
    ),
    "who ran is told one place on": ("tell.py", "lane, values, mask", "lane + 1, values, mask"),
}


@pytest.mark.parametrize("what", IN_KERNELS)
def test_a_defect_of_a_kernel_is_found(what: str) -> None:
    """In Triton's interpreter."""
    with planted(*IN_KERNELS[what], package=KERNELS):
        assert breaks(KERNELS_ON, VLLM_0_22_1)


IN_TWINS: dict[str, tuple[str, str, str]] = {
    "who has ended takes a token": (
        "update.py",
        "takes = (requests.stage[rows] != ABSENT.value) & (",
        "takes = (",
    ),
    "a length stays": ("update.py", "    requests.num_tokens[rows] = at.int() + 1\n", ""),
    "ends are told in another order": (
        "ends.py",
        "running = [row for row in alive if",
        "running = [row for row in alive[::-1] if",
    ),
    "a row keeps the keys of whom it had before": ("intake.py", '"num_keys", ', ""),
    "an id that comes again gets nothing in flight": (
        "intake.py",
        "if former >= 0 else",
        "if former > 99 else",
    ),
}
IN_HOST: dict[str, tuple[str, str, str]] = {
    "tokens come in before letters": (
        "resident.py",
        "        self.take_letters()  # who ended since the step was decided gets no token\n",
        "",
    ),
    "a row is used again before anybody is told": (
        "resident.py",
        "        self.postbox.end(row)\n",
        "        self.postbox.end(row)\n        self.rows._free.append(row)\n",
    ),
    "the waiting queue stays where it stood": (
        "growth.py",
        "waiting[positions % sizes.waiting_capacity]",
        "waiting[positions % state.sizes.waiting_capacity]",
    ),
    "the log is lost when tables grow": (
        "growth.py",
        "    _copy(source.progress, to.progress)\n",
        "",
    ),
    "a limit forgets max_model_len": (
        "letters.py",
        "prompt + request.max_tokens, self._sizes.max_model_len, _MOST",
        "prompt + request.max_tokens, _MOST",
    ),
    "who may not read the cache does": (
        "letters.py",
        "= request.skip_reading_prefix_cache",
        "= False",
    ),
    "an id's former row is forgotten": (
        "scheduler.py",
        "self._ended_in_flight.pop(request.id, None)",
        "None",
    ),
    "those who ran count as admitted": (
        "reading.py",
        "admitted=requests[ran:]",
        "admitted=requests[: len(requests) - ran]",
    ),
}


@pytest.mark.parametrize("package", [KERNELS, HOST])
def test_a_defect_of_twins_and_host_is_found(package: str) -> None:
    """With the twins; each defect makes the engine part from NumPy, or its state from itself."""
    missed = []
    for what, where in (IN_TWINS if package == KERNELS else IN_HOST).items():
        with planted(*where, package=package):
            if not breaks("twins", VLLM_0_22_1, NORMATIVE):
                missed.append(what)
    assert missed == []


@pytest.mark.parametrize("device", ["twins", KERNELS_ON])
def test_without_a_defect_nothing_is_found(device: str) -> None:
    """The same steps on the engine loaded the same way, with a comment for a defect."""
    with planted("update.py", '    """The twin of `update`."""', '    """A twin."""', KERNELS):
        play(device, VLLM_0_22_1)


@pytest.mark.skipif(COMPILED, reason="it looks at what the interpreter does")
def test_the_launches_have_no_defect_that_the_interpreter_hides() -> None:
    """The same steps with accesses compared, masked lanes poisoned and atomics shuffled: no
    barrier is missing, nothing is out of bounds or overflows (but for what was reviewed).
    """
    from nullblock.kernels.checks.checked import checked
    from nullblock.kernels.checks.shipped import allowed

    with checked(allow=allowed()) as report:
        play(KERNELS_ON, VLLM_0_22_1)
    assert report.interpreted and report.accesses


def test_a_defect_of_the_loop_is_found() -> None:
    """A log that keeps every step in its first place does not survive a second step ahead."""
    what: Any = ("tell.py", "place = steps % rings.steps", "place = 0 * steps")
    with planted(*what, package=KERNELS):
        from nullblock.impl import Request
        from nullblock.impl.device import Loop, Scheduler
        from nullblock.spec.facts import Config

        scheduler = Scheduler(Config(9, 4, 8, 2, 12), "twins")
        scheduler.add_request(Request("a", [1], 3))
        loop = Loop(scheduler, lambda state, sampled: None)
        loop.enqueue(2)
        with pytest.raises(LookupError, match="step 1 is not in the log"):
            loop.collect()
