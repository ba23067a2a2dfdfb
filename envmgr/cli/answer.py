"""What a verb of the command line gives back: a result, and how a person sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from envmgr.report import Result

    _R = TypeVar("_R", bound=Result)


@dataclass(frozen=True, slots=True)
class Answer:
    """`show` prints the result as text."""

    result: Result
    show: Callable[[], None]


def shown(result: _R, show: Callable[[_R], None]) -> Answer:
    """The answer that `show`, a function for results of this type, prints."""
    return Answer(result, partial(show, result))
