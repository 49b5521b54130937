"""Formulations of one helper that have to agree: rules, reference, seeds, reasons.

Of two functions of one signature CrossHair is asked whether they agree, exceptions included; what
they do not take they refuse in the same way.
PYTEST_DONT_REWRITE: an assertion that pytest rewrites has paths of its own.
"""

import math
from dataclasses import replace
from types import MethodType, SimpleNamespace
from typing import Any

from nullblock.reference.request import RequestStatus
from nullblock.reference.sched.admission import Admission
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.utils import check_stop as reference_check_stop
from nullblock.reference.sched.waiting_phase import WaitingPhase
from nullblock.reference.single_type_kv_cache_manager import FullAttentionManager
from nullblock.reference.utils import cdiv
from nullblock.spec import fields, gate, state
from nullblock.spec.concrete import Env
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.rejection import why_unservable

R = 0
"""The only request."""


def environment(size: int, **constants: Any) -> Any:
    """An environment with a block size and no more than what a helper reads."""
    always: dict[str, Any] = {"sem": NORMATIVE, "lookahead": 0}
    always |= dict.fromkeys(("windowed", "several", "encodes", "mamba", "aligns", "split"), False)
    always |= dict.fromkeys(("sessions", "wants_vectors", "connector", "spans", "defers"), False)
    always |= dict.fromkeys(("crosses", "encoder_decoder", "keeps_embeddings"), False)
    always["makes_vectors"] = False
    k = SimpleNamespace(block_size=size, **always, **constants)
    k.blocks = lambda tokens: Env.blocks(k, tokens)  # type: ignore[arg-type]
    k.full = lambda tokens: Env.full(k, tokens)  # type: ignore[arg-type]
    k.tokens = lambda blocks: Env.tokens(k, blocks)  # type: ignore[arg-type]
    return k


def blocks_by_the_rules(tokens: int, size: int) -> int:
    """Blocks that tokens need."""
    assert 1 <= size <= 16
    return int(environment(size).blocks(tokens))


def blocks_by_the_reference(tokens: int, size: int) -> int:
    """The same."""
    assert 1 <= size <= 16
    return cdiv(tokens, size)


def running_by_the_rules(
    tokens: int, computed: int, budget: int, threshold: int, max_len: int
) -> int:
    """Tokens that a running request gets."""
    k = environment(1, threshold=threshold, max_len=max_len, asynchronous=False)
    s: Any = SimpleNamespace(k=k, budget=budget, ntok={R: tokens}, comp={R: computed}, ph={R: 0})
    s.spec = s.pd = s.old = {R: 0}
    return state.tokens_to_run(s, R)  # type: ignore[no-any-return]


def running_by_the_reference(
    tokens: int, computed: int, budget: int, threshold: int, max_len: int
) -> int:
    """The same."""
    phase: Any = SimpleNamespace(
        _long_prefill_token_threshold=threshold, max_model_len=max_len, semantics=NORMATIVE
    )
    phase.async_scheduling, phase._num_steps = False, 0
    phase.num_sampled_tokens_per_step = 1
    request: Any = SimpleNamespace(_all_token_ids=_Sized(tokens), num_computed_tokens=computed)
    request.num_output_placeholders = request.next_sampling_step = 0
    request.spec_token_ids = ()
    return RunningPhase._num_running_tokens(phase, request, budget)


