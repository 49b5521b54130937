"""The fast engine prints what the others print: vectors, random scenarios, the real vLLM."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from audit import audited_lines
from fuzz import lockstep
from oracle.client import Oracle
from planted import planted

from nullblock.conformance.engine import Feature
from nullblock.conformance.engines import features_of
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lockstep import generator
from nullblock.impl.known import KNOWN
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1, Semantics

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
INDEX: dict[str, str] = json.loads((VECTORS / "index.json").read_text())
LACKING = {Feature.kv_events: "kv_events"}
PRESSING: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "pressing.json").read_text()
)
"""More scenarios, for what no vector shows."""
SCENARIOS = range(12)


def vector(name: str) -> dict[str, Any]:
    """The scenario of that name."""
    document: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text())
    return document


@cache
def made(number: int) -> dict[str, Any]:
    """A random scenario that asks for nothing that the engine does not do."""
    return generator.seeded(f"impl:{number}", features=features_of("impl"))


@cache
def expected(number: int, profile: str) -> list[str]:
    """What the reference prints for it."""
    return lockstep.lines_of("reference", made(number), PROFILES[profile])


@cache
def chosen() -> list[tuple[dict[str, Any], str, list[str]]]:
    """Vectors that are served and pressing scenarios, by profile; what the reference prints."""
    documents = [document for name in INDEX if not refusal(document := vector(name))]
    return [
        (document, profile, lockstep.lines_of("reference", document, PROFILES[profile]))
        for document in (*PRESSING.values(), *documents)
        for profile in KNOWN
    ]


def refusal(document: dict[str, Any]) -> str:
    """What the engine says that it does not do; empty if it runs the scenario."""
    try:
        lockstep.lines_of("impl", document, NORMATIVE)
    except OutOfScope as error:
        return error.what
    return ""


def parts(lines: list[str], document: dict[str, Any], semantics: Semantics) -> str:
    """Where the fast engine parts from those lines, or its own state from what has to be true;
    empty: nowhere.
    """
    try:
        printed = audited_lines(document, semantics)
    except AssertionError as error:
        return f"audit: {error}"
    raised = [line for line in printed if '"where":["audit.py' in line or '"audit.py:' in line]
    return raised[0] if raised else lockstep.difference(lines, printed, bytewise=False)


@pytest.mark.parametrize("name", INDEX)
def test_a_vector_gives_the_recorded_lines_or_a_refusal(name: str) -> None:
    """The lines of the real vLLM 0.22.1; or the feature that it uses and the engine lacks."""
    document = vector(name)
    why = refusal(document)
    if why:
        lacking = next(feature for feature in Feature if why.startswith(feature))
        assert lacking not in features_of("impl")
        assert lacking not in LACKING or document["config"][LACKING[lacking]]
        return
    recorded = (VECTORS / f"{name}.jsonl").read_text().splitlines()
    assert parts(recorded, document, VLLM_0_22_1) == ""


def test_no_other_vector_is_refused() -> None:
    """What is without events is served in both profiles, as the reference serves it."""
    served = [document["config"] for document, _, _ in chosen()]
    ahead = [config for config in served if config.get("async_scheduling")]
    staged = [config for config in served if config.get("pipeline_parallel_size", 1) > 1]
    assert len(served) >= 2 * (58 + len(PRESSING)) and ahead and staged
    for document, profile, lines in chosen():
        assert parts(lines, document, PROFILES[profile]) == ""


@pytest.mark.parametrize("profile", KNOWN)
def test_random_scenarios_print_what_spec_and_reference_print(profile: str) -> None:
    """In each profile; and between steps all counts of the engine are what they count."""
    for number in SCENARIOS:
        document, semantics = made(number), PROFILES[profile]
        assert parts(expected(number, profile), document, semantics) == "", number
        if number % 3 == 0:
            lines = lockstep.lines_of("spec", document, semantics)
            assert lockstep.difference(lines, expected(number, profile), bytewise=False) == ""


def test_freed_blocks_without_a_hash_may_come_first() -> None:
    """With the order of later lines too the free queue is the reference's (POOL-12)."""
    semantics = Semantics(freed_unhashed_first=True)
    for number in SCENARIOS:
        lines = lockstep.lines_of("reference", made(number), semantics)
        assert parts(lines, made(number), semantics) == "", number


