"""Traces of servers with context parallelism: a block is divided among ranks, and to whoever
schedules it holds the tokens of all of them.
"""

import copy
import io
import itertools
import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from altered import is_known, judge
from bases import Lines, whole
from fuzz.families import FAMILIES
from fuzz.lockstep import features
from fuzz.ranks import RANKS, reached, with_ranks
from fuzz.traced import from_a_front_end
from record_again import record_all
from traces import trace_of

from nullblock.conformance import groups as kinds
from nullblock.conformance.adapters.vllm import groups
from nullblock.conformance.checker import check
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.spec.profiles import PROFILES

Document = dict[str, Any]
LINES = ("vllm-0.22.1", "vllm-0.32.0")
DRAWN = ("core", "drafts", "waits", "items", "sessions", "remote")
UNTOLD = {Feature.counts, Feature.clients, Feature.unchecked_input}
"""What traces have no words for."""
MANY, SIZE = 5, 14
NAMED = (
    *("raised", "of a later chunk", "decisions: there are none"),
    "encoder inputs that overlap",
)
"""What random scenarios have that vLLM raises at, or that nobody has shown."""
DIVIDED: Document = {
    "config": {
        **{"block_size": 2, "num_blocks": 12, "max_num_batched_tokens": 16, "kv_events": True},
        **{"decode_context_parallel_size": 2, "max_model_len": 64},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 13]}, "max_tokens": 6},
        {"op": "run"},
        {"op": "add", "id": "b", "prompt": {"range": [0, 21]}, "max_tokens": 3},
        {"op": "run"},
    ],
}
"""Blocks of four tokens, two of them on a rank; a prompt of which three were computed before."""
PREFILLED = DIVIDED | {"config": DIVIDED["config"] | {"prefill_context_parallel_size": 3}}
"""The same, and ranks of prefill, which 0.32.0 leaves out of account."""
UNCACHED = DIVIDED | {"config": DIVIDED["config"] | {"enable_prefix_caching": False}}


def drawn(line: str, family: str) -> dict[str, Document]:
    """Random scenarios of a family with ranks, that traces have words for, by name."""
    told = extent(features(("spec",)), PROFILES[line]) - UNTOLD
    found = {}
    for key in itertools.count():
        made = FAMILIES[family].make(f"ranks {key}", SIZE, told - set(RANKS.values()))
        if not kinds.are_plain(from_dict(made).config):
            continue
        document = with_ranks(f"{key}", from_a_front_end(made), told, often=1)
        if is_told(document, told):
            found[f"{line} {family} {len(found)}"] = document
        if len(found) == MANY:
            return found
    raise AssertionError


def is_told(document: Document, told: frozenset[Feature]) -> bool:
    """Whether traces have words for a scenario."""
    taken = from_dict(document)
    drafts = taken.config.num_spec_tokens > 0 or not (
        "drafts" in document["config"] or any(e["op"] == "draft" for e in document["events"])
    )
    idle = taken.config.max_num_scheduled_tokens == 0
    return drafts and not idle and {feature for feature, _ in used(taken)} <= told


