"""The fast engine as its users call it: what a worker and a client get, and what it refuses."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit import audit

import nullblock.impl
from nullblock.conformance.cli import main
from nullblock.impl import Outputs, Request, Scheduler, Step, update_from_output
from nullblock.impl.known import KNOWN
from nullblock.spec.facts import Config
from nullblock.spec.fields import CONTINUE, LENGTH, PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1

PRESSING = Path(__file__).parent / "data" / "pressing.json"


def engine(**constants: Any) -> Scheduler:
    """A small pool, and little of everything."""
    defaults: dict[str, Any] = {
        "num_blocks": 12,
        "block_size": 4,
        "max_num_scheduled_tokens": 24,
        "max_num_seqs": 6,
        "max_model_len": 40,
    }
    return Scheduler(Config(**{**defaults, **constants}))


def requests(count: int, policy: str) -> Iterator[Request]:
    """Prompts of several lengths, some alike, with answers that outgrow the pool together."""
    for number in range(count):
        yield Request(
            id=f"r{number}",
            prompt=[number % 3] * (3 + number * 5 % 11),
            max_tokens=5 + number * 7 % 13,
            priority=5 - number % 6 if policy == "priority" else 0,
            arrival_time=float(number),
            eos=9,
            stop=frozenset({8}),
        )


def sampled(step: Step, turn: int) -> list[int]:
    """What a model says: now and then one that ends a request."""
    return [(turn * 31 + i * 7) % 41 for i in range(len(step.ids))]


class Worker:
    """Knows of the requests what it is told, and nothing else."""

    def __init__(self) -> None:
        self.blocks: dict[str, list[int]] = {}
        self.tokens: dict[str, list[int]] = {}
        self.computed: dict[str, int] = {}

    def take(self, step: Step) -> None:
        """Apply one step."""
        for id in (*step.finished, *step.preempted):
            self.blocks.pop(id, None)
        new = step.new_block_ids.tolist()
        counts, computed = step.new_block_counts.tolist(), step.num_computed_tokens.tolist()
        for i, id in enumerate(step.ids):
            got, new = new[: counts[i]], new[counts[i] :]
            if i < step.running:
                self.blocks[id] += got
            else:
                self.blocks[id] = got
                request = step.admitted[i - step.running]
                if not request.num_preemptions:
                    self.tokens[id] = request.tokens.tolist()
            if id in step.all_token_ids:
                self.tokens[id] = list(step.all_token_ids[id])
            self.computed[id] = computed[i] + int(step.num_scheduled_tokens[i])
            samples = self.computed[id] >= len(self.tokens[id])
            assert samples == bool(step.samples[i])
        assert not new

    def hear(self, outputs: Outputs) -> None:
        """What it sampled itself."""
        for id, token in zip(outputs.ids, outputs.tokens.tolist(), strict=True):
            self.tokens[id].append(token)


@pytest.mark.parametrize("profile", KNOWN)
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_worker_that_is_told_of_changes_knows_everything(policy: str, profile: str) -> None:
    """Tables, tokens and computed counts of all who are scheduled follow from the steps alone,
    through preemption, resumption, chunks and shared blocks.
    """
    made = engine(policy=policy, semantics=PROFILES[profile], long_prefill_token_threshold=7)
    worker, preempted, rows = Worker(), 0, dict[str, int]()
    arriving = requests(30, policy)
    for turn in range(600):
        if turn % 3 == 0 and (request := next(arriving, None)):
            made.add_request(request)
        step = made.schedule()
        worker.take(step)
        preempted += len(step.preempted)
        place = {id: i for i, id in enumerate(made.running.ids)}
        for id, row in zip(step.ids, step.rows.tolist(), strict=True):
            i = place[id]
            assert worker.blocks[id] == made.running.blocks(i).tolist()
            assert worker.computed[id] == made.running.num_computed[i]
            n = int(made.running.num_tokens[i])
            assert worker.tokens[id] == made.running.tokens[row, :n].tolist()
            assert rows.get(id, row) == row
        rows = dict(zip(made.running.ids, made.running.row.tolist(), strict=False))
        worker.hear(update_from_output(made, sampled(step, turn)))
        audit(made)
        rows = {id: row for id, row in rows.items() if id in made.running.ids}
        if turn > 90 and not made.requests:
            break
    assert not made.requests and preempted > 3


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_memory_does_not_grow_with_the_requests_served(policy: str) -> None:
    """After ten times as many requests there are as many names, rows and cells as before, and
    nothing is kept of those that have ended.
    """
    made = engine(policy=policy)

    def serve(count: int, first: int) -> tuple[int, ...]:
        for number in range(first, first + count):
            prompt = np.arange(10) + 100 * number
            made.add_request(Request(f"r{number}", prompt, 12, arrival_time=number))
            while len(made.requests) > 8:
                step = made.schedule()
                update_from_output(made, sampled(step, number))
        while made.requests:
            update_from_output(made, sampled(made.schedule(), 0))
        made.schedule()
        update_from_output(made, [])
        cache, running = made.pool.cache, made.running
        assert not made.finished and not made.rejected and not running.requests
        assert len(cache) <= made.config.num_blocks * made.blocks(made.config.max_model_len)
        return len(cache.contents), running.tokens.size, running.table.size, running.names.size

    before = serve(40, 0)
    assert serve(400, 40) == before
    audit(made)


def test_rows_grow_with_those_who_run() -> None:
    """There is no memory for requests that may run and never do, and enough for those who do."""
    made = engine(
        num_blocks=2000, max_num_seqs=10**9, max_model_len=2**40, max_num_scheduled_tokens=10**6
    )
    assert made.running.tokens.nbytes < 10**5
    for number in range(50):
        made.add_request(Request(f"r{number}", [number] * 100, 5))
    step = made.schedule()
    assert len(step.ids) == 50 and set(step.rows.tolist()) == set(range(50))
    assert made.running.tokens.shape[0] >= 50 and made.running.tokens.shape[1] >= 100
    audit(made)


def test_a_step_and_its_outputs_are_arrays_side_by_side() -> None:
    """Two prompts, one too long for the step: one samples, the other's token is ignored."""
    made = engine(max_num_scheduled_tokens=16)
    made.add_request(Request("a", [1] * 6, 1))
    made.add_request(Request("b", [2] * 20, 5))
    step = made.schedule()
    assert step.ids == ["a", "b"] and step.running == 0
    assert step.num_scheduled_tokens.tolist() == [6, 10]
    assert step.samples.tolist() == [True, False]
    assert step.new_block_counts.tolist() == [2, 3]
    assert step.new_block_ids.tolist() == [1, 2, 3, 4, 5]
    outputs = update_from_output(made, np.array([5, 6]))
    assert (outputs.ids, outputs.tokens.tolist(), outputs.why.tolist()) == (["a"], [5], [LENGTH])
    step = made.schedule()
    assert (step.ids, step.finished, step.num_computed_tokens.tolist()) == (["b"], ["a"], [10])
    outputs = update_from_output(made, [7])
    assert (outputs.ids, outputs.why.tolist()) == (["b"], [CONTINUE])


