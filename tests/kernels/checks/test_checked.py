"""Every kind of defect has a tiny kernel that shows it, and the report says where."""

from collections.abc import Callable

import canaries
import pytest
import torch
from canaries import ints, ramp, zeros

from nullblock.kernels.checks import Allowed, KernelDefects, Kind, checked, watched

W = 8
Launch = Callable[[], object]

DEFECTS: dict[str, tuple[Kind, str, Launch]] = {
    "shared_element": (
        Kind.PROGRAMS,
        "out",
        lambda: canaries.shared_element[(4,)](zeros(1)),
    ),
    "neighbours_element": (
        Kind.PROGRAMS,
        "out",
        lambda: canaries.neighbours_element[(W,)](zeros(2 * W), zeros(W), WIDTH=W),
    ),
    "read_after_write": (
        Kind.BARRIER,
        "out",
        lambda: canaries.read_after_write[(1,)](zeros(W), zeros(W), WIDTH=W, BARRIER=False),
    ),
    "write_after_read": (
        Kind.BARRIER,
        "x",
        lambda: canaries.write_after_read[(1,)](ramp(W), WIDTH=W),
    ),
    "scalar_counter": (Kind.BARRIER, "counter", lambda: canaries.scalar_counter[(1,)](zeros(1))),
    "duplicate_store": (
        Kind.DUPLICATE,
        "out",
        lambda: canaries.duplicate_store[(1,)](zeros(1), 0, WIDTH=W),
    ),
    "beyond_the_end": (
        Kind.BOUNDS,
        "x",
        lambda: canaries.beyond_the_end[(1,)](zeros(5), zeros(5), 5, WIDTH=W),
    ),
    "product_wraps": (
        Kind.OVERFLOW,
        "",
        lambda: canaries.product_wraps[(1,)](zeros(1), zeros(1), 1 << 20, 1 << 11),
    ),
    "cast_loses": (Kind.OVERFLOW, "", lambda: canaries.cast_loses[(1,)](zeros(1), 1 << 40)),
    "counts_arrivals": (
        Kind.ORDER,
        "out",
        lambda: canaries.counts_arrivals[(W,)](zeros(1), zeros(W)),
    ),
    "counts_lanes": (
        Kind.ORDER,
        "out",
        lambda: canaries.counts_lanes[(1,)](zeros(1), zeros(W), WIDTH=W),
    ),
    "sums_masked_lanes": (
        Kind.POISON,
        "out",
        lambda: canaries.sums_masked_lanes[(1,)](zeros(5), zeros(1), 5, WIDTH=W),
    ),
    "asserts": (Kind.ASSERTION, "", lambda: canaries.asserts[(1,)](ints(9), 9)),
}

CLEAN: dict[str, Launch] = {
    "clean": lambda: canaries.clean[(3,)](zeros(20), zeros(20), zeros(1), 20, WIDTH=W),
    "read_after_write": lambda: canaries.read_after_write[(1,)](
        ramp(W), zeros(W), WIDTH=W, BARRIER=True
    ),
    "same_lane": lambda: canaries.same_lane[(1,)](zeros(W), WIDTH=W),
    "duplicate_store": lambda: canaries.duplicate_store[(1,)](zeros(1), 1, WIDTH=W),
    "masked_scalar": lambda: canaries.masked_scalar[(1,)](ints(3), zeros(1), 0),
    "says_so_twice": lambda: canaries.says_so_twice[(3,)](zeros(1)),
    "sums_masked_lanes": lambda: canaries.sums_masked_lanes[(1,)](zeros(W), zeros(1), W, WIDTH=W),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name: str) -> None:
    """Each kind of defect is found in the kernel that has it, with its kernel and its tensor."""
    kind, tensor, launch = DEFECTS[name]
    with watched() as report:
        launch()
    found = [finding for finding in report.findings if finding.kind is kind]
    assert [(f.kernel, f.tensor) for f in found[:1]] == [(name, tensor)], str(report)
    assert f"kernel {name}" in str(report) and "remedy: " in str(report)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_kernel_passes(name: str) -> None:
    """Nothing is found in kernels that have no defect, and their accesses were looked at."""
    with checked() as report:
        CLEAN[name]()
    assert report.launches == {name: 1} and report.accesses > 0


def test_every_kind_has_a_canary() -> None:
    """No kind of defect goes without a kernel that shows it."""
    assert {kind for kind, _, _ in DEFECTS.values()} == set(Kind)


def test_the_report_names_both_accesses() -> None:
    """A missing barrier is told with the two lines, the lanes, the element and the way there."""
    with watched() as report:
        canaries.write_after_read[(1,)](ramp(W), WIDTH=W)
    (finding,) = report.findings
    load, store = finding.accesses
    assert (load.action, store.action) == ("load", "store")
    assert store.site.line == load.site.line + 1
    assert (load.site.function, len(load.site.called_at)) == ("_shift", 1)
    assert store.lane is not None and load.lane == finding.index == (store.lane + 1) % W
    assert "canaries.py" in str(report) and f"element {finding.index}" in str(report)


