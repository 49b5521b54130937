"""Recording an engine of ours: an engine that passes every call on and writes down what it saw."""

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

from msgspec import UNSET, UnsetType

from nullblock.conformance import groups
from nullblock.conformance.consecutive import runs
from nullblock.conformance.drafting import Drafted, Drafting
from nullblock.conformance.engine import (
    CORE_FEATURES,
    Engine,
    Feature,
    Fields,
    FullEngine,
    NewRequest,
    Waits,
)
from nullblock.conformance.repetition import DETECTED, FEATURE
from nullblock.conformance.scenario_format import Add as AddEvent
from nullblock.conformance.scenario_format import Scenario
from nullblock.conformance.trace import records
from nullblock.conformance.trace.passed_on import PassedOn
from nullblock.conformance.trace.records import Finish, PostState, Record
from nullblock.conformance.trace.sessions import RESUMABLE
from nullblock.conformance.trace.taped_embeds import TapedEmbeds
from nullblock.conformance.trace.taped_events import TapedEvents
from nullblock.conformance.trace.taped_items import TapedItems
from nullblock.conformance.trace.taped_remote import TapedRemote
from nullblock.conformance.trace.taped_sessions import TapedSessions
from nullblock.conformance.trace.taped_steps import cached_requests, new_request
from nullblock.spec.profiles import NORMATIVE, Semantics

P = ParamSpec("P")
T = TypeVar("T")
WORDS = CORE_FEATURES | {
    *(Feature.windows, Feature.hybrid, Feature.block_sizes, Feature.mamba),
    *(Feature.aligned_mamba, Feature.lora_cap, Feature.structured_output),
    *(Feature.encoder_inputs, Feature.streaming, Feature.kv_connector, Feature.silence),
    *(Feature.pooling, Feature.prompt_embeds, Feature.v2_model_runner, Feature.repetition),
    *(Feature.decode_ranks, Feature.prefill_ranks),
    *(Feature.encoder_decoder, Feature.cross_attention, Feature.sinks),
}
"""What a trace can tell of, drafts aside."""


