"""The decision switches that the reference honours.

A profile is a value: ``nullblock.spec.profiles.Semantics`` satisfies this protocol. Objects made
through vLLM-shaped constructors follow ``vllm-0.22.1`` unless they are told otherwise.
"""

from dataclasses import dataclass
from typing import Protocol


class Semantics(Protocol):
    """Read-only switches; for each, the first value named is the normative one."""

    @property
    def reject_unservable(self) -> bool:
        """True: a request that can never be served is refused on arrival. False: it waits."""
        ...

    @property
    def withdraw_uncaches(self) -> bool:
        """True: a withdrawn victim takes back the hashes its blocks got this step. False: no."""
        ...

    @property
    def victim_shifts_index(self) -> bool:
        """True: any victim before the index moves it. False: only one scheduled this step."""
        ...

    @property
    def length_before_min_tokens(self) -> bool:
        """True: the length limits stop a request below min_tokens too. False: they wait."""
        ...

    @property
    def extra_keys_tagged(self) -> bool:
        """True: adapter name and salt are tagged in a block's extra keys. False: bare strings."""
        ...

    @property
    def frames_match_request(self) -> bool:
        """True: a frame belongs to the request that was scheduled. False: to its id."""
        ...

    @property
    def reset_reports_preempted(self) -> bool:
        """True: ids preempted by a reset appear in the next output. False: they do not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """A set of switches; the defaults are those of vLLM 0.22.1."""

    reject_unservable: bool = False
    withdraw_uncaches: bool = False
    victim_shifts_index: bool = False
    length_before_min_tokens: bool = False
    extra_keys_tagged: bool = False
    frames_match_request: bool = False
    reset_reports_preempted: bool = False


VLLM_0_22_1: Semantics = Switches()