def test_a_barrier_is_known_by_what_it_orders() -> None:
    """Each barrier that a program passes is told with what would be found without it; and that is
    found when it is left out, although it stands in the source."""

    def launch() -> None:
        canaries.read_after_write[(1,)](ramp(W), zeros(W), WIDTH=W, BARRIER=True)
        canaries.one_barrier_too_many[(1,)](ramp(W), zeros(W), WIDTH=W)

    with checked() as report:
        launch()
    shown = [finding for finding in report.barriers.values() if finding is not None]
    assert [[a.action for a in f.accesses] for f in shown] == [
        ["store", "load"],
        ["load", "store"],
    ]
    assert [b.function for b, found in report.barriers.items() if found is None] == [
        "one_barrier_too_many"
    ]
    for barrier, expected in report.barriers.items():
        with watched(without_barrier=barrier) as without:
            launch()
        assert [f.key for f in without.findings] == ([expected.key] if expected else [])


def test_blocks_narrower_than_a_program() -> None:
    """A lane that overwrites what it has read is ordered, unless several threads hold it: that
    counts if it is asked for."""
    for lanes, threads, kinds in (
        (1, 64, {Kind.BARRIER}),
        (32, 64, {Kind.BARRIER}),
        (64, 64, set()),
    ):
        for narrow in (False, True):
            with watched(narrow=narrow) as report:
                canaries.same_lane[(1,)](zeros(64), WIDTH=lanes, num_warps=threads // 32)
            assert report.kinds() == (kinds if narrow else set()), (lanes, threads, narrow)


def test_out_of_bounds_does_no_harm() -> None:
    """What lies beyond a tensor is neither read nor written, even if it is another argument."""
    buffer = zeros(10)
    with watched() as report:
        canaries.read_after_write[(1,)](buffer[:4], buffer[4:], WIDTH=W, BARRIER=True)
    assert {(f.kind, f.tensor) for f in report.findings} >= {
        (Kind.BOUNDS, "x"),
        (Kind.BOUNDS, "out"),
    }
    assert "x has 4 elements; that is in out" in str(report)
    assert buffer.tolist() == [0] * 10


def test_tensors_that_share_memory_conflict() -> None:
    """Two views of one buffer are one memory."""
    buffer = zeros(2 * W)
    with watched() as report:
        canaries.read_after_write[(1,)](buffer[:W], buffer[1 : W + 1], WIDTH=W, BARRIER=False)
    assert report.kinds() == {Kind.BARRIER}


def test_pointers_from_a_table() -> None:
    """An address that no argument owns is out of bounds, unless its tensor is made known."""
    x, out = ints(*range(W)), zeros(W)
    table = torch.tensor([x.data_ptr()], dtype=torch.int64)
    with watched() as report:
        canaries.through_a_table[(1,)](table, out, WIDTH=W)
    assert report.kinds() == {Kind.BOUNDS} and out.tolist() == [0] * W
    with checked(x=x):
        canaries.through_a_table[(1,)](table, out, WIDTH=W)
    assert out.tolist() == list(range(W))


def test_results_are_those_of_one_run() -> None:
    """A launch under check leaves memory as one launch without a check does."""
    total, out = ints(5), zeros(W)
    with watched():
        canaries.counts_arrivals[(W,)](total, out)
    assert total.tolist() == [5 + W] and out.tolist() == [0] * 5 + list(range(W - 5))


def test_memory_is_not_multiplied_by_the_size_of_a_pool() -> None:
    """A pool of 2**32 bytes costs what is touched of it, and elements beyond 2**31 are found."""
    pool = torch.empty(2**32, dtype=torch.int8)
    with checked():
        canaries.same_lane[(1,)](pool[2**31 :], WIDTH=W)


def test_what_is_allowed_is_not_reported() -> None:
    """A reviewed finding is left out by kind, kernel, tensor and actions, and its use is known."""

    def launch() -> None:
        canaries.probe_and_claim[(1,)](ints(-1), WIDTH=W)

    probe = Allowed(
        Kind.BARRIER,
        "probe_and_claim",
        "slot",
        "the compare-and-swap looks again",
        ("volatile load", "atomic"),
    )
    winner = Allowed(Kind.ORDER, "probe_and_claim", "slot", "any winner will do")
    with checked(allow=[probe, winner]) as report:
        launch()
    assert report.used == [probe, winner]
    with watched(allow=[winner]) as report:
        launch()
    assert report.kinds() == {Kind.BARRIER}
    other = Allowed(Kind.BARRIER, "probe_and_claim", "slot", "?", ("store", "load"))
    with pytest.raises(KernelDefects, match="missing barrier: kernel probe_and_claim"):
        with checked(allow=[other, winner]):
            launch()


def test_a_check_within_a_check() -> None:
    """The inner one looks, and the results are those of one run."""
    counter, out = zeros(1), zeros(W)
    with checked() as outer, watched() as inner:
        canaries.counts_arrivals[(W,)](counter, out)
    assert inner.kinds() == {Kind.ORDER}
    assert outer.launches == {} and out.tolist() == list(range(W))


def test_the_interpreter_is_left_as_it_was() -> None:
    """After a check, launches are as before: nothing is masked, nothing asserted."""
    with watched():
        canaries.asserts[(1,)](ints(9), 9)
    canaries.asserts[(1,)](ints(9), 9)
    with pytest.raises(ZeroDivisionError):
        with watched():
            raise ZeroDivisionError
    canaries.asserts[(1,)](ints(9), 9)