@pytest.mark.oracle
@pytest.mark.slow
def test_the_real_engine_prints_the_same(oracle: Oracle) -> None:
    """Beside vLLM 0.22.1 itself no random scenario shows a difference."""
    for number in range(60):
        outcome = lockstep.run(made(number), ("impl",), oracle)
        assert not outcome.refused and not outcome.differences, (number, outcome.differences)


DEFECTS: dict[str, tuple[str, str, str]] = {
    "a table is freed first block first": ("state.py", "(i)[::-1].copy()", "(i).copy()"),
    "the last token of a block counts as none": (
        "running_phase.py",
        "needed += size - 1",
        "needed += size - 2",
    ),
    "a block is taken one token too early": (
        "running_phase.py",
        "needed += size - 1",
        "needed += size",
    ),
    "a block that is taken stays cached": (
        "block_pool.py",
        "        self.cache.evict(blocks)\n",
        "",
    ),
    "a block that is put back keeps its old position": (
        "free_queue.py",
        "        self.position[blocks] = places\n",
        "        self.position[blocks[self.position[blocks] == ABSENT][:-1]] = places[:-1]\n",
    ),
    "a hit stays in the free queue": (
        "block_pool.py",
        "            self.free.remove(free)\n",
        "            pass\n",
    ),
    "of equal victims the last one goes": (
        "running_phase.py",
        "keys.index(max(keys))",
        "len(keys) - 1 - keys[::-1].index(max(keys))",
    ),
    "of equals the id takes no part": (
        "running_phase.py",
        "if state.semantics.victim_by_id:",
        "if False:",
    ),
    "the first of the running list is the victim": (
        "running_phase.py",
        "return running.count - 1",
        "return 0",
    ),
    "a withdrawn victim leaves its hashes": (
        "running_phase.py",
        "            state.pool.cache.evict(running.blocks(victim, computed))\n",
        "            pass\n",
    ),
    "a victim before the index does not move it": (
        "running_phase.py",
        "if granted or (state.semantics.victim_shifts_index and victim < step.index):",
        "if False:",
    ),
    "a withdrawn victim's tokens are lost": (
        "running_phase.py",
        "step.budget += granted",
        "step.budget += 0",
    ),
    "who preempted itself does not end the phase": (
        "running_phase.py",
        "        if itself:\n            return False\n",
        "        if itself:\n            return True\n",
    ),
    "the copy cached last is found": ("prefix_cache.py", "copies.pop(0)", "copies.pop()"),
    "a lookup covers the last token": (
        "waiting_phase.py",
        "(request.num_tokens - 1) // ",
        "request.num_tokens // ",
    ),
    "hits in the free queue count as free blocks": (
        "waiting_phase.py",
        "- len(hits) + in_queue >",
        "- len(hits) >",
    ),
    "the whole sequence need not fit": (
        "waiting_phase.py",
        "if config.scheduler_reserve_full_isl:",
        "if False:",
    ),
    "a parent that passes on its hold keeps it": (
        "prefix_cache.py",
        "        np.subtract.at(self.holders, parents[known], 1)\n",
        "",
    ),
    "a name outlives those that need it": (
        "prefix_cache.py",
        "names = self.parent[names]",
        "names = self.parent[names][:0]",
    ),
    "a preempted request goes to the back of the queue": (
        "waiting.py",
        "self._queue.appendleft(request)",
        "self._queue.append(request)",
    ),
    "a stop token below min_tokens ends a request": (
        "update.py",
        "why[below & ~at_limit] = CONTINUE",
        "pass",
    ),
    "a stop id comes before eos": (
        "update.py",
        "    why[by_eos] = STOPPED\n",
        "    why[by_eos & (why == CONTINUE)] = STOPPED\n",
    ),
    "the limit comes before a stop id": (
        "update.py",
        "why[at_limit & (why == CONTINUE)] = LENGTH",
        "why[at_limit] = LENGTH",
    ),
    "an output in flight is not counted": (
        "output_phase.py",
        "running.placeholders[places] += samples",
        "pass",
    ),
    "an output goes to whoever has the id": (
        "update.py",
        "state.semantics.frames_match_request and request is not oldest.requests[i]",
        "False",
    ),
    "a reset forgets that a block is held": (
        "block_pool.py",
        "if self.num_free != self.num_blocks - 1:",
        "if False:",
    ),
    "tokens in flight are not computed ahead": (
        "running_phase.py",
        "        tokens += running.placeholders[rest]\n",
        "        pass\n",
    ),
    "who gets all it may get is scheduled again": (
        "running_phase.py",
        "        tokens[_last_in_flight(state, rest)] = 0\n",
        "        pass\n",
    ),
    "one that is passed over has its blocks cached": (
        "running_phase.py",
        "(full > running.num_cached[part]) & (tokens != 0)",
        "(full > running.num_cached[part])",
    ),
    "one that is passed over gets blocks": (
        "running_phase.py",
        "    needed *= tokens != 0\n",
        "",
    ),
    "a table is no longer than the tokens known": (
        "running_phase.py",
        "        running.make_room(int((running.num_blocks[lacking] + counts).max()) * "
        "config.block_size)\n",
        "",
    ),
    "what is known by now is not cached": (
        "update.py",
        "    if state.config.async_scheduling and state.config.enable_prefix_caching:\n",
        "    if False:\n",
    ),
    "a discarded token is taken": (
        "update.py",
        "        if running.discarded[place]:\n",
        "        if False:\n",
    ),
    "who waits takes what is discarded": (
        "update.py",
        "    if request.num_discarded:\n        request.num_discarded -= 1\n",
        "    if request.num_discarded < 0:\n        request.num_discarded -= 1\n",
    ),
    "a second reset forgets the first": (
        "state.py",
        "int(running.discarded[i]) if self.semantics.discards_add_up else 0",
        "0",
    ),
    "a row that was left counts as the same stay": (
        "running.py",
        "        self.visit[row] = 0\n",
        "",
    ),
    "a place in the list is that of old": (
        "running.py",
        "        self.place[self.row[: self.count]] = np.arange(self.count)\n",
        "",
    ),
    "nobody notices that somebody left": (
        "update.py",
        "running.departures != oldest.departures",
        "False",
    ),
    "tokens in flight are not told": (
        "output_phase.py",
        "        num_output_tokens += owed\n",
        "        pass\n",
    ),
    "a stage gets the tokens of the step before": (
        "output_phase.py",
        "running.tokens[running.row[place], first[i] : stop]",
        "running.tokens[running.row[place], first[i] - 1 : stop - 1]",
    ),
    "a request that was not in the last step gets no tokens sent": (
        "output_phase.py",
        "known.all() and not resumed",
        "not resumed",
    ),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_shows(what: str) -> None:
    """Each defect makes the engine part from the reference in some vector, in one of the profiles,
    or leaves counts behind that are not what they count.
    """
    with planted(*DEFECTS[what]):
        assert any(
            parts(lines, document, PROFILES[profile]) for document, profile, lines in chosen()
        )


def test_without_a_defect_nothing_shows() -> None:
    """The engine loaded the same way, with a comment for a defect, parts from nobody."""
    with planted("state.py", '    """Every request is in', '    """All, every request is in'):
        for number in range(6):
            assert parts(expected(number, "vllm-0.22.1"), made(number), VLLM_0_22_1) == ""
