"""The environment that a trace is replayed in, by what its header says is on."""

from msgspec import UNSET

from nullblock.conformance.checker.constants import constants
from nullblock.conformance.checker.drafts import WithDrafts
from nullblock.conformance.checker.facts import Recorded
from nullblock.conformance.checker.remote import WithRemote
from nullblock.conformance.trace.records import Header
from nullblock.spec.profiles import Semantics


class WithDraftsAndRemote(WithRemote, WithDrafts):
    """One with drafts beside a KV connector."""


def made(header: Header, semantics: Semantics) -> Recorded:
    """The environment that a trace with this header is replayed in."""
    k = environment(header)(constants(header, semantics))
    k.tells_blocks = header.block_ids != "absent"
    k.loads_items = header.config.loads_items
    return k


def environment(header: Header) -> type[Recorded]:
    """What a trace with this header is replayed in."""
    drafts, remote = header.config.num_spec_tokens > 0, header.config.connector is not UNSET
    if remote:
        return WithDraftsAndRemote if drafts else WithRemote
    return WithDrafts if drafts else Recorded
