"""The engine on a device as its users call it, beside the NumPy engine."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from device_beside import Beside
from where import COMPILED, KERNELS_ON

import nullblock.impl.device
from nullblock.conformance.cli import main
from nullblock.impl import Request
from nullblock.impl.device import NoSuchDevice, Scheduler
from nullblock.impl.device.ties import Ties
from nullblock.impl.known import KNOWN
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1, Semantics


def serve(both: Beside, policy: str, count: int, turns: int) -> int:
    """Prompts of several lengths, some alike, with answers that outgrow the pool together; how
    many were preempted.
    """
    preempted = 0
    for turn in range(turns):
        if turn % 2 == 0 and turn // 2 < count:
            number = turn // 2
            both.add(
                f"r{number * 7 % 10}-{number}",
                [number % 3] * (3 + number * 5 % 11),
                5 + number * 7 % 13,
                priority=5 - number % 3 if policy == "priority" else 0,
                arrival_time=float(number // 4),
                eos=9,
                stop=frozenset({8, *range(50, 50 + number % 7)}),
            )
        preempted += len(both.schedule().preempted)
        both.update()
    return preempted


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("profile", KNOWN)
def test_twins_decide_what_numpy_decides(policy: str, profile: str) -> None:
    """Every field of every step, all outputs, and the whole state after each, through chunks,
    preemption, resumption, shared blocks and growth of rows, lengths and stop ids.
    """
    both = Beside(
        "twins",
        policy=policy,
        semantics=PROFILES[profile],
        long_prefill_token_threshold=7,
        num_rows=2,
        row_tokens=5,
    )
    assert serve(both, policy, 14, 60) > 3
    assert both.device.resident.sizes.num_rows > 2


def test_kernels_decide_what_numpy_decides() -> None:
    """The same in Triton's interpreter, for fewer steps of more requests."""
    both = Beside(KERNELS_ON, policy="priority", num_blocks=9, num_rows=4, row_tokens=5)
    assert serve(both, "priority", 8, 14) > 0


@pytest.mark.parametrize("device", ["twins", KERNELS_ON])
@pytest.mark.parametrize("profile", KNOWN)
def test_what_may_happen_in_flight(device: str, profile: str) -> None:
    """Ends, an id that comes again (UPD-16), a reset (LIFE-3), a pause (LIFE-7), an eviction
    (HASH-13) while a step is in flight: the tokens go where the rules say.
    """
    both = Beside(device, semantics=PROFILES[profile])
    for id in "abcd":
        both.add(id, [1] * 5, 2)
    both.schedule()
    assert both.call("finish_requests", ["a", "nobody", "a", "c"]) == ["a", "c"]
    both.add("a", [2] * 5, 5)
    both.call("evict_blocks", [1, 3])
    heard = both.update().ids
    assert heard == (["a", "b", "d"] if PROFILES[profile] == VLLM_0_22_1 else ["b", "d"])
    both.schedule()
    both.pause(PAUSED_ALL)
    assert not both.call("reset_prefix_cache")
    assert both.call("reset_prefix_cache", reset_running=True)
    both.update()
    assert both.schedule().ids == []
    both.update()
    both.pause(PAUSED_NEW)
    both.add("e", [7], 1)
    both.call("finish_requests", ["e"])
    both.pause(UNPAUSED)
    both.schedule()
    both.update()


@pytest.mark.parametrize("profile", KNOWN)
def test_nobody_looks_between_the_halves_of_a_step(profile: str) -> None:
    """Who ended in flight gets no token, and who came with its id gets it or not (UPD-16), also if
    nothing is asked of the device in between.
    """
    both = Beside("twins", semantics=PROFILES[profile])
    for id in "abc":
        both.add(id, [1] * 5, 2)
    both.schedule()
    for engine in (both.numpy, both.device):
        assert engine.finish_requests(["a", "b"]) == ["a", "b"]
    both.add("a", [2] * 5, 5)
    assert both.update().ids == (["a", "c"] if PROFILES[profile] == VLLM_0_22_1 else ["c"])


