"""The constants of an engine: what kernels are compiled for."""

from dataclasses import dataclass, fields

_WORD = 1 << 31
"""What does not fit an int32."""


def _power_of_two(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


@dataclass(frozen=True, slots=True, repr=False)
class Sizes:
    """Sizes, limits and switches. Tokens, blocks, requests and lanes are counted.

    One value of this is a compile-time argument of every kernel: kernels read its fields and
    properties as constants. Names and meanings of limits and switches are those of the
    specification's `Config` and `Semantics`.

    Raises ValueError for sizes that make no engine, or whose counts could pass 32 bits.
    """

    num_blocks: int
    """All blocks, the null block (number 0) included."""
    block_size: int
    """Tokens a block."""
    max_num_seqs: int
    """Requests that run at once, at most."""
    max_model_len: int
    max_num_scheduled_tokens: int
    """The budget of a step, in tokens."""
    num_rows: int = 0
    """Rows for requests, those that wait included; 0: as many as may run."""
    row_tokens: int = 0
    """Tokens that a row has room for; 0: max_model_len + 1, for the one that ends a request."""
    stop_width: int = 4
    """Stop ids that a request may have."""
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    scheduler_reserve_full_isl: bool = True
    priority: bool = False
    """The PRIORITY policy; otherwise FCFS."""
    withdraw_uncaches: bool = True
    victim_shifts_index: bool = True
    victim_by_id: bool = True
    length_before_min_tokens: bool = True
    freed_unhashed_first: bool = False
    lanes: int = 1024
    """How many blocks a kernel works on at once: a power of two."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        if self.num_rows == 0:
            set_field(self, "num_rows", self.max_num_seqs)
        if self.row_tokens == 0:
            set_field(self, "row_tokens", self.max_model_len + 1)
        for name in ("num_blocks", "block_size", "max_num_seqs", "max_model_len", "lanes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: at least 1")
        if self.lanes & (self.lanes - 1):
            raise ValueError(f"lanes is {self.lanes}: a power of two")
        if self.num_rows < self.max_num_seqs:
            raise ValueError(f"{self.num_rows} rows for {self.max_num_seqs} running requests")
        if max(self.num_blocks, self.row_tokens, self.num_rows) >= 1 << 28:
            raise ValueError("blocks, tokens of a request and rows are fewer than 2**28 each")
        if self.max_num_seqs * self.row_blocks >= _WORD:
            raise ValueError("the blocks of all running requests do not fit 32 bits")

    def __repr__(self) -> str:
        """All values, in the order of the fields: it becomes part of names in compiled code."""
        return "Sizes_" + "_".join(str(int(getattr(self, field.name))) for field in fields(self))

    @property
    def row_blocks(self) -> int:
        """Blocks that a row's table has room for."""
        return -(-self.row_tokens // self.block_size)

    @property
    def ring_capacity(self) -> int:
        """Places of the free queue's ring: a compaction needs at least twice the pool of removals
        from the middle before it."""
        return max(16, _power_of_two(4 * self.num_blocks))

    @property
    def index_capacity(self) -> int:
        """Slots of the hash index: at most a quarter of them is in use."""
        return max(16, _power_of_two(4 * self.num_blocks))

    @property
    def index_limit(self) -> int:
        """Slots that may have been used before the index is built anew."""
        return self.index_capacity // 2

    @property
    def waiting_capacity(self) -> int:
        """Places of the waiting queue's ring."""
        return _power_of_two(self.num_rows)

    @property
    def num_warps(self) -> int:
        """Warps of a program: four blocks a thread, if there are so many lanes."""
        return max(1, min(8, self.lanes // 32))

    @property
    def request_lanes(self) -> int:
        """One lane for every request that may run, and no fewer than there are threads: a lane
        that is several threads would overwrite what one of them has yet to read."""
        return max(32 * self.num_warps, _power_of_two(self.max_num_seqs))

    @property
    def block_lanes(self) -> int:
        """One lane for every token of a block."""
        return _power_of_two(self.block_size)

    @property
    def key_lanes(self) -> int:
        """Blocks whose keys are computed at once, each on `block_lanes` lanes: no more than make
        a few tokens a thread."""
        return max(1, min(self.lanes, 2048 // self.block_lanes))

    @property
    def run_bits(self) -> int:
        """Halvings that find one of `request_lanes` things."""
        return max(1, (self.request_lanes - 1).bit_length())

    @property
    def budget(self) -> int:
        """Tokens of a step, as far as rows have them: what a kernel may add up in 64 bits."""
        return min(self.max_num_scheduled_tokens, 1 << 60)

    @property
    def threshold(self) -> int:
        """The long-prefill threshold; a number that no request reaches if there is none."""
        given = self.long_prefill_token_threshold
        return given if 0 < given < self.row_tokens else self.row_tokens
