"""The expected state of every node: the published generation, as this host reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from envmgr.audit.plan import AuditPlan, ExpectedInstall, PublishedGeneration
from envmgr.catalog.names import nearest
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.records import RECORD, complete_numbers, published_spec, read_current, read_specs
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text
from envmgr.system.untrusted_files import GENERATION, digest_of
from envmgr.wording import did_you_mean

SAMPLE = 8  # entries that are looked at closely if none are named; each costs a node about 0.1 s

_NO_LINK = 3  # the exit status of copy.sh where neither link names what is asked for
_SECONDS = 20.0  # for reading some kilobytes of a prefix that has just answered


def read_published(
    prefix: Prefix, runner: Runner, seconds: float, number: int | None = None
) -> PublishedGeneration | None:
    """Return the current generation, or the newest candidate if that is `number`; None if it cannot be read within
    `seconds`.

    Raises:
        InputError: `not-in-shells` for a generation that is neither.
        EnvmgrError: `current-damaged`, `generation-damaged`.
    """
    with scratch_folder("published") as scratch:
        folder = str(scratch)
        # A process that can be left behind copies the files, because the prefix may hang.
        copy = ["/bin/sh", "-c", script_text(__file__, "copy.sh"), "sh", str(prefix.root), folder]
        copy.append("" if number is None else str(prefix.generation(number).relative_to(prefix.root)))
        code = run_detached(copy, seconds=min(_SECONDS, seconds), check=runner.raise_if_cancelled).returncode
        if code == _NO_LINK:
            said = f"no shell can get generation {number}: it is neither current nor the newest candidate"
            hint = "`envmgr history` marks them with * and c; `envmgr verify --generation` compares any other one"
            raise InputError("not-in-shells", said, hint=hint)
        if code != 0:
            return None
        here = Prefix(Path(folder))
        try:
            record = read_current(here)
            raw = read_specs(here, record.number) if record else {}
        except EnvmgrError as error:
            # Users know the prefix, and not the copy that is read here.
            error.message = error.message.replace(folder, str(prefix.root))
            error.context = tuple(line.replace(folder, str(prefix.root)) for line in error.context)
            raise
        if record is None:
            return None
        items = {name: published_spec(item) for name, item in sorted(raw.items())}
        installs = (ExpectedInstall(name, item.spec.home, **dict(item.expected)) for name, item in items.items())
        return PublishedGeneration(
            record=record,
            record_sha256=digest_of(here.generation(record.number) / RECORD, GENERATION),
            specs={name: item.spec for name, item in items.items()},
            installs=tuple(installs),
            kept=tuple(complete_numbers(here)),
            since=float((Path(folder) / "since").read_text()),
            link="candidate" if (Path(folder) / "link").read_text().strip() == "candidate" else "current",
        )


def choose_samples(names: Sequence[str], published: PublishedGeneration) -> tuple[str, ...]:
    """Return the entries to look at closely: those named, `all`, or a sample: defaults first, then spread over the
    rest.

    Raises InputError `not-published`.
    """
    entries = sorted(published.record.entries)
    if list(names) == ["all"]:
        return tuple(entries)
    for name in names:
        if name not in published.record.entries:
            hint = did_you_mean(nearest(name, entries), "`envmgr list` shows what is")
            context = f"generation {published.record.number}"
            raise InputError("not-published", f"{name} is not published", context=context, hint=hint)
    if names or len(entries) <= SAMPLE:
        return tuple(names or entries)
    first = [name for name in entries if published.specs[name].default][:SAMPLE]
    rest = [name for name in entries if name not in first]
    step = max(1, len(rest) // max(1, SAMPLE - len(first)))
    return tuple(sorted([*first, *rest[::step]][:SAMPLE]))


def with_published(plan: AuditPlan, published: PublishedGeneration) -> AuditPlan:
    """Return the plan with what is published, and to be expected."""
    samples = choose_samples(plan.request.modules, published)
    return replace(
        plan,
        number=published.record.number,
        link=published.link,
        samples=samples,
        roots={name: published.specs[name].root for name in samples},
        installs=published.installs,
        outside=published.outside,
    )
