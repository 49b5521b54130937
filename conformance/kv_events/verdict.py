"""What can be said about a stream of KV events."""

from collections import Counter
from dataclasses import dataclass, field

from nullblock.conformance.verdicts import EXIT, Name


@dataclass(slots=True)
class Evidence:
    """What a verdict rests on, counted until the stream or the law ended."""

    publishers: int = 0
    """Servers or data-parallel ranks that were told apart."""
    batches: int = 0
    events: int = 0
    """Of the block pool; those of other media are in `media`."""
    stored: int = 0
    """BlockStored events."""
    removed: int = 0
    """Hashes that lost a copy."""
    cleared: int = 0
    """AllBlocksCleared events."""
    blocks: int = 0
    """Blocks that were stored."""
    distinct: int = 0
    """Blocks stored under a hash that was neither cached nor lately removed."""
    duplicates: int = 0
    """Blocks stored under a hash that was cached already."""
    most_copies: int = 0
    """Blocks cached at once under one hash."""
    peak_cached: int = 0
    """Blocks cached at once, of one publisher."""
    cached: int = 0
    """Blocks cached at the end, of all publishers."""
    tokens: int = 0
    """Tokens that the stored events span."""
    skipped_blocks: int = 0
    """Blocks of those spans that were not stored: windows, states."""
    groups: int = 0
    """KV cache groups, of all publishers."""
    first_ts: float | None = None
    last_ts: float | None = None
    repeated_batches: int = 0
    restarts: int = 0
    """A publisher counted from 0 again: a new engine."""
    gaps: int = 0
    lost_batches: int = 0
    unknown_removals: int = 0
    """Removed hashes that were stored before the stream began."""
    absent_parents: int = 0
    """With full attention: blocks stored under a parent that was not cached any more."""
    orphans: int = 0
    """With full attention: blocks that lost their parent while they were cached."""
    media: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    """Events that no release up to 0.32 has, by name."""
    judged: Counter[str] = field(default_factory=Counter)
    """How often each law was judged."""


@dataclass(frozen=True, slots=True)
class First:
    """The first event that breaks the law, or the damage in a file."""

    place: str
    """Where in the file: a line or a byte."""
    event: int
    """Counted from 1 over the file; 0 for a batch or for damage."""
    batch: int
    """Counted from 1 over the file."""
    seq: int | None
    rule: str | None
    """ID of the law; None for damage."""
    what: str
    expected: str
    actual: str
    story: tuple[str, ...]
    """Line by line: what the law says there, what is known of the hash, what came before."""
    next: tuple[str, ...]
    """What to do about it, the likeliest cause first."""


@dataclass(slots=True)
class Verdict:
    """A verdict on one file, and what it rests on.

    It is never CONFORMS: a stream says too little about the engine to confirm anything.
    """

    stream: str
    verdict: Name = "INCONCLUSIVE"
    evidence: Evidence = field(default_factory=Evidence)
    first: First | None = None
    missing: list[str] = field(default_factory=list)
    """What would let more be judged."""
    seconds: float = 0.0
    """How long the check took."""

    @property
    def exit_code(self) -> int:
        """1 VIOLATION, 3 INCONCLUSIVE, 4 MALFORMED."""
        return EXIT[self.verdict]