class Tape(PassedOn):
    """Implements :class:`nullblock.conformance.engine.Engine` around another engine."""

    def __init__(
        self,
        engine: Engine,
        scenario: Scenario,
        write: Callable[[Record], None],
        *,
        tagged_keys: bool,
        semantics: Semantics = NORMATIVE,
        names: bool = False,
    ) -> None:
        """``tagged_keys``: whether adapter and salt are told apart in hashes, as the profile says.

        ``semantics``: what sessions keep of themselves with a chunk. ``names``: whether request
        ids are told.
        """
        super().__init__(engine)
        self.write, self.names = write, names
        self.size = groups.size_of_chains(scenario.config)
        self.caching = scenario.config.enable_prefix_caching
        self.capped, self.adapters = bool(scenario.config.max_loras), dict[int | None, int]()
        self.items = TapedItems(semantics, scenario.config.encoder)
        self.sessions = TapedSessions(self, semantics)
        self.embeds = TapedEmbeds()
        self.remote = TapedRemote.of(scenario, engine)
        self.by_priority = scenario.config.policy == "priority"
        self.tagged_keys = tagged_keys
        self.steps = self.updates = 0
        self.told: TapedEvents | None = None
        if scenario.config.kv_events:
            plain = groups.are_plain(scenario.config)
            self.told = TapedEvents(self.size, tagged_keys, tells_kinds=not plain)
        self.published: list[Fields] = []
        self.numbers: dict[str, int] = {}
        self.requests: dict[str, NewRequest] = {}
        self.content: dict[str, list[int]] = {}
        self.chain: dict[str, list[int]] = {}
        self.chains: dict[tuple[Any, ...], int] = {}
        ids = {event.id for event in scenario.events if isinstance(event, AddEvent)}
        config = scenario.config
        drafts = config.num_spec_tokens > 0 or groups.are_marked_alone(config)
        self.words = WORDS | ({Feature.drafts} if drafts else set())
        """What a trace can tell of: drafts, where the configuration says that there are some."""
        self.ties = {id: float(place) for place, id in enumerate(sorted(ids))}

    def observe(self, kind: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the engine; what it raises is recorded and raised."""
        try:
            return method(*args, **kwargs)
        except Exception as error:
            self.raised(kind, error)
            raise

    def raised(self, during: str, error: Exception, **asked: bool) -> None:
        """The engine raised. ``asked``: what it was asked, by the name of the record's field."""
        self.write(records.Error(during=during, type=type(error).__name__, **asked))

    def number(self, id: str) -> int:
        """The number that stands for an id."""
        return self.numbers.setdefault(id, len(self.numbers))

    def all(self, ids: Iterable[str]) -> list[int]:
        """The numbers that stand for some ids."""
        return [self.number(id) for id in ids]

    def facts(self, request: NewRequest) -> Fields:
        """What is told of a request when it arrives, and once more by a ``state``."""
        return {
            "prompt": self.sessions.prompt(request),
            "max_tokens": 1 if request.pooling else request.max_tokens,
            "min_tokens": request.min_tokens,
            "priority": request.priority,
            **self.place(request),
            "skip_reading_prefix_cache": bool(request.skip_cache_read),
            **self.waits(request),
        }

    def place(self, request: NewRequest) -> Fields:
        """What is told of its place among others of its priority, where that counts."""
        if not self.by_priority:
            return {}
        return {"arrival": request.arrival, "tie": self.ties[request.id]}

    def waits(self, request: NewRequest) -> Fields:
        """What is told of what it may have to wait for."""
        features, adapter = [], 0
        if request.grammar is not None:
            features.append("structured_output")
        if self.capped and request.lora is not None:
            adapter = self.adapters.setdefault(request.lora_id, len(self.adapters) + 1)
            if request.lora_id is None or request.lora_id < 1:
                features.append("adapter_below_1")  # which no front end lets pass
        if request.mm_features:
            features.append("multimodal")
        if request.pooling:
            features.append("pooling")
        if request.prompt_embeds is not None:
            features.append("prompt_embeds")
        if request.repetition is not None:
            features.append(FEATURE)
        if request.resumable:
            features.append(RESUMABLE)
        items = self.items.told(request)
        return {"features": features, "adapter": adapter, "items": items}

    def add(self, request: NewRequest) -> None:
        """Record an arrival."""
        id = request.id
        is_sent, is_known = self.sessions.is_alive(id), self.num_tokens(id) is not None
        self.observe("add", self.engine.add, request)
        if is_sent:
            if not self.has(id):
                self.remote.aborted([id], self.write, self.numbers)
            self.write(self.sessions.send(self.number(id), request))
            return
        if is_known:  # The blocks of a session that has ended are kept: nobody takes this.
            return
        self.sessions.begins(request)
        number = self.number(id)
        self.requests[id] = request
        self.content[id] = self.embeds.prompt(request)
        self.chain[id] = []
        self.items.found.introduce(id, len(request.prompt) // self.size)
        self.write(
            records.Add(
                id=number,
                **self.facts(request),
                chain=runs(self.fill(id)) if self.caching else UNSET,
                name=id if self.names else UNSET,
            )
        )
        if request.grammar is not None and request.grammar.is_ready:
            self.write(records.Compiled(ids=[number]))

    def has(self, id: str) -> bool:
        """Whether a request is alive: one that has ended may be known for its blocks."""
        if not self.remote.keeps_blocks:
            return self.num_tokens(id) is not None
        known = (self.engine.state("brief") or {})["requests"].get(id)
        return known is not None and not known["status"].startswith("FINISHED")

    def fill(self, id: str) -> list[int]:
        """Number the blocks that a request has filled since it was looked at last."""
        chain, content, request = self.chain[id], self.content[id], self.requests[id]
        known = len(chain)
        while len(content) >= (len(chain) + 1) * self.size:
            start = len(chain) * self.size
            tokens, keys = tuple(content[start : start + self.size]), self.keys(request, start)
            key = (chain[-1] if chain else None, tokens, keys)
            chain.append(self.chains.setdefault(key, len(self.chains)))
        return chain[known:]

    def keys(self, request: NewRequest, start: int) -> tuple[Any, ...]:
        """What tells a block that begins there from another one with the same tokens."""
        lora, salt = request.lora or "", (request.salt or "") if start == 0 else ""
        keys = (lora, *self.items.keys(request, start // self.size, self.size), salt)
        keys = keys if self.tagged_keys else tuple(k for k in keys if k)
        return (*keys, *self.embeds.keys(request.id, start, self.size))

    def schedule(self) -> Fields:
        """Record a step."""
        try:
            decided = self.engine.schedule()
        except Exception as error:
            self.remote.scheduled(self.write, self.numbers)
            self.raised("schedule", error)
            raise
        self.remote.scheduled(self.write, self.numbers)
        self.steps += 1
        cached, spec = decided["cached"], decided.get("spec", {})
        self.write(
            records.Schedule(
                step=self.steps,
                ids=self.all(decided["order"]),
                tokens=[decided["num_scheduled_tokens"][id] for id in decided["order"]],
                drafts=[
                    (self.number(id), len(drafts))
                    for id in decided["order"]
                    if (drafts := spec.get(id))
                ],
                new=[new_request(new, self.number) for new in decided["new"]],
                cached=cached_requests(cached, self.number) if cached else UNSET,
                preempted=sorted(self.all(decided["preempted"])),
                finished=sorted(self.all(decided["finished"])),
                common_prefix=decided["num_common_prefix_blocks"],
                **self.items.step(decided, self.numbers),
                zeroed=decided.get("new_block_ids_to_zero") or [],
                state=self.post_state(),
            )
        )
        return decided

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Record what the model sampled, and what became of it."""
        frame = {id: list(tokens) for id, tokens in sampled.items()}
        try:
            outputs = self.engine.update(sampled)
        except Exception as error:
            self.remote.updated([], self.write, self.numbers)
            self.raised("update", error)
            raise
        self.updates += 1
        ended = [o for o in outputs if not self.sessions.is_alive(o["id"])]
        self.remote.updated(ended, self.write, self.numbers)
        self.write(self.output(frame, outputs))
        self.pooled = frozenset()
        turns = self.sessions.turns(outputs)
        events: list[records.Event] | UnsetType = UNSET
        if self.told is not None:
            new = self.engine.kv_events()
            self.published += new
            numbered = self.told.in_numbers(new, self.chains)
            events = UNSET if numbered is None else numbered
        self.write(
            records.Update(
                step=self.updates,
                ids=self.all(output["id"] for output in outputs),
                tokens=[len(output["tokens"]) for output in outputs],
                finish=[self.finish(o) for o in outputs if o["finish"] is not None],
                turns=turns,
                events=events,
                state=self.post_state(),
            )
        )
        return outputs

    def output(self, frame: dict[str, list[int]], outputs: list[Fields]) -> records.Output:
        """The model's part: who got how many tokens, which of them end a request."""
        eos, stop = [], []
        for id, tokens in frame.items():
            request = self.requests[id]
            for place, token in enumerate(tokens):
                if token == request.eos:
                    eos.append((self.number(id), place))
                elif token in (request.stop or ()):
                    stop.append((self.number(id), place))
        chain = []
        for output in outputs:
            id = output["id"]
            self.content[id] += output["tokens"]
            chain += [(self.number(id), number) for number in self.fill(id)]
        return records.Output(
            step=self.updates,
            ids=self.all(frame),
            counts=[len(tokens) + (id in self.pooled) for id, tokens in frame.items()],
            eos=eos,
            stop=stop,
            rejected=[
                (self.number(output["id"]), len(output["tokens"]) - 1)
                for output in outputs
                if output["finish"] == "error" and output["tokens"]
            ],
            chain=chain if self.caching else UNSET,
        )

    def finish(self, output: Fields) -> Finish:
        """How a request ended."""
        id, reason, said = self.number(output["id"]), output["finish"], output["stop_reason"]
        if reason == "rejected":
            return Finish(id=id, reason=reason, why=said)
        return Finish(id=id, reason=reason, by_stop_id=said not in (None, DETECTED))

    def compile_grammars(self, ids: list[str]) -> None:
        """Record that grammars are compiled."""
        cast(Waits, self.engine).compile_grammars(ids)
        self.write(records.Compiled(ids=[self.numbers[id] for id in ids if id in self.numbers]))

    def report_transfers(self, recv: list[str], send: list[str], invalid: list[int]) -> None:
        """Passed on, and recorded with the next update."""
        cast(Waits, self.engine).report_transfers(recv, send, invalid)
        self.remote.report = recv, send, invalid

    def propose(self, drafts: Drafted) -> None:
        """Record drafts for the steps to come; for ids that were never added there are none."""
        counts = {id: len(drafts[id]) for id in drafts if id in self.numbers}
        self.observe("draft", cast(Drafting, self.engine).propose, drafts)
        counts |= self.allowed(counts)
        known = {self.numbers[id]: many for id, many in counts.items()}
        self.write(records.Draft(ids=list(known), counts=list(known.values())))

    def allowed(self, ids: Iterable[str]) -> dict[str, int]:
        """Of those that have a grammar, how many drafts it has left them."""
        some = [id for id in ids if self.requests[id].grammar is not None]
        known = (self.engine.state("brief") or {}).get("requests", {}) if some else {}
        return {id: known[id]["spec"] for id in some if id in known}

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """Record an abort; ids that were never added are left out."""
        asked = None if ids is None else [self.numbers[id] for id in ids if id in self.numbers]
        aborted = self.observe("abort", self.engine.abort, ids, status)
        self.remote.aborted(aborted, self.write, self.numbers)
        self.write(
            records.Abort(
                asked=asked,
                status=status,
                aborted=self.all(aborted),
                state=self.post_state(),
            )
        )
        return aborted

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Record a reset."""
        try:
            ok = self.engine.reset_prefix_cache(reset_running)
        except Exception as error:
            self.raised("reset", error, reset_running=reset_running)
            raise
        self.write(records.Reset(reset_running=reset_running, ok=ok, state=self.post_state()))
        return ok

    def reset_encoder_cache(self) -> None:
        """Record a reset of the encoder cache."""
        self.observe("reset_encoder_cache", cast(FullEngine, self.engine).reset_encoder_cache)
        self.write(records.ResetEncoderCache())

    def pause(self, state: str) -> None:
        """Record a pause state."""
        self.observe("pause", self.engine.pause, state)
        self.write(records.Pause(pause_state=state))  # type: ignore[arg-type]

    def evict_blocks(self, ids: list[int]) -> None:
        """Record an eviction."""
        self.observe("evict", self.engine.evict_blocks, ids)
        self.write(records.Evict(blocks=list(dict.fromkeys(ids))))

    def post_state(self) -> PostState | UnsetType:
        """What the engine shows of its state."""
        state = self.engine.state("brief")
        if state is None:
            return UNSET
        waiting = [*state["skipped_waiting"], *state["waiting"]]
        return PostState(
            num_free=state["num_free"],
            num_running=len(state["running"]),
            num_waiting=len(waiting),
            running=self.all(state["running"]),
            waiting=self.all(waiting),
        )

    @property
    def features(self) -> frozenset[Feature]:
        """Those of the engine that can be written down: a trace has words for no others."""
        return self.engine.features & self.words

    def kv_events(self) -> list[Fields]:
        """What the engine published since the last call; it is recorded with its update."""
        published, self.published = self.published, []
        return published