@pytest.mark.parametrize("profile", KNOWN)
def test_aborted_in_flight_nobody_gets_the_token(profile: str) -> None:
    """And a later request of that id gets it in vLLM 0.22.1 only (UPD-16)."""
    made = engine(semantics=PROFILES[profile])
    for id in ("a", "b"):
        made.add_request(Request(id, [1] * 5, 5))
    step = made.schedule()
    assert made.finish_requests(["a", "nobody", "a"]) == ["a"]
    audit(made)
    made.add_request(Request("a", [2] * 5, 5))
    outputs = update_from_output(made, [3, 4])
    assert step.ids == ["a", "b"]
    assert outputs.ids == (["a", "b"] if PROFILES[profile] == VLLM_0_22_1 else ["b"])
    audit(made)


@pytest.mark.parametrize("profile", KNOWN)
def test_reset_in_flight_a_waiting_request_takes_its_token(profile: str) -> None:
    """All who ran wait in the same order, still get what was in flight, and may end by it."""
    made = engine(semantics=PROFILES[profile])
    for number in range(3):
        made.add_request(Request(f"r{number}", [number] * 5, 1 + number))
    made.schedule()
    assert not made.reset_prefix_cache()
    assert made.reset_prefix_cache(reset_running=True)
    assert [request.id for request in made.waiting] == [
        "r0",
        "r1",
        "r2",
    ] and not made.running.count
    outputs = update_from_output(made, [7, 7, 7])
    assert outputs.ids == ["r0", "r1", "r2"]
    assert outputs.why.tolist() == [LENGTH, CONTINUE, CONTINUE]
    audit(made)
    step = made.schedule()
    assert step.ids == ["r1", "r2"] and set(step.all_token_ids) == {"r1", "r2"}
    assert step.num_scheduled_tokens.tolist() == [6, 6]


