"""A KV connector in a recording: what it answers while the engine decides, and what is reported.

The connector's own methods are watched: each call is passed on as it came, and what it returned is
noted. Nothing in here is called where the engine has no connector.
"""

from collections.abc import Callable, Iterable
from typing import Any

Fields = dict[str, Any]
POLICIES = {True: "recompute", False: "fail"}


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of the connector; None where there is none, or it is not
    watched.
    """
    if getattr(scheduler, "_nullblock_connector", None) is None:
        return None
    policy = bool(getattr(scheduler, "recompute_kv_load_failures", True))
    told: Fields = {"failure_policy": POLICIES[policy]}
    if getattr(scheduler, "defer_block_free", False):  # since 0.32.0
        told["loads_beside_steps"] = True
    if getattr(scheduler, "requires_kv_delivery", False):  # likewise
        told["requires_kv_delivery"] = True
    return {"connector": told}


UNUSUAL = {"has_pending_block_frees": True, "register_finished_partial_tail": True}
"""What a connector of vLLM 0.32.0 may answer that decides, and that no record tells."""


class Answers:
    """What a connector has said in the call of the engine that is under way."""

    def __init__(self) -> None:
        self.unusual: list[str] = []
        """What it has answered that no record tells, by name."""
        self._asked: list[Fields] = []
        self._ended: list[tuple[str, bool]] = []
        """Who has ended, in order, and whether the blocks are to be kept until they are sent."""
        self._last = self._ended
        """Who ended in the call that was looked at last."""

    def clear(self) -> None:
        """A call begins."""
        if self._asked or self._ended:
            self._asked, self._ended = [], []

    def asked(self, answer: Any, request: Any, local: int, *_: Any, **__: Any) -> None:
        """``get_num_new_matched_tokens`` was called."""
        tokens, over_steps = answer
        told: Fields = {"id": request.request_id}
        if tokens is not None:
            told |= ({"local": int(local)} if local else {}) | {"tokens": int(tokens)}
        if over_steps:
            told["over_steps"] = True
        self._asked.append(told)

    def begun(self, _: Any, request: Any, blocks: Any, tokens: int, *__: Any, **___: Any) -> None:
        """``update_state_after_alloc`` was called."""
        if not tokens:
            return
        for told in reversed(self._asked):
            if told["id"] == request.request_id:
                told["begins"] = True
                if "over_steps" in told:
                    told["blocks"] = [list(ids) for ids in blocks.get_block_ids()]
                return

    def ended(self, answer: Any, request: Any, *_: Any, **__: Any) -> None:
        """``request_finished``, or that of all groups, was called."""
        self._ended.append((request.request_id, bool(answer[0])))

    def take(self) -> list[Fields] | None:
        """The answers of a step; None: nobody was asked."""
        found, self._asked = self._asked, []
        return found or None

    def lost(self) -> list[str]:
        """Who ended in the last call, in order; those among them whose load failed are told with
        an output.
        """
        (ended, self._ended) = self._ended, []
        return [id for id, _ in ended]

    def with_output(self, sampled: Any, outputs: Iterable[Any]) -> Fields | None:
        """What workers reported with an output, and the connector said of those who ended with it;
        None: nothing. Requests by id.
        """
        failed = {
            output.request_id
            for output in outputs
            if output.finish_reason is not None
            and not output.new_token_ids
            and str(output.finish_reason) == "error"
        }
        told = self.with_abort() or {}
        order = [id for id, _ in self._last if id in failed]
        report = getattr(sampled, "kv_connector_output", None)
        for name, attribute in (("received", "finished_recving"), ("sent", "finished_sending")):
            # As the engine has walked over the very same set.
            ids = list(getattr(report, attribute, None) or ())
            if ids:
                told[name] = ids
        invalid = getattr(report, "invalid_block_ids", None)
        if invalid:
            told["invalid"] = sorted(invalid)
        if order:
            told["failed"] = order
        return told or None

    def with_abort(self) -> Fields | None:
        """What the connector said of those who ended in a call; None: nothing that is told."""
        self._last, self._ended = self._ended, []
        delayed = [id for id, is_delayed in self._last if is_delayed]
        return {"delayed": delayed} if delayed else None


def watch(scheduler: Any, safely: Callable[..., Any]) -> Answers | None:
    """Watch the connector of a scheduler. None: there is none, or it cannot be watched, and then
    the recording names it as a feature. ``safely``: calls a method of this side.
    """
    connector = getattr(scheduler, "connector", None)
    if connector is None:
        return None
    answers, watcher = Answers(), Watcher(safely)
    noted: dict[str, Callable[..., None]] = {
        "get_num_new_matched_tokens": answers.asked,
        "update_state_after_alloc": answers.begun,
        "request_finished": answers.ended,
        "request_finished_all_groups": answers.ended,
    }
    try:
        for name, note in noted.items():
            if hasattr(connector, name):
                watcher.watch(connector, name, note)
        for name, unusual in UNUSUAL.items():
            watcher.watch_for(connector, name, unusual, answers.unusual)
    except Exception:
        return None
    return answers


class Watcher:
    """Watches methods of one connector. What it calls of itself meanwhile, as vLLM's
    ``MultiConnector`` does, the engine has not asked: only the outermost call is noted.
    """

    def __init__(self, safely: Callable[..., Any]) -> None:
        self._safely = safely
        self._asked = False
        """Whether the connector is inside a call that is watched."""

    def watch(self, connector: Any, name: str, note: Callable[..., None]) -> None:
        """Pass every call of the method with that name on, and note it with its answer."""
        call = getattr(connector, name)

        def passed_on(*args: Any, **kwargs: Any) -> Any:
            if self._asked:
                return call(*args, **kwargs)
            self._asked = True
            try:
                answer = call(*args, **kwargs)
            finally:
                self._asked = False
            self._safely(note, answer, *args, **kwargs)
            return answer

        setattr(connector, name, passed_on)

    def watch_for(self, connector: Any, name: str, unusual: bool, found: list[str]) -> None:
        """Note the method's name where it answers so; a connector may be without it."""

        def noted(answer: Any, *_: Any, **__: Any) -> None:
            if bool(answer) is unusual:
                found.append(name)

        if hasattr(connector, name):
            self.watch(connector, name, noted)