def test_more_letters_than_the_mailbox_holds() -> None:
    """A hundred arrivals and as many ends before a step lose nothing."""
    both = Beside("twins", num_blocks=40, max_num_seqs=100)
    for number in range(100):
        both.add(f"r{number}", [number], 3)
    both.compare()
    assert both.call("finish_requests", [f"r{number}" for number in range(0, 100, 2)])
    both.schedule()
    both.update()


def test_rows_are_used_again() -> None:
    """Ten times as many requests take no more rows than the first ones."""
    both = Beside("twins", num_rows=2)
    for number in range(40):
        both.add(f"r{number}", [number] * 3, 2)
        for _ in range(2):
            both.schedule()
            both.update()
    assert both.device.resident.sizes.num_rows <= 4


def test_equal_urgency_is_decided_by_ids_however_many_come() -> None:
    """The numbers that stand for ids keep their order when there is no room between two (WAIT-1),
    and a device is told the new ones.
    """
    ties = Ties(0, 7)
    assert [ties.add(id) for id in ("m", "c", "z", "d", "e")] == [True, True, True, True, False]
    assert sorted("mczde", key=ties.__getitem__) == ["c", "d", "e", "m", "z"]
    both = Beside("twins", policy="priority", max_num_seqs=1)
    both.device._ties = Ties(0, 9)
    for id in ("m", "c", "z", "d", "cc", "ca", "cb"):
        both.add(id, [1] * 3, 1)
        both.compare()
    served = []
    while both.numpy.requests:
        served += both.schedule().ids
        both.update()
    assert served == ["c", "ca", "cb", "cc", "d", "m", "z"]


def test_what_can_never_be_served_is_refused_at_arrival() -> None:
    """With the reason, in the next outputs, and in vLLM 0.22.1 not at all (LIFE-2)."""
    both = Beside("twins", semantics=NORMATIVE)
    both.add("long", [1] * 40, 1)
    assert both.device.rejected == both.numpy.rejected
    both.schedule()
    ((id, why),) = both.update().rejected
    assert id == "long" and "max_model_len is 40" in why


def test_misuse_is_refused_and_changes_nothing() -> None:
    """A second step in flight, an update without one, tokens for somebody else, an id twice."""
    both = Beside("twins")
    made = both.device
    with pytest.raises(IndexError, match="no step is in flight"):
        made.update_from_output([])
    both.add("a", [1] * 5, 9)
    with pytest.raises(ValueError, match="'a' is alive"):
        made.add_request(Request("a", [1] * 5, 9))
    both.schedule()
    with pytest.raises(RuntimeError, match="a step is in flight"):
        made.schedule()
    for tokens, match in (([1, 2], "for 1 scheduled"), ([-1], "not one of 0 to")):
        with pytest.raises(ValueError, match=match):
            made.update_from_output(tokens)
    with pytest.raises(ValueError, match="no block 12"):
        made.evict_blocks([12])
    with pytest.raises(OverflowError, match="token 2147483647"):
        made.add_request(Request("b", [2**31 - 1], 1))
    with pytest.raises(OverflowError, match="priority"):
        made.add_request(Request("b", [1], 1, priority=2**63))
    both.update([1])


@pytest.mark.parametrize(
    ("constants", "match"),
    [
        ({"async_scheduling": True}, "synchronously"),
        ({"block_size": 2**17}, "block_size is more than"),
        ({"num_blocks": 2**28}, "fewer than"),
        ({"semantics": Semantics(frames_match_request=False)}, "frames_match_request"),
    ],
)
def test_what_a_device_does_not_do_is_named(constants: dict[str, Any], match: str) -> None:
    """When the engine is made."""
    defaults: dict[str, Any] = {"num_blocks": 9, "block_size": 4, "max_num_scheduled_tokens": 8}
    with pytest.raises(ValueError, match=match):
        Scheduler(
            Config(**defaults | {"max_num_seqs": 2, "max_model_len": 8} | constants), "twins"
        )


