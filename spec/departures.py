"""The departures of vllm-0.22.1: where that release breaks an invariant, and the smallest scope in
which the explorer finds it out by itself.

One switch may show in several ways; each is a departure. `nullblock explore --departures` finds
them all again, and shows that the normative profile passes the same scopes.
"""

from dataclasses import dataclass, replace

from nullblock.spec.draft_departures import DRAFT_DEFECTS, DraftDefect
from nullblock.spec.encoder_departures import ENCODER_DEFECTS
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.result import Progress, Result
from nullblock.spec.explorer.search import GUARD, PROMISE, explore
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics
from nullblock.spec.remote_departures import REMOTE_DEFECTS
from nullblock.spec.session_departures import SESSION_DEFECTS
from nullblock.spec.state_departures import STATE_DEFECTS
from nullblock.spec.wait_departures import WAIT_DEFECTS

A, B, C = 1001, 1002, 1003
"""Prompt tokens. The tokens that are sampled in a replay are below 1000."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A departure: where a released engine breaks an invariant of this specification, with the
    scope in which it shows.
    """

    switch: str
    value: bool
    upstream: str
    breaks: str
    """The ID of the invariant that falls first."""
    story: str
    scope: Scope
    companions: tuple[str, ...] = ()
    """Other switches that must differ from normative too, because nothing else leads there."""

    @property
    def name(self) -> str:
        """What it is called: the name of its scope."""
        return self.scope.name

    @property
    def flipped(self) -> Semantics:
        """The normative profile with this switch, and its companions, as in vllm-0.22.1."""
        names = (self.switch, *self.companions)
        return replace(NORMATIVE, **{name: getattr(VLLM_0_22_1, name) for name in names})

    @property
    def repaired(self) -> Semantics:
        """vllm-0.22.1 with this switch alone as in the normative profile."""
        return replace(VLLM_0_22_1, **{self.switch: not self.value})


def find(
    defect: Defect, semantics: Semantics = VLLM_0_22_1, progress: Progress | None = None
) -> Result:
    """A search for a shortest counterexample to the invariant that the departure breaks."""
    return explore(defect.scope, semantics, claims=frozenset({defect.breaks}), progress=progress)


def clear(defect: Defect, progress: Progress | None = None) -> Result:
    """What the normative profile does in the scope of a departure: every statement is checked,
    and whether everybody is served in the end.
    """
    return explore(defect.scope, progress=progress)


def _config(blocks: int, size: int, budget: int, **more: object) -> Config:
    """`blocks` usable blocks: the null block comes on top."""
    settings = {"max_num_seqs": 3, "max_model_len": 16, **more}
    return Config(blocks + 1, size, budget, **settings)  # type: ignore[arg-type]


def _unservable(
    name: str, upstream: str, breaks: str, story: str, config: Config, *templates: Template
) -> Defect:
    """A departure of `reject_unservable`: what normative refuses at arrival, 0.22.1 takes."""
    witnesses = {"rejection"} | ({"stop-length"} if len(templates) > 1 else set())
    scope = Scope(name, story, config, templates, frozenset(witnesses), aborts=False)
    return Defect("reject_unservable", False, upstream, breaks, story, scope)


def _ahead(
    defect: tuple[str, str, str, str],
    name: str,
    config: Config,
    templates: tuple[Template, ...],
    witnesses: str,
    **more: object,
) -> Defect:
    """A departure that shows only with several steps in flight: switch, upstream, what breaks,
    story.
    """
    switch, upstream, breaks, story = defect
    scope = Scope(
        *(name, story, config, templates, frozenset(witnesses.split())),
        **{"halves": True, "aborts": False, **more},  # type: ignore[arg-type]
    )
    return Defect(switch, False, upstream, breaks, story, scope)


def _of_its_own(d: DraftDefect) -> Defect:
    """A departure that is written down in a file of its own."""
    what = (d.switch, d.upstream, d.breaks, d.story)
    defect = _ahead(what, d.name, d.config, d.templates, d.witnesses, **d.more)
    return replace(defect, companions=d.companions)


