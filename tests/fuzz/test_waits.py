"""Requests that wait: the reference beside the real vLLM 0.22.1, and defects to be noticed."""

import subprocess
import sys
from typing import Any

import pytest
from fuzz import bulk, waits
from fuzz.golden import first_missed, using
from fuzz.source_defects import planted
from oracle.client import Oracle

from nullblock.conformance.engine import WAITS
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.finishing import Finishing
from nullblock.reference.sched.kv_connector import RemoteKV
from nullblock.reference.sched.kv_load_failures import KVLoadFailures
from nullblock.reference.sched.lora_cap import LoRACap
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.sched.skipped_queue import SkippedQueue
from nullblock.reference.sched.streaming import Streaming
from nullblock.reference.sched.structured_output import StructuredOutput
from nullblock.reference.sched.update_phase import UpdatePhase
from nullblock.reference.sched.waiting_phase import WaitingPhase
from nullblock.reference.single_type_kv_cache_manager import SingleTypeKVCacheManager

SEED, STEPS = "3", "1500"
CASES = (
    "skipped although nothing blocks it",
    "skipped after a preemption",
    "three skipped",
    "queued twice",
    "WAITING to WAITING_FOR_REMOTE_KVS",
    "WAITING_FOR_REMOTE_KVS to RUNNING",
    "WAITING_FOR_REMOTE_KVS to WAITING",
    "WAITING_FOR_REMOTE_KVS to FINISHED_ABORTED",
    "abort of WAITING_FOR_REMOTE_KVS",
    "abort of WAITING_FOR_STREAMING_REQ",
    "abort of WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    "computed tokens taken back while running",
    "computed tokens taken back while loading",
    "blocks kept after the end",
    "stopped and not ended",
    "RUNNING to WAITING_FOR_STREAMING_REQ",
    "WAITING_FOR_STREAMING_REQ to WAITING",
    "waiting with computed tokens",
    "new with computed tokens",
    "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR to WAITING",
    "a grammar waits for tokens in flight",
    "a mask is made",
    "finish: error",
    "reset done: False",
)


GOLDEN = using(WAITS)


def test_nothing_is_noticed_where_nothing_is_planted() -> None:
    """The reference prints every golden scenario, so that what follows shows something."""
    assert len(GOLDEN) >= 26
    assert first_missed(GOLDEN) == ""


@pytest.mark.oracle
@pytest.mark.slow
def test_random_scenarios_agree_and_reach_what_they_are_for(oracle: Oracle) -> None:
    """No difference, and each of the cases is met; with other seeds ``bulk.py`` goes on."""
    family = ["--family", "waits", "--seed", SEED, "--steps", STEPS]
    command = [sys.executable, bulk.__file__, *family]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
    assert [what for what in CASES if f" %  {what}\n" not in done.stdout] == []


def test_a_seed_names_one_scenario() -> None:
    """The reference plays along while it is made, and that changes nothing."""
    assert waits.seeded("5:1", 8) == waits.seeded("5:1", 8) != waits.seeded("5:2", 8)


