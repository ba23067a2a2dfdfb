"""The command line: verbs and options, and how results and progress look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from envmgr.report import Result

    _R = TypeVar("_R", bound=Result)


class VerbAnswer(NamedTuple):
    """The result of a verb, and the function that prints it as text."""

    result: Result
    show: Callable[[], None]


def answer_with(result: _R, show: Callable[[_R], None]) -> VerbAnswer:
    """Return the answer that `show`, a function for results of this type, prints."""
    return VerbAnswer(result, partial(show, result))
