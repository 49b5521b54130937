"""Short forms become whole records."""

from operator import add

from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.counts import fact, numbers
from nullblock.conformance.trace.deltas import Delta, OutputDelta, ScheduleDelta, UpdateDelta
from nullblock.conformance.trace.drafts import DraftDelta, Drafted
from nullblock.conformance.trace.drafts_expanded import (
    Rejections,
    cut_off,
    drafts_of,
    proposed,
    settled,
)
from nullblock.conformance.trace.edges import InFlight, blocks, filled
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Abort,
    CachedRequests,
    Gap,
    Header,
    Output,
    Part,
    PostState,
    Record,
    Reset,
    Schedule,
    State,
    Update,
)

_RECORDER = "record it again: a recorder writes what happens, in its order"


class Expander:
    """Remembers what short forms refer to: the step before, and the output under way."""

    def __init__(self, header: Header) -> None:
        self._tells_blocks = header.block_ids != "absent"
        self._block_size = header.config.block_size
        self._in_flight = InFlight()
        self._before: Schedule | None = None
        self._numbers: tuple[list[int], list[int]] | None = None
        """Of the step before, in parallel to its ids: computed, num_output."""
        self._rejected = Rejections()
        self._output: Output | None = None
        self._state: PostState | UnsetType = UNSET
        """What was told last of the state after a record."""

    def whole(self, line: Record | Delta, oldest: list[int] | None) -> Record:
        """The record that a line stands for; ``oldest``: who is in the oldest step in flight.

        Raises :class:`Malformed`, without a line number, where there is nothing to refer to.
        """
        match line:
            case ScheduleDelta():
                return self._schedule(line)
            case OutputDelta():
                step = self._in_flight.take(line.step)
                self._output = _output(line, oldest, filled(line, step, self._block_size))
                self._rejected.output(self._output)
                return self._output
            case UpdateDelta():
                return self._update(line)
            case DraftDelta():
                return proposed(line, self._output)
            case Schedule():
                self._before, self._numbers = line, None
                self._in_flight.put(line, None)
                self._rejected.scheduled(line)
                self._state = line.state
            case Output():
                self._output = line
                self._in_flight.take(line.step)
                self._rejected.output(line)
            case State(in_flight=steps):
                self._rejected.in_flight(() if isinstance(steps, UnsetType) else steps)
            case Update() | Abort() | Reset():
                self._state = line.state
            case Header() | Part() | Gap():
                self._before = self._numbers = self._output = None
                self._in_flight.clear()
                self._rejected.clear()
                self._state = UNSET
            case _:
                pass
        return line

    def _state_after(self, told: PostState | UnsetType) -> PostState | UnsetType:
        """The state with what is as it was."""
        before = self._state
        if told is UNSET:
            return before
        if isinstance(told, UnsetType) or isinstance(before, UnsetType):
            self._state = told
            return told
        free, running, waiting = told.num_free, told.num_running, told.num_waiting
        self._state = PostState(
            num_free=before.num_free if free is UNSET else free,
            num_running=before.num_running if running is UNSET else running,
            num_waiting=before.num_waiting if waiting is UNSET else waiting,
        )
        return self._state

    def _schedule(self, line: ScheduleDelta) -> Schedule:
        before = self._before
        if before is None:
            raise Malformed(f"step {line.step} refers to a step before it, not told", _RECORDER)
        if self._numbers is None:
            self._numbers = numbers(before)
        ids, tokens = before.ids, before.tokens
        computed, outputs = self._numbers
        if line.gone:
            gone = _different(line.gone, line.step)
            ids, tokens, computed, outputs = _without(gone, before, computed, outputs)
        computed = list(map(add, computed, tokens))
        outputs = [n + 1 for n in outputs]
        if before.drafts or self._rejected.since:
            settled(ids, computed, outputs, before.drafts, self._rejected.since)
        drafts: Drafted = []
        if line.drafts or line.drafted:
            many, drafts = drafts_of(line, ids)
            tokens = [n + 1 for n in many]
        elif tokens.count(1) != len(tokens):
            tokens = [1] * len(ids)
        if line.odd:
            tokens = list(tokens)
            _except(line, ids, tokens, computed, outputs)
        whole = self._whole(line, before, ids, tokens, computed, outputs, drafts)
        self._before = whole
        self._in_flight.put(whole, self._numbers[0])
        self._rejected.scheduled(whole)
        return whole

    def _whole(
        self,
        line: ScheduleDelta,
        before: Schedule,
        ids: list[int],
        tokens: list[int],
        computed: list[int],
        outputs: list[int],
        drafts: Drafted,
    ) -> Schedule:
        """The record, and what the next one may refer to."""
        told = blocks(line, ids, computed, self._block_size)
        cached: CachedRequests | UnsetType = UNSET
        if not (ids or line.known) and (told or line.resumed or line.all_tokens):
            what = f"step {line.step} tells more of requests that it does not have"
            raise Malformed(what, _RECORDER)
        if ids or line.known:
            cached = CachedRequests(
                ids=ids + [id for id, _, _ in line.known] if line.known else ids,
                computed=computed + [n for _, n, _ in line.known],
                num_output=outputs + [n for _, _, n in line.known],
                blocks=told if self._tells_blocks else UNSET,
                resumed=line.resumed,
                all_tokens=line.all_tokens,
            )
        self._numbers = (computed, outputs)
        if line.ids:
            facts = {id: (n, o) for id, n, o in line.known}
            facts |= {new.id: (new.computed, 0) for new in line.new}
            further = [fact(facts, id, line.step) for id in line.ids]
            self._numbers = (
                computed + [n for n, _ in further],
                outputs + [o for _, o in further],
            )
            ids, tokens = ids + line.ids, tokens + line.tokens
        return Schedule(
            step=line.step,
            ids=ids,
            tokens=tokens,
            drafts=drafts,
            new=line.new,
            cached=cached,
            preempted=line.preempted,
            finished=line.finished,
            common_prefix=before.common_prefix
            if line.common_prefix is UNSET
            else line.common_prefix,
            encoder_inputs=line.encoder_inputs,
            evicted_items=line.evicted_items,
            item_answers=line.item_answers,
            connector_items=line.connector_items,
            zeroed=line.zeroed,
            state=self._state_after(line.state),
        )

    def _update(self, line: UpdateDelta) -> Update:
        output = self._output
        if output is None or output.step != line.step:
            raise Malformed(f"update of step {line.step} before its output", _RECORDER)
        ids, tokens = output.ids, output.counts
        if line.gone or 0 in tokens:
            gone = _different(line.gone, line.step)
            sampled = [(id, n) for id, n in zip(ids, tokens, strict=True) if n > 0]
            if unknown := gone - {id for id, _ in sampled}:
                what = (
                    f"request {min(unknown)}, which sampled nothing in step {line.step}, is gone"
                )
                raise Malformed(what, _RECORDER)
            taken = [(id, n) for id, n in sampled if id not in gone]
            ids, tokens = [id for id, _ in taken], [n for _, n in taken]
        if line.cut:
            tokens = cut_off(line, ids, tokens)
        return Update(
            step=line.step,
            ids=ids,
            tokens=tokens,
            finish=line.finish,
            turns=line.turns,
            events=line.events,
            state=self._state_after(line.state),
        )