class _Sized:
    """As many things as it is told."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n


def ahead_by_the_rules(
    prompt: int, output: int, placeholders: int, computed: int, max_tokens: int, frames: bool
) -> bool:
    """Whether a request gets all it may still get from steps in flight."""
    assert min(prompt, output, placeholders) >= 0
    k = environment(1, asynchronous=True, prompt_len=lambda r: prompt)
    k.max_tokens, k.sem = lambda r: max_tokens, NORMATIVE if frames else VLLM_0_22_1
    s: Any = SimpleNamespace(k=k, ph={R: placeholders}, pd={R: 0}, ntok={R: prompt + output})
    s.comp = {R: computed}
    return bool(state.last_in_flight(s, R))


def ahead_by_the_reference(
    prompt: int, output: int, placeholders: int, computed: int, max_tokens: int, frames: bool
) -> bool:
    """The same."""
    assert min(prompt, output, placeholders) >= 0
    phase: Any = SimpleNamespace(semantics=NORMATIVE if frames else VLLM_0_22_1)
    request: Any = SimpleNamespace(num_prompt_tokens=prompt, max_tokens=max_tokens)
    request._all_token_ids, request.num_output_placeholders = _Sized(prompt + output), placeholders
    request.num_computed_tokens, request.num_draft_placeholders = computed, 0
    return placeholders > 0 and RunningPhase._is_served_by_steps_in_flight(phase, request)


def admitted_by_the_rules(
    tokens: int, hit: int, budget: int, threshold: int, chunked: bool
) -> int | None:
    """Tokens that a waiting request gets; None if it has to wait for more budget."""
    assert 0 <= hit < tokens and budget >= 1
    k = environment(4, threshold=threshold, chunked=chunked)
    s: Any = SimpleNamespace(k=k, budget=budget, ntok={R: tokens}, comp={R: hit}, na=0, nhit=0)
    return state.tokens_to_admit(s, R) if state.may_chunk(s, R) else None


def admitted_by_the_reference(
    tokens: int, hit: int, budget: int, threshold: int, chunked: bool
) -> int | None:
    """The same."""
    assert 0 <= hit < tokens and budget >= 1
    phase: Any = SimpleNamespace(
        _long_prefill_token_threshold=threshold,
        scheduler_config=SimpleNamespace(enable_chunked_prefill=chunked),
    )
    request: Any = SimpleNamespace(num_tokens=tokens, request_id="")
    return WaitingPhase._num_waiting_tokens(phase, request, hit, budget)


def stop_by_the_rules(
    prompt: int,
    output: int,
    max_tokens: int,
    min_tokens: int,
    max_len: int,
    kind: int,
    limits_first: bool,
) -> int:
    """Whether and why a request ends with a token of that kind: 0 plain, 1 end, 2 stop id."""
    k = environment(1, max_len=max_len, prompt_len=lambda r: prompt)
    k.max_tokens, k.min_tokens = lambda r: max_tokens, lambda r: min_tokens
    k.sem = replace(NORMATIVE, length_before_min_tokens=limits_first)
    token = fields.EOS if kind == 1 else fields.STOP_ID if kind == 2 else fields.PLAIN
    k.last_token = lambda s, r: token
    s: Any = SimpleNamespace(k=k, ntok={R: prompt + output}, cur=0, upto=0, frame=[None])
    return state.check_stop(s, R)  # type: ignore[no-any-return]


def stop_by_the_reference(
    prompt: int,
    output: int,
    max_tokens: int,
    min_tokens: int,
    max_len: int,
    kind: int,
    limits_first: bool,
) -> int:
    """The same."""
    assert prompt >= 0 and output >= 1
    request: Any = SimpleNamespace(max_tokens=max_tokens, status=RequestStatus.RUNNING)
    request.sampling_params = SimpleNamespace(
        min_tokens=min_tokens, _eos_token_id=1, stop_token_ids=[2], repetition_detection=None
    )
    request._output_token_ids = _Tokens(output, kind)
    request._all_token_ids = _Tokens(prompt + output, kind)
    request.stop_reason = request.pooling_params = None
    semantics = replace(NORMATIVE, length_before_min_tokens=limits_first)
    if not reference_check_stop(request, max_len, semantics=semantics):
        return fields.CONTINUE
    if request.status == RequestStatus.FINISHED_LENGTH_CAPPED:
        return fields.LENGTH
    return fields.STOPPED if request.stop_reason is None else fields.STOPPED_BY_ID


def stop_by_the_rules_after_an_output(
    prompt: int,
    output: int,
    max_tokens: int,
    min_tokens: int,
    max_len: int,
    kind: int,
    limits_first: bool,
) -> int:
    """Whether and why a request ends that has just taken a token."""
    assert prompt >= 0 and output >= 1
    return stop_by_the_rules(prompt, output, max_tokens, min_tokens, max_len, kind, limits_first)


class _Tokens(_Sized):
    """So many tokens, the last one known."""

    def __init__(self, n: int, last: int) -> None:
        super().__init__(n)
        self.last = last

    def __getitem__(self, place: int) -> int:
        return self.last


def servable_by_the_rules(prompt: int, max_tokens: int, max_len: int) -> bool:
    """Whether 9 blocks of 4 tokens hold a request to its limit."""
    assert prompt >= 0 and max_tokens >= 1 and max_len >= 1
    return _servable(prompt, max_tokens, max_len, 10**6, 0, True)


def servable_by_its_reasons(prompt: int, max_tokens: int, max_len: int) -> bool:
    """The same: whether there is no reason why not."""
    assert prompt >= 0 and max_tokens >= 1 and max_len >= 1
    config = Config(10, 4, 10**6, 8, max_len, 0, True)
    return why_unservable(config, prompt, max_tokens) is None


def servable_by_the_reference(prompt: int, max_tokens: int, max_len: int) -> bool:
    """The same."""
    assert prompt >= 0 and max_tokens >= 1 and max_len >= 1
    return _servable_there(prompt, max_tokens, max_len, 10**6, 0, True)


def uncut_by_the_rules(prompt: int, budget: int, threshold: int, chunked: bool) -> bool:
    """Whether a request of at most 3 more tokens may be computed again in the steps it has."""
    assert 1 <= prompt <= 30 and budget >= 1
    return _servable(prompt, 3, 1000, budget, threshold, chunked)


def uncut_by_the_reference(prompt: int, budget: int, threshold: int, chunked: bool) -> bool:
    """The same."""
    assert 1 <= prompt <= 30 and budget >= 1
    return _servable_there(prompt, 3, 1000, budget, threshold, chunked)


def _servable(
    prompt: int, max_tokens: int, max_len: int, budget: int, threshold: int, chunked: bool
) -> bool:
    k = environment(4, usable=9, max_len=max_len, budget=budget)
    k.threshold, k.chunked = threshold, chunked
    k.num_spec, k.asynchronous = 0, False
    k.prompt_len, k.max_tokens = lambda r: prompt, lambda r: max_tokens
    return bool(state.servable(SimpleNamespace(k=k), R))


def _manager() -> Any:
    """The tables of full attention, empty, in blocks of 4 tokens."""
    return SimpleNamespace(
        req_to_blocks={},
        num_cached_block={},
        block_size=4,
        _max_admission_blocks_per_request=None,
        block_pool=SimpleNamespace(semantics=NORMATIVE),
        get_num_skipped_tokens=lambda num_computed_tokens: 0,
    )


def _servable_there(
    prompt: int, max_tokens: int, max_len: int, budget: int, threshold: int, chunked: bool
) -> bool:
    table = _manager()
    slots = FullAttentionManager.get_num_blocks_to_allocate
    coordinator = SimpleNamespace(
        # One group of attention over the whole sequence, of a model that encodes nothing.
        get_num_blocks_to_allocate=lambda id, num_tokens, hits, **more: slots(
            table, id, num_tokens, hits, more["total_computed_tokens"], num_tokens
        )
    )
    phase: Any = SimpleNamespace(
        max_model_len=max_len,
        block_size=4,
        kv_cache_manager=SimpleNamespace(
            block_pool=SimpleNamespace(num_gpu_blocks=10),
            coordinator=coordinator,
            empty_kv_cache_blocks=SimpleNamespace(blocks=()),
        ),
        _num_tokens_to_attend_to=lambda request: 0,
        _with_drafts=lambda num_slots: num_slots,
        _most_blocks_held=lambda num_slots, attended: None,
        _num_sink_blocks=lambda: 0,
        max_num_scheduled_tokens=budget,
        scheduler_config=SimpleNamespace(
            long_prefill_token_threshold=threshold, enable_chunked_prefill=chunked
        ),
    )
    request: Any = SimpleNamespace(
        num_prompt_tokens=prompt, max_tokens=max_tokens, request_id="", mm_features=()
    )
    phase._unservable_length = MethodType(Admission._unservable_length, phase)
    return Admission._unservable_reason(phase, request) is None


def hits_by_the_rules(tokens: int, first_miss: int) -> int:
    """Blocks of 4 tokens that a lookup hits, where those before the first miss are cached."""
    assert 1 <= tokens <= 24 and 0 <= first_miss
    k = environment(4, caching=True, skip_read=lambda r: False, want=lambda r, i: i)
    k.exists, k.eagle = lambda sort, test, by: by[1] < first_miss, False
    s: Any = SimpleNamespace(k=k, ntok={R: tokens}, nhit=0)
    while not state.lookup_over(s, R):
        s.nhit += 1
    return int(s.nhit)


def hits_by_the_reference(tokens: int, first_miss: int) -> int:
    """The same."""
    assert 1 <= tokens <= 24 and 0 <= first_miss
    hashes: Any = [number.to_bytes(1, "big") for number in range(tokens // 4)]
    cached = SimpleNamespace(get_one_block=lambda key: key if key[0] < first_miss else None)
    pool: Any = SimpleNamespace(cached_block_hash_to_block=cached)
    spec: Any = SimpleNamespace(block_size=4)
    (hits,) = FullAttentionManager.find_longest_cache_hit(
        hashes, tokens - 1, [0], pool, spec, False, 4
    )
    return len(hits)


def admission_by_the_rules(goal: int, hits: int, free_hits: int, free: int) -> bool:
    """Whether slots up to the goal are free for a request that enters with hits."""
    assert 0 <= free_hits <= hits <= 3 and 4 * hits < goal and free >= 0
    k = environment(4, max_len=goal)
    s: Any = SimpleNamespace(k=k, goal=goal, tlen={R: 0}, nhit=hits, na=0, nevict=free_hits)
    s.nfree, s.phase, s.actor = free, fields.WAIT_PHASE, R
    return bool(gate.fits(s, R))


def admission_by_the_reference(goal: int, hits: int, free_hits: int, free: int) -> bool:
    """The same."""
    assert 0 <= free_hits <= hits <= 3 and 4 * hits < goal and free >= 0
    manager = _manager()
    blocks: Any = [
        SimpleNamespace(ref_cnt=0 if place < free_hits else 1, is_null=False)
        for place in range(hits)
    ]
    needed = FullAttentionManager.get_num_blocks_to_allocate(
        manager, "", goal, blocks, 4 * hits, goal
    )
    return needed <= free


def fits_by_the_rules(held: int, goal: int, free: int, size: int, max_len: int) -> bool:
    """Whether slots up to the goal are given to a request that runs."""
    s: Any = SimpleNamespace(
        k=environment(size, max_len=max_len), goal=goal, tlen={R: held}, nhit=0, na=0
    )
    s.nevict, s.nfree, s.phase, s.actor = 0, free, fields.RUN_PHASE, R
    return bool(gate.fits(s, R))


def can_allocate_by_the_rules(computed: int, new: int, free: int) -> bool:
    """Whether new tokens fit a request whose table is as long as what it has computed needs."""
    assert computed >= 1 and new >= 1 and free >= 0
    return fits_by_the_rules(cdiv(computed, 16), computed + new, free, 16, computed + new)


def can_allocate_by_the_seed(computed: int, new: int, free: int) -> bool:
    """The block manager that a seed describes: first the last block, then free ones."""
    assert computed >= 1 and new >= 1 and free >= 0
    fill = computed - (cdiv(computed, 16) - 1) * 16
    return _seed_fits(16 - fill, new, free)


def can_allocate_by_a_remainder(computed: int, new: int, free: int) -> bool:
    """The same read carelessly: a last block that is full counts as empty."""
    assert computed >= 1 and new >= 1 and free >= 0
    return _seed_fits(16 - computed % 16, new, free)


def can_allocate_in_floats(computed: int, new: int, free: int) -> bool:
    """The seed's own spelling of the division, in floating point."""
    assert computed >= 1 and 1 <= new <= 2**20 and free >= 0
    fill = computed - (cdiv(computed, 16) - 1) * 16
    return new <= 16 - fill or math.ceil((new - 16 + fill) / 16) <= free


def can_allocate_in_whole_numbers(computed: int, new: int, free: int) -> bool:
    """Whether new tokens fit by a seed's formula, whose division is in floating point there."""
    assert computed >= 1 and 1 <= new <= 2**20 and free >= 0
    fill = computed - (cdiv(computed, 16) - 1) * 16
    return _seed_fits(16 - fill, new, free)


def _seed_fits(remaining: int, new: int, free: int) -> bool:
    return True if new <= remaining else cdiv(new - remaining, 16) <= free


def stop_on_length_alone(
    prompt: int,
    output: int,
    max_tokens: int,
    min_tokens: int,
    max_len: int,
    kind: int,
    limits_first: bool,
) -> int:
    """A canary: a stop check that forgets min_tokens."""
    assert prompt >= 0 and output >= 1
    return stop_by_the_rules(prompt, output, max_tokens, 0, max_len, kind, limits_first)
