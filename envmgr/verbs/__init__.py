"""Verbs, one file each: the options, the work, the result and its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from envmgr.steps.opening import Needs

_F = TypeVar("_F", bound=Callable[..., Any])


def needs(what: Needs) -> Callable[[_F], _F]:
    """Mark a verb, whose first parameter is a `Context`, with what it needs of the prefix.

    A verb that needs to write only looks with --dry-run.
    """

    def mark(verb: _F) -> _F:
        vars(verb)["needs"] = what
        return verb

    return mark