def _output(
    line: OutputDelta, oldest: list[int] | None, chain: list[tuple[int, int]] | UnsetType
) -> Output:
    if oldest is None:
        raise Malformed(f"output of step {line.step}, which was not scheduled", _RECORDER)
    counts = line.counts or [1] * len(oldest)
    if len(counts) != len(oldest):
        what = f"{len(counts)} counts for {len(oldest)} requests of step {line.step}"
        raise Malformed(what, _RECORDER)
    if line.odd:
        place = {id: i for i, id in enumerate(oldest)}
        for id, count in line.odd:
            if id not in place:
                what = f"output for request {id}, which step {line.step} did not schedule"
                raise Malformed(what, _RECORDER)
            counts[place[id]] = count
    return Output(
        step=line.step,
        ids=oldest,
        counts=counts,
        eos=line.eos,
        stop=line.stop,
        rejected=line.rejected,
        chain=chain,
    )


def _without(
    gone: set[int], before: Schedule, computed: list[int], outputs: list[int]
) -> tuple[list[int], list[int], list[int], list[int]]:
    if unknown := gone - set(before.ids):
        raise _stranger(min(unknown), before.step)
    stay = [
        row
        for row in zip(before.ids, before.tokens, computed, outputs, strict=True)
        if row[0] not in gone
    ]
    ids, tokens, computed, outputs = (
        (list(column) for column in zip(*stay, strict=True)) if (stay) else ([], [], [], [])
    )
    return ids, tokens, computed, outputs


def _except(
    line: ScheduleDelta,
    ids: list[int],
    tokens: list[int],
    computed: list[int],
    outputs: list[int],
) -> None:
    """Put the numbers of the odd ones in."""
    place = {id: i for i, id in enumerate(ids)}
    for id, n, c, o in line.odd:
        i = place.get(id)
        if i is None:
            raise _stranger(id, line.step - 1)
        tokens[i], computed[i], outputs[i] = n, c, o


def _different(gone: list[int], step: int) -> set[int]:
    """Who is gone, each told once."""
    found = set(gone)
    if len(found) != len(gone):
        raise Malformed(f"a request that is gone twice from step {step}", _RECORDER)
    return found


def _stranger(id: int, step: int) -> Malformed:
    return Malformed(f"request {id}, which step {step} does not have", _RECORDER)
