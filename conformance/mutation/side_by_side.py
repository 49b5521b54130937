"""Many questions put to one engine, as many at once as there are processors."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")
_asked: tuple[Callable[[Any], Json], Sequence[Any]] = (dict, ())
"""Who answers, and the questions: known to the processes that answer, which are forked off after
it is set.
"""


def answers(answer: Callable[[T], Json], questions: Sequence[T]) -> Iterator[tuple[T, Json]]:
    """Each question and its answer, in the order of the questions."""
    global _asked
    _asked = answer, questions
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=fork) as pool:
        yield from zip(questions, pool.map(_answer, range(len(questions))), strict=True)


def _answer(i: int) -> Json:
    answer, questions = _asked
    return answer(questions[i])
