"""The committed runs of the fast engine: what is counted, and what is not any more."""

from pathlib import Path

from fuzz.record_impl import Run, add, gather, present, totals


def test_no_run_that_is_recorded_showed_a_difference() -> None:
    """And no scenario is counted twice: runs of one pair of engines differ in their seeds."""
    runs = gather()
    assert runs and sum(run.differences for run in runs) == 0
    assert len({(run.engine, run.beside, run.seed) for run in runs}) == len(runs)


def test_runs_of_another_text_do_not_count(tmp_path: Path) -> None:
    """A total is of the text that is there: runs of an earlier one stay, and add nothing."""
    path = tmp_path / "impl.json"
    beside = "vLLM 0.22.1"
    run = Run(present("impl", beside), "impl", beside, 1, 10, 500, 2, 0)
    add(run, path)
    add(Run("0" * 64, "impl", beside, 2, 10, 700, 2, 3), path)
    assert gather(path)[0] == run
    assert totals(gather(path)).endswith("the present text: 500 random steps, 0 differences")
