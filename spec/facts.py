"""What is known of a request from outside and never changes while it lives, and the constants
of a configuration.
"""

from dataclasses import dataclass, replace
from typing import Any

from nullblock.spec.catalogue import clause
from nullblock.spec.profiles import NORMATIVE, Semantics


@dataclass(frozen=True, slots=True)
class Group:
    """A KV-cache group: which tokens its layers see, all that are before one if neither is set."""

    sliding_window: int = 0
    """A token sees so many, itself among them; 0: no window."""
    attention_chunk_size: int = 0
    """A token sees those of its chunk; 0: no chunks."""
    block_size: int = 0
    """Tokens in a block of the group; 0: as many as the configuration says."""
    eagle: bool = False
    """Whether layers of an EAGLE-like method are among them."""
    mamba: bool = False
    """Whether they are Mamba layers: a block holds the state after its last token."""
    num_speculative_blocks: int = 0
    """Of Mamba layers: states beside the one at hand, for drafts."""
    sink_len: int = 0
    """Tokens of nobody's that its layers see too, in blocks of their own; 0: none."""
    cross: bool = False
    """Whether they are cross-attention layers: blocks for what an encoder makes of the items."""
    aligned: bool = False
    """Of Mamba layers: whether only the state that a step ends with is kept (the mode `align`)."""
    every_state: bool = False
    """Of Mamba layers: whether the state after each block is kept (the mode `all`), which makes
    them another kind than those of which none is kept to be hit.
    """
    prefill_checkpoint_alignment: int = 0
    """Of such with the mode `align`: a step may keep a state within it, too, so many tokens from
    its begin or a multiple of that; 0: it may not.
    """

    @property
    def is_windowed(self) -> bool:
        """Whether a token sees only a part of the past."""
        return self.window > 0 or self.attention_chunk_size > 0

    @property
    def window(self) -> int:
        """What a token sees, itself among it; 0: no window. Of Mamba layers the next token needs
        the state after the one before it, which says all that was before: a window of two.
        """
        return 2 if self.mamba else self.sliding_window

    @property
    def has_cap(self) -> bool:
        """Whether the gate takes a request to hold less than all its blocks at once: vLLM has no
        such cap for Mamba layers.
        """
        return self.is_windowed and not self.mamba


@dataclass(frozen=True, slots=True)
class Encoder:
    """What a model's encoder may do. Sizes are embeddings."""

    max_num_encoder_input_tokens: int
    """Embeddings that a step may compute."""
    encoder_cache_size: int
    """Embeddings that may be kept."""
    disable_chunked_mm_input: bool = False
    """No step ends within an item that it enters."""
    is_encoder_decoder: bool = False
    """Whether items stand before the prompt, and are computed with its first token."""


