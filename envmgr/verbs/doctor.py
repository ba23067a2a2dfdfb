"""`envmgr doctor`: what is wrong with a user's own shells, files and environments on this host, by the audit's checks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from envmgr.audit.ask.submit_hosts import this_host
from envmgr.audit.findings import Caused
from envmgr.audit.plan import AuditRequest
from envmgr.audit.text import finding_lines
from envmgr.errors import EnvmgrError
from envmgr.people.first_aid import own_findings
from envmgr.people.places import user_places
from envmgr.publish.records import GenerationRecord
from envmgr.report import Finding, Lines, Result
from envmgr.steps import Context, published_record
from envmgr.steps.audit import audit_nodes
from envmgr.system.usernames import own_name
from envmgr.verbs import needs
from envmgr.wording import counted

# Of what users get, and of what is known to harm it; this host is compared with nothing.
_OF_ANY = ("contexts", "inventory")
_CHECKS = (*_OF_ANY, "node-setup", "saved-collections")
_SECONDS = 60.0
_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class DoctorResult(Result):
    """The findings on `host` for `user`, worst first. `contexts` are the kinds of shells that were looked at; `unlooked`
    is what was not, and why.
    """

    schema: ClassVar[str] = "envmgr.doctor/1"
    host: str
    user: str
    contexts: tuple[str, ...]
    findings: tuple[Caused, ...]
    unlooked: str
    seconds: float

    @property
    def exit_code(self) -> int:
        """1 if something is wrong."""
        return 1 if any(each.severity != "note" for each in self.findings) else 0

    def lines(self) -> Lines:
        for finding in self.findings:
            yield from finding_lines(finding)
            yield ""
        looked = f"{counted(len(self.contexts), 'kinds')} of shells of {self.user} on {self.host}"
        if self.unlooked:
            yield f"not looked at: {self.unlooked}"
        wrong = sum(finding.severity != "note" for finding in self.findings)
        said = f"{counted(wrong, 'causes')} found" if wrong else "nothing wrong"
        yield f"{said} in {looked}, and in your files, environments and kernels ({self.seconds:.1f} s)"


@needs("nothing")
def doctor(ctx: Context) -> DoctorResult:
    """Find what is wrong with your own shells and files.

    It looks as you, and changes nothing. The exit code is 1 if something is wrong.
    """
    began = time.monotonic()
    record: GenerationRecord | None = None
    unlooked = ""
    contexts: Sequence[str] = ()
    found: list[Caused] = []
    try:
        record = published_record(ctx)
    except EnvmgrError as error:
        unlooked = f"published modules: {error.message}"
    try:
        request = AuditRequest(
            via="ssh", checks=_CHECKS if record else _OF_ANY, deadline=_SECONDS, dry_run=True, here=True
        )
        result = audit_nodes(ctx, request)
        contexts, found = result.contexts, [*result.findings]
    except EnvmgrError as error:
        unlooked = f"shells: {error.message}"
    own = own_findings(ctx.environ, user_places(ctx.environ), ctx.prefix, record)
    names = [each.name for each in fields(Finding)]
    found += [Caused(**{name: getattr(each, name) for name in names}) for each in own]
    findings = tuple(sorted(found, key=lambda each: _ORDER[each.severity]))
    return DoctorResult(this_host(), own_name(), tuple(contexts), findings, unlooked, time.monotonic() - began)