@pytest.fixture(scope="module")
def recorded(pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every drawn scenario, and :data:`DIVIDED`, as the real engines play them."""
    folder = tmp_path_factory.mktemp("ranks")
    for line, python in pythons.items():
        every = {name: one for f in DRAWN for name, one in drawn(line, f).items()}
        every |= {f"{line} divided": DIVIDED, f"{line} prefilled": PREFILLED}
        every |= {f"{line} uncached": UNCACHED}
        record_all(python, every, folder)
    return folder


@pytest.mark.oracle
@pytest.mark.parametrize("line", LINES)
def test_what_the_real_engine_does_conforms(recorded: Path, line: str) -> None:
    """In step and ahead, with drafts, adapters, grammars, encoder inputs, sessions, connectors."""
    said: Counter[str] = Counter()
    sizes: set[str] = set()
    for name, document in ((n, d) for f in DRAWN for n, d in drawn(line, f).items()):
        verdict = check(recorded / f"{name}.jsonl", deep=False)
        assert is_known(verdict, NAMED) and verdict.profile == line, (name, verdict)
        said[verdict.verdict] += 1
        sizes |= reached(document)
    assert said["CONFORMS"] > 3 * MANY * len(DRAWN) // 4
    assert sizes == (set(RANKS) if line == LINES[0] else {"decode_context_parallel_size"})


@pytest.mark.oracle
@pytest.mark.parametrize("line", LINES)
def test_a_block_of_all_ranks_is_told(recorded: Path, line: str) -> None:
    """By the header, whether prefixes are cached or not; the trace of ours is of the same."""
    for name, document in (("divided", DIVIDED), ("uncached", UNCACHED)):
        lines = whole(recorded / f"{line} {name}.jsonl")
        ours = json.loads(trace_of(document, "spec", line).splitlines()[0])
        assert lines[0]["config"]["block_size"] == ours["config"]["block_size"] == 4
        assert "features" not in lines[0] and judge(lines).verdict == "CONFORMS"
        told = any(line.get("events") for line in lines)
        assert told == (name == "divided")


@pytest.mark.oracle
@pytest.mark.parametrize(("line", "size"), [*zip(LINES, (12, 4), strict=True)])
def test_ranks_of_prefill_are_told_as_the_line_has_them(
    recorded: Path, line: str, size: int
) -> None:
    """In blocks of six times two tokens, or of twice two; scenarios of the latter are refused."""
    lines = whole(recorded / f"{line} prefilled.jsonl")
    assert lines[0]["config"]["block_size"] == size and judge(lines).verdict == "CONFORMS"
    in_later = pytest.raises(OutOfScope, match="prefill context parallelism is out of scope")
    with nullcontext() if line == LINES[0] else in_later:
        trace_of(PREFILLED, "spec", line)


@pytest.mark.oracle
@pytest.mark.parametrize("line", LINES)
def test_who_takes_a_part_for_the_block_is_caught(recorded: Path, line: str) -> None:
    """A request has half as many blocks as its tokens would need of such."""
    lines: Lines = copy.deepcopy(whole(recorded / f"{line} divided.jsonl"))
    lines[0]["config"]["block_size"] = 2
    lines[0].pop("config_sha256")
    assert judge(lines).verdict in ("VIOLATION", "MALFORMED")


@pytest.mark.parametrize("engine", ["spec", "reference"])
@pytest.mark.parametrize("profile", ["normative", *LINES])
def test_our_engines_conform(profile: str, engine: str) -> None:
    """What they write of themselves is judged."""
    data = trace_of(DIVIDED, engine, profile)
    assert check(Path("t"), stream=io.BytesIO(data), deep=False).verdict == "CONFORMS"


BESIDE = {
    "windows": ([{"type": "sliding_window", "sliding_window": 6}], "vllm-0.22.1"),
    "groups": ([{"type": "full"}, {"type": "sliding_window", "sliding_window": 6}], "vllm-0.32.0"),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", BESIDE)
def test_beside_other_layers_it_is_named(
    name: str, pythons: dict[str, Path], tmp_path: Path
) -> None:
    """Where the real engine runs all the same: without prefix caching, or in a later line."""
    layers, line = BESIDE[name]
    config = DIVIDED["config"] | {"groups": layers, "enable_prefix_caching": False}
    record_all(pythons[line], {"beside": DIVIDED | {"config": config}}, tmp_path)
    verdict = check(tmp_path / "beside.jsonl")
    told = verdict.verdict, verdict.missing[0]
    assert told == ("INCONCLUSIVE", "the feature context_parallelism")


@pytest.mark.parametrize("layers", [layers for layers, _ in BESIDE.values()])
def test_scenarios_of_it_beside_other_layers_are_refused(layers: list[Document]) -> None:
    """By name, whether prefixes are cached or not."""
    for caching in (True, False):
        config = DIVIDED["config"] | {"groups": layers, "enable_prefix_caching": caching}
        with pytest.raises(OutOfScope, match="context parallelism beside anything but one group"):
            from_dict(DIVIDED | {"config": config})


class MLAAttentionSpec(Fake):
    """Layers of latent attention."""


@pytest.mark.parametrize(("decode", "prefill"), [(1, 1), (2, 1), (1, 2)])
def test_the_recorder_names_what_a_size_of_blocks_does_not_tell(decode: int, prefill: int) -> None:
    """Ranks beside anything but one group that is all of full attention, latent or not."""
    ranks = {"decode_context_parallel_size": decode, "prefill_context_parallel_size": prefill}
    for specs, is_told_of in (
        ([MLAAttentionSpec()], True),
        ([Fake()], False),
        ([Fake()] * 2, False),
    ):
        cache = Fake(kv_cache_groups=[Fake(kv_cache_spec=spec) for spec in specs])
        scheduler = Fake(parallel_config=Fake(**ranks), kv_cache_config=cache)
        assert groups.are_divided(scheduler) == (max(decode, prefill) > 1 and not is_told_of)