@dataclass(frozen=True, slots=True)
class Config:
    """The constants that decisions depend on. Tokens, blocks and requests are counted; None of
    them is -1.
    """

    num_blocks: int
    """All blocks, the null block included, but those of sinks."""
    block_size: int
    max_num_scheduled_tokens: int
    """Token budget of a step; vLLM takes max_num_batched_tokens where it is not set."""
    max_num_seqs: int
    max_model_len: int
    long_prefill_token_threshold: int = 0
    """0: no threshold."""
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    scheduler_reserve_full_isl: bool = True
    policy: str = "fcfs"
    watermark_blocks: int = 0
    """Kept free when somebody is admitted while others run; 0: none."""
    async_scheduling: bool = False
    """Whether a request is scheduled again before its last token is known."""
    num_spec_tokens: int = 0
    """Drafts that a step may verify of one request; 0: no speculative decoding."""
    spec_method: str = "ngram"
    """What proposes them: `ngram`, `eagle` or `draft_model`."""
    eagle_group: bool = False
    """Whether the layers of an EAGLE-like method share the cache, whatever proposes drafts."""
    drafts_from_outside: bool = False
    """Whether drafts may come though none are configured."""
    max_loras: int = 0
    """Different adapters that may run at once; 0: no cap."""
    sessions: bool = False
    """Whether requests may be sessions, whose prompts come in chunks."""
    grammars: bool = False
    """Whether requests may come with a grammar, which has to be compiled first."""
    connector: bool = False
    """Whether a KV connector loads what other engines have computed, and sends it."""
    fail_failed_loads: bool = False
    """Whether requests whose blocks were not loaded end; if not, they compute what they lack."""
    steps_overlap: bool = False
    """Whether steps may be in flight together while a connector loads, and not only sends."""
    requires_kv_delivery: bool = False
    """Whether what a request hands off when it ends must arrive: a later line looks at it."""
    groups: tuple[Group, ...] = (Group(),)
    """The kinds of the layers, in the order in which vLLM has them."""
    max_num_batched_tokens: int | None = None
    """What the admission cap reckons with as the tokens of a step; None: the token budget."""
    max_concurrent_batches: int = 1
    """Steps that may be in flight at once."""
    encoder: Encoder | None = None
    """The model's encoder; None: there is none, and no request has encoder inputs."""
    include_finished_set: bool = False
    """Whether clients are told which of their requests have ended."""
    pooling: bool = False
    """Whether requests may want a vector instead of tokens."""
    makes_vectors: bool = False
    """Whether the model makes vectors and no tokens: a later line looks at it (RUN-44)."""
    mamba_split: int = 0
    """Tokens in a block at whose ends the steps of a prefill end, where Mamba layers keep only the
    states at ends of steps; 0: they end anywhere.
    """
    most_granted: int | None = None
    """max_num_scheduled_tokens as it is set, where a step may have less (RUN-42); None: it may
    not.
    """
    use_v2_model_runner: bool = False
    """Whether workers run vLLM's second model runner."""
    pipeline_parallel_size: int = 1
    """Stages of the pipeline that a step passes through."""
    semantics: Semantics = NORMATIVE

    @property
    def may_skip(self) -> bool:
        """Whether a request may wait for something else than its turn."""
        skips = self.max_loras > 0 or self.grammars
        return skips or self.sessions or self.connector

    @property
    def stages(self) -> int:
        """Steps from one token of a request to its next, at the least (RUN-43)."""
        is_ahead = self.async_scheduling and self.use_v2_model_runner
        return self.pipeline_parallel_size if is_ahead else 1

    @property
    def looks_ahead(self) -> bool:
        """Whether a draft model reads one token further than a step computes."""
        return self.num_spec_tokens > 0 and self.spec_method == "eagle"

    @property
    def is_windowed(self) -> bool:
        """Whether some layers see only a part of the past."""
        return any(group.is_windowed for group in self.groups)

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the model is an encoder-decoder model."""
        return self.encoder is not None and self.encoder.is_encoder_decoder

    def size_of(self, group: Group) -> int:
        """Tokens in a block of a group."""
        return group.block_size or self.block_size

    def blocks_in(self, group: Group, tokens: int) -> int:
        """Blocks of a group that so many tokens need."""
        return -(-tokens // self.size_of(group))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Tokens in a block of each group."""
        return tuple(map(self.size_of, self.groups))

    def most_attended(self, group: Group) -> int:
        """Blocks of a group of cross-attention layers that a request holds at most: what a step
        may compute of embeddings needs no more.
        """
        most = self.encoder.max_num_encoder_input_tokens if self.encoder else 0
        return self.blocks_in(group, most)

    def admission_cap(self, group: Group) -> int:
        """Blocks that a request is taken to hold at once at most, if the group's layers see a part
        of the past (GROUP-3). vllm-0.32.0 reckons with the tokens of all steps that may be in
        flight.
        """
        batched = self.max_num_batched_tokens or self.max_num_scheduled_tokens
        if not group.has_cap:
            return self.blocks_in(group, self.max_model_len) + group.num_speculative_blocks
        if self.semantics.caps_count_flight:
            batched *= self.max_concurrent_batches
        chunk, window = group.attention_chunk_size, group.sliding_window
        seen = chunk if chunk else window - 1
        blocks = self.blocks_in(group, min(seen + batched, self.max_model_len))
        return blocks if chunk else blocks + 1

    def most_held(self, group: Group) -> int:
        """Blocks that such a request holds at once at most, or is taken to hold: the cap may
        reckon with more tokens than a step has.
        """
        beside = group.num_speculative_blocks
        if group.aligned and not beside and not self.num_spec_tokens:
            keeps = self.semantics.inner_states_kept and group.prefill_checkpoint_alignment > 0
            return 2 + int(keeps)
        keeps = self.num_spec_tokens > 0 or self.semantics.windows_await_outputs
        if (keeps and self.async_scheduling) or group.aligned:
            # How much is kept for what is in flight depends on how many steps are.
            return self.blocks_in(group, self.max_model_len) + beside
        seen = (group.attention_chunk_size or group.window) + beside
        drafts = self.num_spec_tokens + self.num_lookahead_tokens
        held = blocks_held(seen, self.max_num_scheduled_tokens + drafts, self.size_of(group))
        return max(held, self.admission_cap(group)) if group.has_cap else held + beside

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots that what proposes drafts needs for them: ngram writes nothing to the cache."""
        return 0 if self.spec_method == "ngram" else self.num_spec_tokens

    @property
    def draft_slots(self) -> int:
        """Places of a step's max_num_batched_tokens that drafting takes for a request besides the
        tokens that are computed (DRAFT-42).
        """
        return int(self.num_spec_tokens > 0 and self.spec_method == "draft_model")

    @property
    def sink_blocks(self) -> int:
        """Blocks of tokens of nobody's, that some layers see."""
        return sum(group.sink_len // self.size_of(group) for group in self.groups)

    @property
    def use_eagle(self) -> bool:
        """Whether the last hit of a lookup is computed again."""
        return self.eagle_group or self.looks_ahead

    @clause("GROUP-22")
    def drops(self, group: Group) -> int:
        """Of each kind of layers with a group that is marked as an EAGLE-like method's a lookup
        drops the last hit; if none is marked, and there is such a method, of every kind.

        Source: KVCacheCoordinator.eagle_group_ids, HybridKVCacheCoordinator.
        """
        return 0 if group.mamba else int(self.is_marked(group))

    def is_marked(self, group: Group) -> bool:
        """Whether a group's kind of layers has one of an EAGLE-like method."""
        marked = [g for g in self.groups if g.eagle]
        if not marked:
            return self.use_eagle
        return any(self.kind_of(g) == self.kind_of(group) for g in marked)

    def kind_of(self, group: Group) -> Group:
        """The kind of a group's layers: groups of one kind are looked up together, and have blocks
        of one size.
        """
        return replace(group, eagle=False, block_size=self.size_of(group))


def blocks_held(seen: int, computed: int, block_size: int) -> int:
    """Blocks that hold all that a step needs of a request, at most: the tokens that are seen from
    the first that it computes, that one among them, and all that it computes, slots for drafts
    included; and the parts of blocks at both ends.
    """
    return -(-(seen - 1 + computed) // block_size) + 1


def blocks_of_watermark(share: float | None, num_blocks: int, semantics: Semantics) -> int:
    """Blocks that a watermark keeps free, given as a share of all blocks (WAIT-31)."""
    return int(share * num_blocks) if share and semantics.admission_watermark else 0


@clause("RUN-42")
def token_budget(batched: int, scheduled: int | None, semantics: Semantics) -> int:
    """A step has max_num_scheduled_tokens, and where that is not set max_num_batched_tokens.

    Source: Scheduler.__init__. In vllm-0.32.0 it has the least of both, and 0 is a number too:
    the worker's buffers have max_num_batched_tokens places.
    """
    if not semantics.least_token_budget:
        return scheduled or batched
    return batched if scheduled is None else min(scheduled, batched)


@dataclass(frozen=True, slots=True)
class Item:
    """An encoder input of a request: an image, say. Items of a prompt do not overlap, are in
    order, and one number has one size wherever it comes.
    """

    number: int
    """What it is known by, from 1: equal numbers, equal embeddings."""
    start: int
    """Its first token in the prompt."""
    length: int
    """Tokens that stand for it."""
    is_embed: tuple[bool, ...] | None = None
    """Which of them stand for an embedding; None: all."""

    @property
    def end(self) -> int:
        """One after its last token."""
        return self.start + self.length

    def embedded(self, tokens: int) -> int:
        """Its embeddings among the first `tokens` tokens of the prompt."""
        inside = max(0, min(tokens, self.end) - self.start)
        return inside if self.is_embed is None else sum(self.is_embed[:inside])


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a session is sent after its first prompt."""

    length: int
    """Its tokens."""
    max_tokens: int
    """Outputs at which the turn that it begins ends."""
    arrival: float = 0.0
    """When it was sent: under PRIORITY its session stands from then on where that puts it."""


@dataclass(frozen=True, slots=True)
class Request:
    """The facts about one request."""

    id: Any
    prompt_len: int
    max_tokens: int
    min_tokens: int = 0
    priority: int = 0
    arrival: float = 0.0
    skip_reading_prefix_cache: bool = False
    adapter: int = 0
    """The number of its LoRA adapter; 0: it has none."""
    grammar: bool = False
    """Whether its output has to follow a grammar."""
    items: tuple[Item, ...] = ()
    """Its encoder inputs."""
    resumable: bool = False
    """Whether it is a session: it goes on with the next chunk of its prompt where it stops."""
    chunks: tuple[Chunk, ...] = ()
    """Those that come after the first, where they are known beforehand."""
    client: int = 0
    """Which front end it is from."""
    pooling: bool = False
    """Whether it wants a vector; its `max_tokens` is then 1."""
    loads_over_steps: bool = False
    """Whether a load for it takes longer than the step in which it begins."""
    delays_free: bool = False
    """Whether its blocks are kept after its end, until they are sent."""
    remote: int = 0
    """Tokens of it that the remote side holds, in a model."""
    unsure: bool = False
    """Whether the remote side has to look first, in a model."""
