"""The audit: it asks nodes once (`gather`) and judges their answers (`judge`)."""

from __future__ import annotations

from envmgr.audit.ask.gather import gather
from envmgr.audit.judge import judge
from envmgr.audit.plan import AuditRequest, Via

__all__ = ["AuditRequest", "Via", "gather", "judge"]