def fails_by_request(sampled: Any, requests: dict[str, Any]) -> bool:
    """Whether workers report loads as failed by their requests, and not by blocks (since 0.32.0).
    Of whom no load is under way that decides nothing.
    """
    report = getattr(sampled, "kv_connector_output", None)
    for id in getattr(report, "failed_recving", None) or ():
        request = requests.get(id)
        if request is not None and request.status.name == "WAITING_FOR_REMOTE_KVS":
            return True
    return False


def matched(asked: list[Fields], of: dict[str, int], *, blocks: bool) -> Fields:
    """A ``matched`` record. Of whom no number is known nothing is told."""
    answers = []
    for told in asked:
        if told["id"] in of:
            answer = told | {"id": of[told["id"]]}
            if not blocks:
                answer.pop("blocks", None)
            answers.append(answer)
    return {"ev": "matched", "answers": answers}


def transfers(told: Fields, of: dict[str, int]) -> Fields:
    """A ``transfers`` record."""
    record: Fields = {"ev": "transfers"}
    for name in ("received", "sent", "invalid", "failed", "delayed"):
        if name in told:
            ids = told[name]
            record[name] = ids if name == "invalid" else [of[id] for id in ids if id in of]
    return record


class KeptNumbers:
    """Those who have ended and whose blocks are kept: their content keeps its numbers."""

    def __init__(self, scheduler: Any, forget: Callable[[str], None]) -> None:
        self._requests = scheduler.requests
        self._forget = forget
        self.ids: list[str] = []

    def ended(self, id: str) -> bool:
        """A request has ended. Whether its blocks are kept."""
        if id not in self._requests:
            return False
        self.ids.append(id)
        return True

    def settle(self) -> None:
        """Forget those whose blocks are kept no longer."""
        if not self.ids:
            return
        gone = [id for id in self.ids if id not in self._requests]
        for id in gone:
            self.ids.remove(id)
            self._forget(id)


def state(scheduler: Any, kept: KeptNumbers, of: dict[str, int], managers: Any) -> Fields:
    """The ``remote`` of a ``state`` record. ``managers`` is None where no blocks are told."""
    fields: Fields = {}
    for name, attribute in (
        ("received", "finished_recving_kv_req_ids"),
        ("failed", "failed_recving_kv_req_ids"),
    ):
        ids = sorted(of[id] for id in getattr(scheduler, attribute, ()) if id in of)
        if ids:
            fields[name] = ids
    held = []
    for id in sorted(kept.ids, key=of.__getitem__):
        one: Fields = {"id": of[id]}
        if managers is not None:
            one["blocks"] = [[b.block_id for b in m.req_to_blocks.get(id, ())] for m in managers]
        held.append(one)
    if held:
        fields["kept"] = held
    return fields