def test_a_limit_without_end_takes_no_room() -> None:
    """Requests that may run and never do, and tokens that nobody has, cost nothing."""
    both = Beside("twins", max_num_seqs=10**9, max_model_len=2**40, max_num_scheduled_tokens=10**6)
    both.add("a", [1] * 20, 2**50)
    both.schedule()
    both.update()
    assert both.device.resident.state.arrays.requests.tokens.nbytes < 10**5


# The command line --------------------------------------------------------------------------------

SCENARIO = {
    "config": {"block_size": 4, "num_blocks": 9},
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 12]}, "max_tokens": 3},
        {"op": "run"},
    ],
}


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A scenario file."""
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SCENARIO))
    return str(path)


def test_the_command_says_the_same_on_every_device(source: str, capsys: Any) -> None:
    """`nullblock run --engine impl --device`, but for what hashes are called."""
    said = []
    for device in ("cpu", "twins", KERNELS_ON):
        assert (
            main(["run", "--engine", "impl", "--device", device, source, "--dump", "brief"]) == 0
        )
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2] and said[0].count("\n") > 6


def test_a_device_that_is_not_there_is_refused_in_a_line(source: str, capsys: Any) -> None:
    """Exit code 3; and another engine has no devices at all, exit code 2."""
    import torch

    if not torch.cuda.is_available():
        assert main(["run", "--engine", "impl", "--device", "cuda", source]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert "torch finds no GPU; choose cpu, interpreter or twins" in line
    for command in (["run", source], ["trace", source, "-o", f"{source}.jsonl"]):
        assert main([*command, "--engine", "spec", "--device", "twins"]) == 2
        assert "only --engine impl has devices" in capsys.readouterr().err


@pytest.mark.parametrize("lacking", ["torch", "triton"])
def test_without_torch_or_triton_the_engine_says_so(
    source: str, capsys: Any, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """One line with the remedy and exit code 3; NumPy alone runs on; an import says the same."""
    monkeypatch.setitem(sys.modules, lacking, None)
    assert main(["run", "--engine", "impl", "--device", "twins", source]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs torch and Triton; pip install 'nullblock[gpu]'" in line
    assert main(["run", "--engine", "impl", source]) == 0
    with pytest.raises(ImportError, match=rf"{lacking}: pip install 'nullblock\[gpu\]'"):
        _ = nullblock.impl.device.Scheduler


@pytest.mark.skipif(COMPILED, reason="the other way round where kernels are compiled")
def test_interpreted_and_compiled_in_one_process_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks for the other one, after Triton was imported, is told how to get it."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    config = Config(9, 4, 8, 2, 8)
    with pytest.raises(NoSuchDevice, match="TRITON_INTERPRET=1 before"):
        Scheduler(config, "interpreter")
    with pytest.raises(NoSuchDevice, match="nobody knows a device 'tpu'"):
        Scheduler(config, "tpu")


def test_a_token_that_a_device_does_not_hold_is_named(tmp_path: Path, capsys: Any) -> None:
    """One line, and exit code 3: the scenario is right and this engine cannot run it."""
    source = tmp_path / "s.json"
    for add, what in (
        ({"prompt": [2**40]}, "token 1099511627776: on a device they are 0 to 2147483646"),
        ({"prompt": [-1]}, "token -1"),
        ({"prompt": [1], "eos": 2**31}, "token 2147483648"),
    ):
        events = [{"op": "add", "id": "a", "max_tokens": 1} | add, {"op": "run"}]
        source.write_text(json.dumps({"events": events}))
        assert main(["run", "--engine", "impl", "--device", "twins", str(source)]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert what in line