_BEFORE_INDEX = (
    "a victim before the index that was not scheduled makes the scheduler skip a request"
)
_WITHDRAWN = "a victim that was already scheduled leaves hashes of blocks that nobody computes"
_TURNS = "two requests of equal priority and arrival time preempt each other in turn, for ever"
_MIN_TOKENS = "a request that reaches max_model_len below min_tokens runs for ever, doing nothing"
_KEYS = "an adapter and a cache salt of one spelling share the blocks of one prompt"
_REUSE = "a token in flight is appended to the next request with the id, which never asked for it"
_BACKWARDS = "a prompt of max_model_len tokens, scheduled ahead, is given back a token it computed"
_REUSE_AHEAD = "a token in flight for an earlier owner of the id is one more than the next expects"
_SECOND_RESET = "a second reset forgets what the first was to drop: a stale token is taken"
_ONE_TOO_MANY = "with three steps in flight one computes a token that nobody can take any more"
_TWICE = "a request preempted and resumed with its output in flight samples that position twice"

DEPARTURES: tuple[Defect, ...] = (
    _unservable(
        "unfit-prompt",
        "39734, 35541",
        "RUN-20",
        "a prompt that can never fit the pool waits at the head of the queue for ever, and "
        "everybody behind it",
        _config(2, 2, 8),
        Template("a", (A, A, A, A, A), 1),
        Template("b", (B,), 1),
    ),
    _unservable(
        "outgrown-pool",
        "39734",
        "RUN-20",
        "a lone request that outgrows the pool preempts itself, and then waits for ever",
        _config(2, 2, 8),
        Template("a", (A,), 9),
    ),
    _unservable(
        "start-over",
        "18115, 25538",
        SERVED,
        "without reservation a lone request that outgrows the pool preempts itself and starts "
        "over, for ever",
        _config(2, 2, 4, scheduler_reserve_full_isl=False, enable_prefix_caching=False),
        Template("a", (A,), 9),
    ),
    _unservable(
        "uncut-prompt",
        "55130",
        "RUN-20",
        "with chunked prefill off a prompt beyond the token budget waits for ever, and everybody "
        "behind it",
        _config(4, 2, 2, enable_chunked_prefill=False),
        Template("a", (A, A, A), 1),
        Template("b", (B,), 1),
    ),
    _unservable(
        "full-prompt",
        "29496",
        "RUN-20",
        "a prompt of max_model_len tokens, computed in chunks, never gets its last one and runs "
        "for ever",
        _config(4, 2, 2, max_model_len=4),
        Template("a", (A, A, A, A), 1),
    ),
    _unservable(
        "long-prompt",
        "none known",
        "RUN-23",
        "a prompt longer than max_model_len is scheduled a negative number of tokens",
        _config(4, 2, 4, max_model_len=4),
        Template("a", (A, A, A, A, A, A), 1),
    ),
    _unservable(
        "empty-prompt",
        "7632",
        GUARD,
        "an empty prompt is taken, and the step that would admit it raises",
        _config(2, 2, 2),
        Template("a", (), 1),
    ),
    Defect(
        "victim_shifts_index",
        False,
        "49097",
        "RUN-28",
        _BEFORE_INDEX,
        Scope(
            "skipped-request",
            _BEFORE_INDEX,
            _config(
                *(5, 1, 8),
                max_model_len=4,
                policy="priority",
                scheduler_reserve_full_isl=False,
                enable_prefix_caching=False,
            ),
            (
                Template("v", (A, A), 9, min_tokens=9, priority=9),
                Template("x", (B,), 2, priority=0),
                Template("y", (C,), 2, priority=1),
            ),
            frozenset({"preempts-another", "preempts-with-budget", "stop-max-len"}),
            aborts=False,
        ),
        # In step only a request that is stuck is passed over, and so not scheduled (RUN-18).
        companions=("length_before_min_tokens",),
    ),
    Defect(
        "withdraw_uncaches",
        False,
        "43569",
        "HASH-6",
        _WITHDRAWN,
        Scope(
            "uncomputed-hit",
            _WITHDRAWN,
            _config(
                *(7, 1, 4),
                max_num_seqs=2,
                long_prefill_token_threshold=2,
                policy="priority",
                scheduler_reserve_full_isl=False,
            ),
            (Template("a", (A,) * 6, 1, priority=1), Template("b", (B,), 2)),
            frozenset({"withdrawal", "hashes-withdrawn", "threshold-cut"}),
            aborts=False,
        ),
    ),
    Defect(
        "victim_by_id",
        False,
        "none known",
        SERVED,
        _TURNS,
        Scope(
            "taking-turns",
            _TURNS,
            _config(
                *(3, 1, 4),
                max_num_seqs=2,
                long_prefill_token_threshold=1,
                policy="priority",
                scheduler_reserve_full_isl=False,
                enable_prefix_caching=False,
            ),
            (Template("a", (A, A, A), 1), Template("b", (B, B, B), 1)),
            frozenset("preempts-another preempts-itself threshold-cut slots-not-free".split()),
            aborts=False,
        ),
    ),
    Defect(
        "length_before_min_tokens",
        False,
        "51299",
        "RUN-20",
        _MIN_TOKENS,
        Scope(
            "no-room-for-min-tokens",
            _MIN_TOKENS,
            _config(4, 2, 4, max_model_len=4),
            (Template("a", (A, A), 9, min_tokens=9),),
            frozenset({"stop-max-len"}),
            aborts=False,
        ),
    ),
    Defect(
        "extra_keys_tagged",
        False,
        "44701",
        "HASH-18",
        _KEYS,
        Scope(
            "one-spelling",
            _KEYS,
            _config(3, 2, 6, max_num_seqs=2, max_model_len=8),
            (Template("a", (A, A, B), 2, lora="X"), Template("b", (A, A, B), 2, salt="X")),
            frozenset({"duplicate-hash", "free-hit", "hash-evicted"}),
            aborts=False,
        ),
    ),
    Defect(
        "frames_match_request",
        False,
        "42492",
        "UPD-15",
        _REUSE,
        Scope(
            "next-owner",
            _REUSE,
            _config(2, 2, 4),
            (Template("a", (A,), 2),),
            frozenset({"abort-in-flight", "id-reused-in-flight", "output-for-nobody"}),
            halves=True,
        ),
    ),
    _ahead(
        ("reject_unservable", "none known", "RUN-23", _BACKWARDS),
        "scheduled-backwards",
        _config(4, 2, 8, max_model_len=4, async_scheduling=True),
        (Template("a", (A, A, A, A), 9),),
        "rejection",
        depth=2,
    ),
    _ahead(
        ("victim_shifts_index", "49097", "RUN-28", _BEFORE_INDEX),
        "skipped-ahead",
        _config(
            *(4, 1, 8),
            max_model_len=8,
            policy="priority",
            scheduler_reserve_full_isl=False,
            enable_prefix_caching=False,
            async_scheduling=True,
        ),
        (
            Template("v", (A,), 2, priority=9),
            Template("x", (B,), 3, priority=0),
            Template("y", (C,), 3, priority=1),
        ),
        "passed-over preempted-in-flight",
        depth=2,
    ),
    _ahead(
        ("frames_match_request", "42492", PROMISE, _REUSE_AHEAD),
        "next-owner-ahead",
        _config(2, 2, 4, max_model_len=8, async_scheduling=True),
        (Template("a", (A,), 2),),
        "abort-in-flight id-reused-in-flight output-for-nobody",
        depth=2,
        aborts=True,
    ),
    _ahead(
        ("discards_add_up", "none known", "UPD-20", _SECOND_RESET),
        "second-reset",
        _config(2, 2, 4, max_model_len=8, async_scheduling=True),
        (Template("a", (A,), 3),),
        "token-dropped reset-upon-reset",
        depth=2,
        resets=(True,),
    ),
    _ahead(
        ("stop_check_counts_frames", "none known", "LIFE-17", _ONE_TOO_MANY),
        "one-too-many",
        _config(2, 2, 4, max_model_len=8, async_scheduling=True),
        (Template("a", (A,), 3),),
        "three-in-flight passed-over",
        depth=3,
    ),
    _ahead(
        ("outputs_owed_once", "none known", "UPD-23", _TWICE),
        "sampled-twice",
        _config(4, 2, 4, max_model_len=8, scheduler_reserve_full_isl=False),
        (Template("a", (A,), 1), Template("b", (B, B), 3), Template("c", (C, C, A), 3)),
        "three-in-flight preempted-in-flight resumed-in-flight",
        depth=3,
    ),
    *map(_of_its_own, (*DRAFT_DEFECTS, *WAIT_DEFECTS, *ENCODER_DEFECTS, *SESSION_DEFECTS)),
    *map(_of_its_own, (*REMOTE_DEFECTS, *STATE_DEFECTS)),
)
"""In the order of a request's way through the engine."""