Defect = tuple[Any, str, str, str]
QUEUE_DEFECTS: tuple[Defect, ...] = (
    (LoRACap, "_note_running_loras", "keep_places or request", "True or request"),
    (LoRACap, "_exceeds_max_loras", "is_full and", "False and"),
    (LoRACap, "_exceeds_max_loras", "== self", "> self"),
    (LoRACap, "_exceeds_max_loras", "not in step.loras", "in step.loras"),
    (LoRACap, "_take_lora_place", "if request.lora_request:", "if False:"),
    (SkippedQueue, "_enqueue_waiting_request", "queue = self._aside", "pass"),
    (SkippedQueue, "_select_waiting_queue_for_scheduling", "if not skipped:", "if waiting:"),
    (SkippedQueue, "_select_waiting_queue_for_scheduling", "FCFS or", "PRIORITY or"),
    (SkippedQueue, "_select_waiting_queue_for_scheduling", "() < skipped", "() > skipped"),
    (SkippedQueue, "_try_promote_blocked_waiting_request", "structured.grammar is None", "False"),
    (SkippedQueue, "_requeue_skipped", "self._aside.prepend", "self.waiting.prepend"),
    (SkippedQueue, "_skip", "skipped.prepend_request", "skipped.add_request"),
    (
        WaitingPhase,
        "_admit_waiting",
        "(self.skipped_waiting or (admits_new and self.waiting))",
        "admits_new and self.waiting",
    ),
    (Scheduler, "get_request_counts", " + len(self.skipped_waiting)", ""),
)
AFFECTED = "_update_requests_with_invalid_blocks"
LOAD_DEFECTS: tuple[Defect, ...] = (
    (RemoteKV, "_connector_finished", "manager.remove_skipped_blocks(", "max("),
    (RemoteKV, "_match_remote", "return False", "num_external = 0"),
    (RemoteKV, "_match_remote", "num_computed_tokens += num_external", "num_local += 0"),
    (RemoteKV, "_tell_allocated", "prefix.num_external\n", "0\n"),
    (RemoteKV, "_await_load", "= prefix.num_computed_tokens", "= prefix.num_local"),
    (RemoteKV, "_promote_loaded", "not in self.finished_recving_kv_req_ids", "in ()"),
    (RemoteKV, "_promote_loaded", "num_preemptions > 0", "num_preemptions < 0"),
    (RemoteKV, "_update_waiting_for_remote_kv", "has_failed and not num_loaded", "False"),
    (RemoteKV, "_update_waiting_for_remote_kv", "self.kv_cache_manager.free(request)", "pass"),
    (RemoteKV, "_update_waiting_for_remote_kv", "num_loaded - 1", "num_loaded"),
    (RemoteKV, "_forget_load", "return still_loads", "return False"),
    (RemoteKV, "_forget_load", "return still_loads", "return True"),
    (
        RemoteKV,
        "_update_from_kv_xfer_finished",
        "_ids.add(request_id)",
        "_ids.discard(request_id)",
    ),
    (RemoteKV, "_has_blocks_to_free_later", "> num_in_queues", "< num_in_queues"),
    (WaitingPhase, "_computed_prefix", "if request.num_computed_tokens:", "if False:"),
    (
        WaitingPhase,
        "_admit_waiting",
        "delay_cache_blocks=prefix.load_async",
        "delay_cache_blocks=False",
    ),
    (WaitingPhase, "_admit_waiting", "if prefix.load_async:", "if False:"),
    (SingleTypeKVCacheManager, "take_to_load", "cdiv(", "1 + cdiv("),
    (Finishing, "_free_request", "delay_free_blocks |= is_kept", "pass"),
    (Finishing, "finish_requests", "if not request.is_finished()", "if True"),
    (Finishing, "finish_requests", "self.skipped_waiting.remove_requests(waiting)", "pass"),
    (KVLoadFailures, "_handle_invalid_blocks", "_ids |= waits", "_ids |= set()"),
    (KVLoadFailures, "_handle_invalid_blocks", "return runs", "return set()"),
    (KVLoadFailures, "_handle_invalid_blocks", "waits | ", ""),
    (KVLoadFailures, "_handle_invalid_blocks", "_blocks(blocks_to_evict)", "_blocks(())"),
    (KVLoadFailures, AFFECTED, " - num_scheduled_tokens.get(request_id, 0)", ""),
    (KVLoadFailures, AFFECTED, "not in marked", "not in ()"),
    (KVLoadFailures, AFFECTED, "= first * self", "= (first + 1) * self"),
    (KVLoadFailures, AFFECTED, "block_ids[first:]", "block_ids[first:first]"),
    (KVLoadFailures, "_finish_transfers", "not self.recompute", "self.recompute"),
)
SESSION_DEFECTS: tuple[Defect, ...] = (
    (Streaming, "_add_to_session", "queue.append(update)", "queue.appendleft(update)"),
    (Streaming, "_add_to_session", "elif update is not None", "elif True"),
    (Streaming, "_handle_stopped_request", "update is None or ", ""),
    (Streaming, "_handle_stopped_request", "input += 1", "input += 0"),
    (Streaming, "_update_request_as_session", "del tokens[num_kept:]", "pass"),
    (
        Streaming,
        "_update_request_as_session",
        "_output_token_ids.clear()",
        "_output_token_ids.copy()",
    ),
    (Streaming, "_update_request_as_session", ".extend(kept_outputs)", ".extend([])"),
    (Streaming, "_update_request_as_session", "session.update_block_hashes()", "pass"),
    (Streaming, "_update_request_as_session", "session.arrival_time = ", "_ = "),
    (Streaming, "_update_request_as_session", "input -= 1", "input -= 0"),
    (Finishing, "finish_requests", "input -= 1", "input -= 0"),
    (
        Scheduler,
        "get_num_unfinished_requests",
        "num_waiting - self.num_waiting_for_streaming_input",
        "num_waiting",
    ),
    (UpdatePhase, "_stop", "if not has_ended:", "if False:"),
    (UpdatePhase, "_let_go", "self.waiting.remove", "self.skipped_waiting.remove"),
)
GRAMMAR_DEFECTS: tuple[Defect, ...] = (
    (Drafts, "_allowed", "manager is None or", "True or"),
    (Drafts, "update_draft_token_ids", "self._allowed(request, token_ids)", "token_ids"),
    (
        Drafts,
        "update_draft_token_ids_in_output",
        "self._allowed(request, token_ids)",
        "token_ids",
    ),
    (StructuredOutput, "_note_structured_output", "_placeholders > 0", "_placeholders > 1"),
    (StructuredOutput, "_note_structured_output", "requests = True", "requests = False"),
    (
        StructuredOutput,
        "get_grammar_bitmask",
        "and requests[request_id].use_structured_output",
        "",
    ),
    (StructuredOutput, "get_grammar_bitmask", "and not requests[request_id].is_prefill_chunk", ""),
    (
        UpdatePhase,
        "_take_sampled",
        "and should_advance(request)",
        "and request.structured_output_request",
    ),
    (StructuredOutput, "_advance_grammar", "resumable = False", "resumable = True"),
    (StructuredOutput, "_advance_grammar", "FINISHED_ERROR", "FINISHED_STOPPED"),
    (
        UpdatePhase,
        "_take_sampled",
        "stopped |= not self._advance",
        "stopped &= not self._advance",
    ),
    (
        OutputPhase,
        "_update_after_schedule",
        "request.structured_output_request is not None",
        "False",
    ),
)


@pytest.mark.parametrize(
    ("owner", "name", "old", "new"),
    [*QUEUE_DEFECTS, *LOAD_DEFECTS, *SESSION_DEFECTS, *GRAMMAR_DEFECTS],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_defect_is_noticed(owner: Any, name: str, old: str, new: str) -> None:
    """Some golden scenario is printed otherwise: what was changed is decided by them."""
    with planted(owner, name, old, new):
        assert first_missed(GOLDEN)
