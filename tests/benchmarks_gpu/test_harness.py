"""The harness: its arithmetic, with a clock that has no surprises, and its honesty."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'nullblock[gpu]'")

import bench_gpu
from figures import Cost, Floors, Row, Spread, Target, Times, microseconds, spread
from page import Report, Section, as_document, as_page, empty_page
from targets import GOALS
from tested import ENGINE, ENGINE_NEEDS, KERNELS, ROOT, run_tests
from timing import Effort, measure
from workbench import Bench, Peer

GPU = Path(__file__).parents[2] / "benchmarks" / "gpu"
FLOORS = Floors(copy_bandwidth=4e12, matmul_rate=8e14, launch=1e-6, eager_launch=5e-6)
GRAPH, FLUSH, LAUNCH = 7.0, 50.0, 0.25


@dataclass
class FakeClock:
    """Time passes when work says so; starting a graph costs GRAPH, flushing FLUSH."""

    now: float = 0.0
    flushed: list[float] = field(default_factory=list)

    def work(self, seconds: float) -> Callable[[], None]:
        """A call that takes so long."""

        def call() -> None:
            self.now += seconds

        return call

    def capture(self, calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
        """A graph."""

        def start() -> None:
            self.now += GRAPH
            for call in calls:
                call()

        return start

    def device_seconds(self, start: Callable[[], object]) -> float:
        """What passed."""
        before = self.now
        start()
        return self.now - before

    def host_seconds(self, start: Callable[[], object]) -> float:
        """A launch, whatever it launches."""
        start()
        return LAUNCH

    def flush(self) -> None:
        """Costs more than the work does."""
        self.flushed.append(self.now)
        self.now += FLUSH


def exactly(seconds: float) -> Spread:
    """A spread without spread."""
    return Spread(seconds, seconds, seconds, 3)


def times(cold: float) -> Times:
    """Only cold matters here."""
    return Times(exactly(cold / 2), exactly(cold), exactly(1e-6), exactly(2e-6))


def test_median_and_deciles_are_nearest_ranks() -> None:
    """Of 1 to 10 the deciles are 1 and 9; one sample is all three; none is an error."""
    assert spread(range(10, 0, -1)) == Spread(5.5, 1, 9, 10)
    assert spread([4.0]) == Spread(4.0, 4.0, 4.0, 1)
    with pytest.raises(ValueError, match="nothing was measured"):
        spread([])


def test_a_setting_is_taken_away_with_its_uncertainty() -> None:
    """The difference of medians; the deciles are as far off as both together."""
    left = Spread(10.0, 9.0, 12.0, 30) - Spread(4.0, 3.5, 5.0, 20)
    assert left == Spread(6.0, 4.0, 8.5, 20)
    assert left / 2 == Spread(3.0, 2.0, 4.25, 20)


@pytest.mark.parametrize("reset", [None, 3.0])
def test_resets_flushes_and_graph_starts_do_not_count(reset: float | None) -> None:
    """A call of 2 s is measured as 2 s cold, whatever stands between calls; warm without a reset
    it carries its share of the graph's start; the host's share is its own."""
    clock, effort = FakeClock(), Effort(calls=4, rounds=3, host_rounds=3)
    before = clock.work(reset) if reset else None
    found = measure(clock, clock.work(2.0), before, effort)
    assert found.cold == exactly(2.0)
    assert found.warm == exactly(2.0 if reset else 2.0 + GRAPH / 4)
    assert found.host == found.eager == exactly(LAUNCH)
    assert len(clock.flushed) == 2 * 4 * 3


def test_every_call_is_reset_first() -> None:
    """State that a call changes is put back before each one, timed or not."""
    clock = FakeClock()
    log: list[str] = []
    measure(clock, lambda: log.append("call"), lambda: log.append("reset"), Effort(2, 2, 2))
    calls = [i for i, name in enumerate(log) if name == "call"][1:]
    assert len(calls) > 8
    assert all(log[i - 1] == "reset" for i in calls)


@pytest.mark.parametrize(
    ("cost", "floor"),
    [
        (Cost(bytes=40_000_000), 10e-6),
        (Cost(flops=16 * 10**9), 20e-6),
        (Cost(bytes=40_000_000, flops=16 * 10**9), 20e-6),
        (Cost(bytes=4), 1e-6),
    ],
)
def test_the_floor_is_whatever_binds(cost: Cost, floor: float) -> None:
    """Moving, computing or launching: the slowest of them."""
    assert FLOORS.seconds(cost) == pytest.approx(floor)


def test_targets_are_judged_by_cold_device_time() -> None:
    """Times at most, shares at least; at the mark is met."""
    cost = Cost(bytes=40_000_000)

    def row(cold: float, target: Target | None) -> Row:
        return Row("x", cost, times(cold), {"p": times(3 * cold), "q": "not installed"}, target)

    assert row(8e-6, Target("prepare-256", seconds=8e-6)).meets(FLOORS) is True
    assert row(8.1e-6, Target("prepare-256", seconds=8e-6)).meets(FLOORS) is False
    assert row(12.5e-6, Target("kv-write", share=0.8)).meets(FLOORS) is True
    assert row(12.6e-6, Target("kv-write", share=0.8)).meets(FLOORS) is False
    assert row(1.0, None).meets(FLOORS) is None
    assert row(1.0, None).faster("p") == pytest.approx(3)
    assert row(1.0, None).faster("q") is None


def test_noise_is_no_figure() -> None:
    """Where the setting took as long as the call, nothing is judged and nothing compared."""
    row = Row("x", Cost(4), times(-1e-9), {"p": times(1.0)}, Target("prepare-256", seconds=8e-6))
    assert row.share(FLOORS) is row.meets(FLOORS) is row.faster("p") is None
    noisy = Report("", "", True, "", {}, "", FLOORS, [Section("x", "X", "", [row])])
    assert "| – | – |" in as_page(noisy)


def test_a_peer_that_fails_costs_a_cell() -> None:
    """What is not installed or refuses says so in its cell; ours is measured all the same. A
    target nobody set is refused."""

    def gone() -> Callable[[], object]:
        raise ImportError("No module named 'vllm'", name="vllm")

    def refuses() -> Callable[[], object]:
        raise RuntimeError("head size 80 is not supported\nsecond line")

    clock = FakeClock()
    bench = Bench(clock, None, Effort(1, 1, 1), True)  # type: ignore[arg-type]
    peers = {"a": Peer(gone), "b": Peer(refuses), "c": Peer(lambda: clock.work(4.0))}
    row = bench.row("x", clock.work(2.0), Cost(4), peers=peers)
    assert row.peers["a"] == "not installed: vllm"
    assert row.peers["b"] == "failed: RuntimeError: head size 80 is not supported"
    assert row.faster("c") == 2.0
    with pytest.raises(ValueError, match="nonsense is not a target"):
        bench.row("x", clock.work(2.0), Cost(4), target=Target("nonsense", seconds=1.0))


def report(is_gpu: bool) -> Report:
    """A run with one table measured and one missing."""
    row = Row(
        "64k tokens", Cost(bytes=40_000_000), times(12.5e-6),
        {"torch": times(25e-6), "vLLM": "not installed: vllm"}, Target("kv-write", share=0.85),
    )  # fmt: skip
    sections = [
        Section("kv_write", "KV write", "What.", [row]),
        Section("step", "step", "", missing="not there: x"),
    ]
    return Report(
        "today", "a GPU", is_gpu, "run", {"torch": "2"}, "9 passed", FLOORS, sections, "8 passed"
    )


def test_the_page_says_what_was_measured() -> None:
    """Figure, verdict, ratio and what is missing stand on the page, and the same in JSON."""
    page = as_page(report(is_gpu=True))
    assert (
        "| KV write, 64k tokens | 85 % of copy bandwidth | 95 % | 80% (missed; 64k tokens) |"
        in page
    )
    assert "| 80% | missed | 25.0, 2.00× | not installed: vllm |" in page
    assert "Not measured: not there: x." in page and "9 passed" in page and "8 passed" in page
    row = json.loads(json.dumps(as_document(report(is_gpu=True))))["sections"][0]["rows"][0]
    assert row["share_of_floor"] == pytest.approx(0.8) and row["meets_target"] is False
    assert row["faster_than"] == {"torch": pytest.approx(2.0), "vLLM": None}


def test_a_cpu_fills_no_target() -> None:
    """What a CPU measured is marked as that and stands beside no target."""
    page = as_page(report(is_gpu=False))
    assert page.startswith("# The twins on a CPU: no figure here is about a GPU")
    assert "target" not in page.lower() and "floor" not in page


def test_the_committed_page_claims_nothing_that_nobody_measured() -> None:
    """The results page is the empty one, or names date, device and command."""
    page = (GPU / "RESULTS.md").read_text()
    assert page == empty_page() or "bench_gpu.py" in page.splitlines()[2]
    assert all(goal.figure in empty_page() for goal in GOALS)
    assert "Not measured on a GPU yet." in empty_page()


def test_without_a_gpu_it_says_so() -> None:
    """The command measures nothing, writes nothing, and says both."""
    before = (GPU / "RESULTS.md").read_text()
    done = subprocess.run(
        [sys.executable, str(GPU / "bench_gpu.py"), "--json"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measured"] is False
    assert "There is no GPU here" in done.stdout
    assert (GPU / "RESULTS.md").read_text() == before


def test_tests_run_compiled_and_what_they_say_is_told(tmp_path: Path) -> None:
    """Passed, failed, or not run for lack of what they need; and the folders are there."""
    (tmp_path / "test_one.py").write_text(
        "import os\n\ndef test_one():\n    assert os.environ['TRITON_INTERPRET'] == '0'\n"
    )
    passed, said = run_tests([str(tmp_path)], (), quick=True)
    assert passed and said.startswith("1 passed")
    (tmp_path / "test_two.py").write_text("def test_two():\n    assert False\n")
    passed, said = run_tests([str(tmp_path)], (), quick=False)
    assert not passed and said.startswith("1 failed, 1 passed")
    lacking = run_tests([str(tmp_path)], ("pytest", "nobody_has_this"), quick=False)
    assert lacking == (True, "not run, for lack of nobody_has_this")
    assert all((ROOT / folder).exists() for folder in (*KERNELS, *ENGINE))
    assert all(importlib.util.find_spec(name) for name in ENGINE_NEEDS)


def test_an_engine_that_fails_its_tests_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel's failure stops everything; the engine's stands on the page, and is not hidden."""
    says: dict[tuple[str, ...], tuple[bool, str]] = {KERNELS: (True, "9"), ENGINE: (False, "7")}
    monkeypatch.setattr("tested.run_tests", lambda folders, needs, quick: says[folders])
    assert bench_gpu.run_tests(quick=True) == (True, "9", "FAILED: 7")
    says[KERNELS] = False, "1 failed"
    assert bench_gpu.run_tests(quick=True) == (False, "1 failed", "")


def test_the_package_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not, it is found all the same, by processes started from here too."""
    monkeypatch.setattr(bench_gpu.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    bench_gpu.make_importable()
    folder, rest = os.environ["PYTHONPATH"].split(os.pathsep)
    assert rest == "elsewhere" and sys.path[0] == folder
    assert (Path(folder) / "nullblock" / "kernels" / "index.py").exists()


def test_times_have_three_digits() -> None:
    """Microseconds are printed with what can be believed."""
    assert [microseconds(s) for s in (1.234e-6, 12.34e-6, 1234e-6)] == ["1.23", "12.3", "1,234"]
