"""What an environment answers about block tables and the KV-cache groups that they are of."""

from math import lcm
from typing import Any

from nullblock.spec.facts import Config

Table = Any
"""The name of a request where there is one group; else a request and the number of a group."""


class OneGroup:
    """One group: a table is its request."""

    several = spans = in_turn = False
    mamba = aligns = keeps_inner = crosses = stumbles = False
    """Mamba layers are searched, not proved."""
    split = sink_blocks = most_granted = splits_within = 0

    def tables(self, r: Any) -> tuple[Table, ...]:
        """The tables of a request, in the order of the groups."""
        return (r,)

    def tables_from_behind(self, r: Any) -> tuple[Table, ...]:
        """The same, the last one first."""
        return (r,)

    def table(self, r: Any, g: int) -> Table:
        """The table that a request has of a group."""
        return r

    def owner(self, t: Table) -> Any:
        """The request whose table it is."""
        return t


class Grouped:
    """The groups of a configuration, and the tables that requests have of them."""

    def __init__(self, config: Config) -> None:
        self.groups = config.groups
        self.last_group = len(config.groups) - 1
        self.several = self.last_group > 0
        self.windowed = config.is_windowed
        self.spans = self.several or (self.windowed and config.connector)
        """Whether it is known how far a hit reaches before its blocks are looked up."""
        only = config.groups[0]
        self.window_sizes = [group.window for group in self.groups]
        self.window, self.chunk = only.window, only.attention_chunk_size
        self.mamba = any(group.mamba for group in self.groups)
        self.aligns = any(group.aligned for group in self.groups)
        self.split = config.mamba_split
        keeps = config.semantics.inner_states_kept and config.mamba_split > 0
        states = [g.prefill_checkpoint_alignment for g in config.groups if g.mamba]
        aligned = states if keeps else []
        self.keeps_inner = any(aligned)
        """Whether a step may keep a state within it, for some kind of Mamba layers."""
        self.splits_within = aligned[0] if aligned and all(aligned) else 0
        """The alignment that the cut of a prefill goes by: that of the first such layers; 0: some
        keep none.
        """
        self.most_granted = config.most_granted or config.max_num_scheduled_tokens
        self.zeroes_windows = config.semantics.windows_zeroed
        self.sink_blocks = config.sink_blocks
        self.crosses = any(group.cross for group in self.groups)
        self.kept_beside = [group.num_speculative_blocks for group in self.groups]
        self.admission_cap, self.most_held = config.admission_cap(only), config.most_held(only)
        whole = [
            config.most_attended(g) if g.cross else config.blocks_in(g, config.max_model_len)
            for g in self.groups
        ]
        pairs = list(zip(self.groups, whole, strict=True))
        self.caps = [config.admission_cap(g) if g.is_windowed else n for g, n in pairs]
        self.holds = [config.most_held(g) if g.is_windowed else n for g, n in pairs]
        self.sizes, self.span_unit = config.sizes, lcm(*config.sizes)
        self.dropped = [config.drops(g) for g in self.groups]
        self.marked = [int(config.is_marked(g)) for g in self.groups]
        of_groups = [config.kind_of(g) for g in self.groups]
        kinds = list(dict.fromkeys(sorted(of_groups, key=lambda kind: kind.is_windowed)))
        self.of_kind = [kinds.index(kind) for kind in of_groups]
        self.leads = [of_groups.index(kind) for kind in kinds]
        self.last_kind = len(kinds) - 1
        full = [kind for kind in kinds if not kind.is_windowed]
        chunked = [g for g in self.groups if g.attention_chunk_size]
        divided = any(g.attention_chunk_size % config.size_of(g) for g in chunked)
        again, alike = config.semantics.chunks_asked_again, config.semantics.hits_cut_alike
        self.asks_once = len(kinds) == 2 and bool(full) and not (divided and again)
        """Whether one round of a lookup is the last, whatever it has shortened."""
        unlike = len(full) > 1 and len(kinds) > 2 and not alike
        noted = config.semantics.chunks_end_at_junctions and config.mamba_split > 0
        surprises = unlike or (divided and (self.asks_once or noted))
        self.in_turn = self.several and (any(self.marked) or surprises)
        """Whether a lookup asks one kind of layers after the other."""
        self.stumbles = any(
            config.is_marked(g) or config.size_of(g) < self.span_unit for g in chunked
        )
        """Whether a lookup raises: where chunks have to drop a hit, or their blocks are smaller
        than a hit's unit.
        """

    def tables(self, r: Any) -> tuple[Table, ...]:
        """The tables of a request, in the order of the groups."""
        return tuple((r, g) for g in range(len(self.groups))) if self.several else (r,)

    def tables_from_behind(self, r: Any) -> tuple[Table, ...]:
        """The same, the last one first."""
        return self.tables(r)[::-1]

    def table(self, r: Any, g: int) -> Table:
        """The table that a request has of a group."""
        return (r, g) if self.several else r

    def owner(self, t: Table) -> Any:
        """The request whose table it is; None of nobody's."""
        return t[0] if self.several and t is not None else t

    def group(self, t: Table) -> int:
        """The number of the group that a table is of."""
        return t[1] if self.several else 0

    def window_of(self, t: Table) -> int:
        """What a token sees in the layers of a table's group, itself among it; 0: no window."""
        return self.window_sizes[self.group(t)]

    def mamba_of(self, t: Table) -> bool:
        """Whether they are Mamba layers."""
        return self.groups[self.group(t)].mamba

    def zeroed_of(self, t: Table) -> bool:
        """Whether workers zero its blocks, beside Mamba layers: of plain full attention, or of any
        attention.
        """
        group = self.groups[self.group(t)]
        if self.zeroes_windows:
            return not group.mamba
        return not (group.is_windowed or group.sink_len or group.cross)

    def cross_of(self, t: Table) -> bool:
        """Whether they are cross-attention layers."""
        return self.groups[self.group(t)].cross

    def aligned_of(self, t: Table) -> bool:
        """Whether such a table keeps the states at ends of steps alone."""
        return self.groups[self.group(t)].aligned

    def inner_of(self, t: Table) -> int:
        """The alignment of a state that such a table keeps within a step; 0: it keeps none."""
        return self.groups[self.group(t)].prefill_checkpoint_alignment if self.keeps_inner else 0

    def beside_of(self, t: Table) -> int:
        """States that such a table has beside the one at hand."""
        return self.kept_beside[self.group(t)]

    def chunk_of(self, t: Table) -> int:
        """How many tokens a chunk has there; 0: no chunks."""
        return self.groups[self.group(t)].attention_chunk_size

    def size_of(self, t: Table) -> int:
        """Tokens in a block of a table."""
        return self.sizes[self.group(t)]

    def cap_of(self, t: Table) -> int:
        """Blocks that the gate takes such a table to hold at once at most."""
        return self.caps[self.group(t)]

    def held_of(self, t: Table) -> int:
        """Blocks that such a table holds at once at most, or is taken to hold."""
        return self.holds[self.group(t)]

    def drops_of(self, t: Table) -> int:
        """How many hits of such a table a lookup drops: one, or none."""
        return self.dropped[self.group(t)]

    def marked_of(self, t: Table) -> int:
        """Whether it is of a kind with layers of an EAGLE-like method: 1, or 0."""
        return self.marked[self.group(t)]

    def kind_of(self, t: Table) -> int:
        """The number of the kind of its layers, in the order in which kinds are looked up."""
        return self.of_kind[self.group(t)]

    def lead(self, kind: int) -> int:
        """The first group of a kind."""
        return self.leads[kind]
