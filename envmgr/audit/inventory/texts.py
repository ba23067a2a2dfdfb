"""The questions of the inventory: shell text for a node, and for each of its shells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from envmgr.audit.inventory.alike import ROWS
from envmgr.audit.inventory.kinds import KINDS, STAGES
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import of_login
from envmgr.probe.model import ProbePart, ProbeStage
from envmgr.system.shelltext import assign, script_text

_LEAST = 5  # seconds
_FILES, _DEEP = 10_000, 100_000  # so many modulefiles of a folder at most


def inventory_texts(plan: AuditPlan) -> dict[ProbeStage, str]:
    """Return stage -> the text that reports `inventory.KIND|KEY<TAB>VALUE` there.

    Of many nodes, it tells what nodes have by a digest for each kind, but for the kinds that `alike.yaml` looks at.
    """
    given = _given(plan, whole=ROWS if plan.by_digest else ())
    shells = _given(plan) + script_text(__file__, "home.sh") + script_text(__file__, "shell.sh")
    return {"node": given + script_text(__file__, "system.sh"), "context": shells, "login": given + _of_modules(plan)}


def asked_of(kinds: Collection[str]) -> Callable[[AuditPlan], dict[ProbeStage, str]]:
    """Return the question in the stages that report these kinds; the node itself is always asked."""
    stages = {"node", *(STAGES[KINDS[kind].scope] for kind in kinds)}
    return lambda plan: {stage: text for stage, text in inventory_texts(plan).items() if stage in stages}


def kinds_part(kinds: Iterable[str], plan: AuditPlan) -> ProbePart:
    """Return the question for all of these kinds, with their digests."""
    given = _given(plan, only=kinds)
    login = of_login(plan.day, plan.seconds) + given + _of_modules(plan)
    return ProbePart("inventory", {"node": given + script_text(__file__, "system.sh"), "login": login})


def _given(plan: AuditPlan, *, whole: Iterable[str] = (), only: Iterable[str] = ()) -> str:
    told = {"inventory_whole": " ".join(sorted(whole)) or "all", "inventory_only": " ".join(sorted(only)) or "all"}
    given = assign(inventory_salt=plan.salt, inventory_seconds=max(_LEAST, plan.seconds // 2), **told)
    return given + script_text(__file__, "tell.sh")


def _of_modules(plan: AuditPlan) -> str:
    most, seconds = (_DEEP, 30) if plan.request.deep else (_FILES, 10)
    given = assign(modules_most=most, modules_seconds=min(plan.seconds, seconds))
    return given + script_text(__file__, "modules.sh")