def test_paused_in_flight_the_next_step_is_empty() -> None:
    """PAUSED_ALL schedules nothing, PAUSED_NEW nobody new, and the step in flight is taken."""
    made = engine()
    made.add_request(Request("a", [1] * 5, 9))
    made.schedule()
    made.pause_state = PAUSED_ALL
    assert update_from_output(made, [2]).ids == ["a"]
    made.add_request(Request("b", [2] * 5, 9))
    assert made.num_unfinished() == 0 and made.schedule().ids == []
    update_from_output(made, [])
    made.pause_state = PAUSED_NEW
    step = made.schedule()
    # It was not in the step before, so the worker is told its tokens again (OUT-3).
    assert (made.num_unfinished(), step.ids, set(step.all_token_ids)) == (1, ["a"], {"a"})
    update_from_output(made, [2])
    made.pause_state = UNPAUSED
    assert made.schedule().ids == ["a", "b"] and made.num_unfinished() == 2


def test_what_can_never_be_served_is_refused_at_arrival() -> None:
    """With the reason, in the next outputs, and in vLLM 0.22.1 not at all (LIFE-2)."""
    made = engine(semantics=NORMATIVE)
    made.add_request(Request("long", [1] * 40, 1))
    made.schedule()
    ((id, why),) = update_from_output(made, []).rejected
    assert id == "long" and "max_model_len is 40" in why


def test_misuse_is_refused_and_changes_nothing() -> None:
    """An update without a step, tokens for somebody else, an id twice, numbers too large."""
    made = engine()
    with pytest.raises(IndexError, match="no step is in flight"):
        update_from_output(made, [])
    made.add_request(Request("a", [1] * 5, 9))
    with pytest.raises(ValueError, match="'a' is alive"):
        made.add_request(Request("a", [1] * 5, 9))
    made.schedule()
    with pytest.raises(ValueError, match="for 1 scheduled"):
        update_from_output(made, [1, 2])
    with pytest.raises(ValueError, match="no block 12"):
        made.evict_blocks([12])
    assert update_from_output(made, [1]).ids == ["a"]
    with pytest.raises(ValueError, match="max_tokens is at least 1"):
        Request("b", [1], 0)
    with pytest.raises(OverflowError):
        Request("b", [2**63], 1)
    with pytest.raises(OverflowError, match="eos"):
        Request("b", [1], 1, eos=2**63)
    with pytest.raises(ValueError, match="max_model_len is more than"):
        engine(max_model_len=2**60)


@pytest.mark.parametrize("profile", KNOWN)
def test_its_traces_conform(tmp_path: Path, profile: str, capsys: Any) -> None:
    """`nullblock check` explains every decision of `nullblock trace --engine impl`."""
    for number, document in enumerate(json.loads(PRESSING.read_text()).values()):
        source, trace = tmp_path / f"{number}.json", str(tmp_path / f"{number}.jsonl.zst")
        source.write_text(json.dumps(document))
        options = ["--engine", "impl", "--profile", profile]
        assert main(["trace", str(source), "-o", trace, *options]) == 0
        assert main(["check", trace, "--profile", profile]) == 0
    assert capsys.readouterr().out.count("CONFORMS") == number + 1


def test_a_limit_beyond_its_range_is_named(tmp_path: Path, capsys: Any) -> None:
    """One line, and exit code 3: the scenario is right and this engine cannot run it."""
    source = tmp_path / "s.json"
    source.write_text(json.dumps({"config": {"max_model_len": 2**60}, "events": []}))
    assert main(["run", "--engine", "impl", str(source)]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "config: for the engine impl max_model_len is more than" in line


def test_without_numpy_the_engine_says_so(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the remedy and exit code 3; other engines run; an import says the same."""
    source = tmp_path / "s.json"
    source.write_text('{"events": []}')
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["run", "--engine", "impl", str(source)]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs NumPy; pip install 'nullblock[impl]'" in line
    assert main(["run", "--engine", "spec", str(source)]) == 0
    with pytest.raises(ImportError, match=r"pip install 'nullblock\[impl\]'"):
        _ = nullblock.impl.Scheduler


def test_nothing_but_the_engine_needs_numpy() -> None:
    """The command line and the name of the engine are known without importing NumPy."""
    program = (
        "import sys; import nullblock.conformance.cli, nullblock.conformance.engines as e; "
        "e.features_of('impl'); import nullblock.impl; sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'scheduler_of'"):
        _ = nullblock.impl.scheduler_of


def test_the_example_in_the_readme_runs() -> None:
    """The first one as it stands, until everybody is served."""
    text = Path(nullblock.impl.__file__).with_name("README.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["outputs"].why.tolist() == [LENGTH] and not names["scheduler"].requests
