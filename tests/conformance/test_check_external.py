"""What an encoder connector answers, in recordings and verdicts; test_check_across.py has more."""

import copy
from collections.abc import Callable
from types import SimpleNamespace as Fake
from typing import Any

from altered import judge
from bases import Lines, as_recorded

from nullblock.conformance.adapters.vllm import items


def external() -> Lines:
    """The kept recording, whose features are all known."""
    lines = copy.deepcopy(as_recorded()["external"])
    lines[0].pop("features")
    lines[0].pop("config_sha256")
    return lines


def asked(lines: Lines) -> int:
    """The first step in which an encoder connector answers that it has something."""
    return next(i for i, line in enumerate(lines) if line.get("item_answers"))


def test_what_an_encoder_connector_answers_is_believed() -> None:
    """Where it is said to have nothing, less could have been computed. Of two answers
    about one item in a step nobody knows which came first, and a connector that nobody configured
    answers nothing.
    """
    lines = external()
    at = asked(lines)
    told = lines[at].pop("item_answers")
    first = judge(lines).first
    assert first is not None and (first.rule, first.line) == ("WAIT-2", at + 1)
    lines[at]["item_answers"] = [*told, [told[0][0], False]]
    verdict = judge(lines)
    words = f"which of its answers about item {told[0][0]} an encoder connector gave when"
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", [words])
    lines[at]["item_answers"] = told
    lines[0]["config"]["encoder"].pop("ec_connector")
    missing = judge(lines).missing
    assert missing == ["an encoder connector that nobody configured"]


def test_what_an_encoder_connector_has_no_more_it_does_not_load() -> None:
    """The answer before counts until another one comes."""
    lines = [line for line in external() if line["ev"] != "state"]
    at = max(i for i, line in enumerate(lines) if line.get("item_answers"))
    before = max(i for i, line in enumerate(lines[:at]) if line["ev"].startswith("schedule"))
    told = lines[at].pop("item_answers")
    lines[before]["item_answers"] = told
    assert judge(lines).verdict == "CONFORMS"
    lines[at]["item_answers"] = [[item, False] for item, _ in told]
    first = judge(lines).first
    assert first is not None and first.line == at + 1


def test_an_exception_in_a_step_hides_what_was_answered_in_it() -> None:
    """Whether the rules raise as well depends on that."""
    lines = external()[: asked(external())]
    error = {"ev": "error", "during": "schedule", "type": "ValueError"}
    verdict = judge([*lines, error])
    words = "what the encoder connector answered when ValueError was raised"
    assert (verdict.verdict, verdict.missing) == ("INCONCLUSIVE", [words])


class Scheduler:
    """Has an encoder connector."""

    def __init__(self, connector: Any) -> None:
        self.ec_connector = connector


class Connector:
    """Has an item now and then."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)

    def has_cache_item(self, identifier: str) -> bool:
        """Whether it has it."""
        return self.answers.pop(0)

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        """An item has room."""


class Closed(Connector):
    """Nothing can be put over its methods."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if callable(value):
            raise AttributeError(name)
        super().__setattr__(name, value)


def noting(note: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Nothing goes wrong."""
    note(*args, **kwargs)


def test_the_recorder_tells_answers_that_are_new() -> None:
    """To begin with an encoder connector has nothing; both answers about one item are told."""
    connector = Connector(True, False, True, True, False, False)
    watched = items.watch(Scheduler(connector), noting)
    assert watched is not None
    numbers = items.ItemNumbers(Fake(cached={}))
    place = Fake(offset=0, length=1, is_embed=None)
    made = [Fake(identifier=name, mm_position=place) for name in "ab"]
    request = Fake(request_id="r", mm_features=made)
    numbers.add(request)
    said = []
    for names in ("ab", "a", "a", "aa"):
        for name in names:
            connector.has_cache_item(name)
            connector.update_state_after_alloc(request, index=0)
        answers, room = watched.take()
        assert room == [("r", 0)] * len(names)
        said.append(numbers.answers(answers))
    assert said == [[(1, True)], [], [], [(1, False)]]
    assert numbers.answers([("a", True), ("a", False)]) == [(1, True), (1, False)]
    assert watched.take() == ([], [])


def test_who_cannot_be_watched_is_named() -> None:
    """Then no word of a header tells of it, and its name is among the features."""
    assert items.watch(Scheduler(None), noting) is None
    assert items.watch(Scheduler(Closed()), noting) is None
