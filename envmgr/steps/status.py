"""`status.json` beside the page, written by the verbs that learn what is in it, and by a publish."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from envmgr.page import STATUS, WWW
from envmgr.page.status import Status, make_status
from envmgr.publish.records import published_spec, read_specs
from envmgr.steps import Context, published_record
from envmgr.store.node_facts import read_node_facts
from envmgr.store.node_tests import read_node_tests
from envmgr.store.state_file import SECONDS, change_state
from envmgr.system.files import pretty_json


def status_file(ctx: Context) -> Path:
    return ctx.prefix.root / "var" / WWW / STATUS


def keep_status(ctx: Context, seconds: float = SECONDS) -> None:
    """Write what is known of the current generation's entries on nodes; why that failed is said, and stops nothing.

    Call it only for a prefix that was just seen to answer.
    """
    path = status_file(ctx)
    if why := change_state(path, partial(_text, ctx), ctx.site, seconds=seconds, check=ctx.runner.raise_if_cancelled):
        ctx.reporter.say(f"warning: {path} is as it was: {why}")


def _text(ctx: Context, old: str) -> str:
    """Return the file's text; the `old` one counts as nothing where it is damaged. Raises EnvmgrError."""
    prefix, record, before = ctx.prefix, published_record(ctx), None
    with suppress(ValueError):
        before = Status.model_validate_json(old)
    needs = {name: published_spec(raw).spec.needs for name, raw in read_specs(prefix, record.number).items()}
    digests = {name: entry.digest for name, entry in record.entries.items()}
    tests = read_node_tests(prefix, record.number)
    found = make_status(record.number, needs, digests, read_node_facts(prefix), tests, time.time(), before)
    return pretty_json(found.model_dump(mode="json"))
