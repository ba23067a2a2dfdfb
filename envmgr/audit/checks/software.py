"""The installs themselves: on every node the ordinary user gets what was published, and it starts.

On each node, the ordinary user must be able to enter the install of every published entry. The install's first program
must be where the manifest names it, and the user must be able to read and execute it. The first program is the Python
of an entry that has one. Else it is the program with the entry's name, or else the first executable that the entry puts
into PATH. If the entry puts no program there, a file of the entry is checked instead.

In a login shell, each sampled entry (`--modules`) is loaded in a clean environment, where its first program must be
found and start. It is run with `--version`, for five seconds at most; time in which it waits for a processor does not
count.

In every context, one entry is loaded in the shell as it is. Its first program must be the install's, not another file,
a function or an alias, and must start. At a prompt, this must still be so at the next prompt (PROMPT_COMMAND). It must
be so in a csh, a zsh or a bash at a terminal that is started with the entry loaded.

With `--deep`, up to 24 files of 8 MB at most are drawn from the manifest of each sampled entry. They are hashed on
every node through its own mount. The check reports what was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.causes import set_by
from envmgr.audit.fit.install_facts import bad_installs, covered_by, installed_program, program_fault, start_fault
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan, ExpectedInstall
from envmgr.audit.wording import short
from envmgr.catalog.site import Site
from envmgr.modules.nodesetup import open_hint
from envmgr.probe.model import Facts, Fleet, ProbeStage, ShellAccount, ShellContext, number_in
from envmgr.probe.shell import context_key
from envmgr.report import Severity
from envmgr.system.shelltext import assign, quote, script_text, words

START_SECONDS = 5
# Shells that read a file whenever they are started -> the context whose trace shows it.
_INSIDE = {"csh": "csh", "zsh": "zsh", "bash": "bash-interactive"}


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    if not plan.installs:
        return {}
    given = assign(software_seconds=_seconds(plan), software_look=script_text(__file__, "look.sh"))
    arguments = (word for install in plan.installs for word in _arguments(install))
    texts: dict[ProbeStage, str] = {
        "prefix": f"{given}set -- {words(*arguments)}\n{script_text(__file__, 'prefix.sh')}"
    }
    limit = assign(
        software_limit=START_SECONDS, software_most=plan.seconds // 2, software_start=script_text(__file__, "start.sh")
    )
    programs = {install.entry: installed_program(install) for install in plan.installs if install.program}
    sampled = [word for entry in plan.samples if entry in programs for word in (entry, programs[entry])]
    if sampled:
        texts["login"] = f"{limit}set -- {words(*sampled)}\n{script_text(__file__, 'login.sh')}"
        one = assign(software_entry=sampled[0], software_program=sampled[1])
        texts["context"] = f"{limit}{one}{script_text(__file__, 'context.sh')}"
    return texts


def _arguments(install: ExpectedInstall) -> tuple[str, ...]:
    sums = "\n".join(f"{sha256}  {path}" for path, sha256 in (install.sums or {}).items())
    kind = "program" if install.program else "file" if install.file else "folder"
    return install.entry, install.root, install.file, kind, sums


def _seconds(plan: AuditPlan) -> int:
    """Return a third of the seconds that all reads of the prefix may take: other checks run, too."""
    return max(2, plan.seconds // 3)


def judge(evidence: Evidence) -> Iterator[Row]:
    if evidence.published is None:
        return
    yield from _installs(evidence)
    yield from _unseen(evidence)
    yield from _starts(evidence)
    yield from _in_contexts(evidence)
    yield from _inside(evidence)
    yield from _deep(evidence)


# -- on the node -------------------------------------------------------------------------------------------------------


def _installs(evidence: Evidence) -> Iterator[Row]:
    """Yield faults of installs that keep the user from what was published."""
    for install in evidence.plan.installs:
        found: dict[str, list[str]] = {}
        covers: dict[str, str] = {}
        noexec: set[str] = set()
        for group in evidence.fleet.sound.groups:
            reason = bad_installs(group.facts).get(install.entry)
            if reason:
                found.setdefault(reason, []).extend(group.nodes)
                covers[reason] = covers.get(reason) or covered_by(install.root, group.facts)
                noexec |= {reason} if _noexec(group.facts) else set()
        for reason, nodes in found.items():
            others = [node for node in evidence.fleet.sound.nodes if node not in nodes]
            hint = _hint(install, reason, covers[reason], evidence.site, others=bool(others))
            if reason in noexec and reason.endswith("cannot be executed"):
                hint = f"on the node: `mount -o remount,exec {evidence.site.prefix}`: it is mounted noexec"
            yield Found(
                "error",
                install.entry,
                short(reason),
                f"{install.file or install.root}, as {evidence.plan.user}",
                hint,
                nodes,
            )


def _noexec(facts: Facts) -> bool:
    return "noexec" in facts.get("mount.options", "").split(",")


def _hint(install: ExpectedInstall, reason: str, cover: str, site: Site, *, others: bool) -> str:
    if cover:
        return (
            f"on the node: `umount {quote(cover)}`, and take it out of fstab: another file system lies over the install"
        )
    if others:
        return "other nodes have it: does this node have the same file system? on the node: `ls -ld` of it, then mount it again"
    if reason.endswith("Permission denied"):
        return (
            open_hint(site, [install.root], whom="users", place="on the server", installs=[install.root])
            + f"; `envmgr verify {install.entry}` tells what else was changed"
        )
    return f"`envmgr verify {install.entry}` tells what was changed in the install, and how to have it again"


def _unseen(evidence: Evidence) -> Iterator[Row]:
    """Yield installs that were not looked at."""
    number = len(evidence.plan.installs)
    short_of: dict[int, list[str]] = {}
    for group in evidence.fleet.sound.groups:
        seen = number_in(group.facts, "software.seen") or 0
        if seen < number and "software.looked.prefix" in group.facts and "software.user" not in group.facts:
            short_of.setdefault(seen, []).extend(group.nodes)
    for seen, nodes in short_of.items():
        yield Found(
            "warning",
            "installs",
            f"{number - seen} of {number} were not looked at within {_seconds(evidence.plan)} s",
            "all of them",
            "is the file server slow? a longer --node-timeout gives more time",
            nodes,
        )
    unread = [install.entry for install in evidence.plan.installs if not install.file]
    if unread:
        yield Found(
            "warning",
            short(", ".join(unread)),
            "not looked at: its manifest cannot be read here",
            "the manifest beside the install",
            "`envmgr verify` tells what is wrong with it",
        )


# -- in shells ---------------------------------------------------------------------------------------------------------


def _starts(evidence: Evidence) -> Iterator[Row]:
    """Yield first programs that do not start in a clean environment."""
    fleet = evidence.shells
    for install in evidence.plan.installs:
        if not install.program or install.entry not in evidence.plan.samples:
            continue
        healthy = fleet.only(lambda facts, entry=install.entry: entry not in bad_installs(facts))  # type: ignore[misc]
        for fault, nodes in healthy.by(lambda facts, of=install: program_fault(of, facts)).items():  # type: ignore[misc]
            if fault:
                slow = fault.startswith("no end")
                hint = (
                    f"on the node: `module load {install.entry}`, then `{install.program.rpartition('/')[2]} --version`"
                )
                yield Found(
                    "note" if slow else "error",
                    install.entry,
                    f"{install.program}: {short(fault)}",
                    f"`--version` that ends in {START_SECONDS} s" if slow else "a program that starts",
                    hint,
                    nodes,
                )


def _in_contexts(evidence: Evidence) -> Iterator[Row]:
    first = next((i for i in _sampled(evidence) if i.program), None)
    if first is None:
        return
    path = installed_program(first)
    for context, account, fleet in evidence.contexts():
        key = context_key(context, account)
        where = evidence.shell(context, account)
        healthy = fleet.only(lambda facts: first.entry not in bad_installs(facts))
        for said, nodes in healthy.by_value(f"{key}program").items():
            if said != path:
                yield _shadowed(where, first, said, nodes)
        yield from _prompted(where, context, account, first, healthy)
        right = healthy.only(lambda facts, key=key: facts.get(f"{key}program") == path)  # type: ignore[misc]
        for status, nodes in right.by_value(f"{key}started").items():
            if fault := start_fault(status):
                severity: Severity = "note" if fault.startswith("no end") else "error"
                yield Found(
                    severity,
                    where,
                    f"{first.program} of {first.entry}: {fault}",
                    "a program that starts",
                    f"in that shell, after `module load {first.entry}`: `{path} --version`",
                    nodes,
                )
        untold = healthy.only(lambda facts, key=key: f"{key}modulepath" not in facts)  # type: ignore[misc]
        if unloaded := untold.by_value(f"{key}program_unloaded").get("yes"):  # else the check `contexts` reports why
            yield Found(
                "note",
                where,
                f"not looked at: {first.entry} cannot be loaded there",
                "a look at its programs",
                "another finding tells why: `envmgr audit --check contexts`",
                unloaded,
            )


def _prompted(
    where: str, context: ShellContext, account: ShellAccount, first: ExpectedInstall, fleet: Fleet
) -> Iterator[Row]:
    """Yield a first program that is not the install's at the prompt after the one at which the entry was loaded."""
    key, path = context_key(context, account), installed_program(first)
    for said, nodes in fleet.only(lambda facts: facts.get(f"{key}program") == path).by_value(f"{key}prompted").items():
        if said != path:
            name = first.program.rpartition("/")[2]
            mend = "; what it runs must leave PATH as modules set it"
            unknown = f"which start-up file sets PROMPT_COMMAND?{mend}"
            yield Found(
                "error",
                where,
                f"`{name}` is {said or 'not in PATH'} at the prompt after `module load {first.entry}`",
                path,
                set_by(nodes, context, account, "PROMPT_COMMAND", f" sets PROMPT_COMMAND{mend}", unknown),
                nodes,
            )


def _inside(evidence: Evidence) -> Iterator[Row]:
    """Yield a first program that is not the install's in a csh, zsh or bash that is started with an entry loaded."""
    first = next((i for i in _sampled(evidence) if i.program), None)
    if first is None:
        return
    name, path = first.program.rpartition("/")[2], installed_program(first)
    for shell, name_of_context in _INSIDE.items():
        for said, nodes in evidence.shells.by_value(f"software.inside.{shell}").items():
            if said != path:
                context = next(
                    (c for c, a, _ in evidence.contexts() if c.name == name_of_context and a == "user"), None
                )
                mend = "what modules gave must stay in front"
                unknown = f"which start-up file of {shell} sets PATH? {mend}"
                yield Found(
                    "error",
                    f"{shell} with {first.entry} loaded",
                    f"`{name}` is {said if said != 'none' else 'not in PATH'}",
                    path,
                    set_by(nodes, context, "user", "PATH", f" sets PATH: {mend}", unknown) if context else unknown,
                    nodes,
                )


def _shadowed(where: str, install: ExpectedInstall, said: str, nodes: tuple[str, ...]) -> Found:
    name = install.program.rpartition("/")[2]
    if said.startswith("alias "):
        found, hint = said, f"which start-up file has `{said.partition('=')[0]}`? take it away there"
    elif said == name:
        found = f"`{name}` is a function of the shell"
        hint = f"which start-up file defines it, or which `export -f {name}` is inherited? take it away there"
    elif said:
        found = f"`{name}` is {said}"
        hint = f"which start-up file puts {said.rpartition('/')[0]} into PATH after the module is loaded?"
    else:
        found, hint = f"`{name}` is not in PATH", "which start-up file changes PATH or `module`?"
    return Found(
        "error", where, f"{short(found)}, after `module load {install.entry}`", installed_program(install), hint, nodes
    )


def _sampled(evidence: Evidence) -> Iterator[ExpectedInstall]:
    by_name = {install.entry: install for install in evidence.plan.installs}
    return (by_name[entry] for entry in evidence.plan.samples if entry in by_name)


# -- by sha256 ---------------------------------------------------------------------------------------------------------


def _deep(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.fleet.sound
    for install in evidence.plan.installs:
        if not install.sums:
            continue
        well = fleet.only(lambda facts, entry=install.entry: entry not in bad_installs(facts))  # type: ignore[misc]
        for said, nodes in well.by_value(f"software.differs.{install.entry}").items():
            unread = [line.partition(": FAILED")[0] for line in said.splitlines() if line.endswith("open or read")]
            paths = [line.partition(": FAILED")[0] for line in said.splitlines() if not line.endswith("open or read")]
            if unread:
                yield Found(
                    "error",
                    install.entry,
                    short(f"cannot be read: {', '.join(unread)}"),
                    "files that can be hashed",
                    f"`ls -l` of them in {install.root} on the node; `envmgr verify {install.entry}` looks at the prefix itself",
                    nodes,
                )
            if not paths:
                continue
            everywhere = set(nodes) == set(well.nodes)
            yield Found(
                "error",
                install.entry,
                short(f"other content: {', '.join(paths)}"),
                "the sha256 of its manifest",
                f"`envmgr verify {install.entry}` looks at the prefix itself"
                if everywhere
                else "other nodes read the right content: an old copy, or a cache of this node? mount the prefix again there",
                nodes,
            )
        unable = well.only(lambda facts: "software.unhashed" in facts)
        for said, nodes in unable.by_value("software.unhashed").items():
            yield Found(
                "warning",
                install.entry,
                short(f"not hashed: {said or 'sha256sum'} cannot be used there"),
                f"{len(install.sums)} files hashed",
                "on the node: `sha256sum </dev/null`: is coreutils whole?",
                nodes,
            )
        if nodes := well.only(
            lambda facts, entry=install.entry: (
                f"software.hashed.{entry}" not in facts and "software.unhashed" not in facts
            )  # type: ignore[misc]
        ).nodes:
            yield Found(
                "warning",
                install.entry,
                f"not hashed within {_seconds(evidence.plan)} s",
                f"{len(install.sums)} files hashed",
                "a longer --node-timeout, or fewer --modules",
                nodes,
            )


CHECK = Check(judge=judge, joins=True, probe=probe, wants=frozenset({"installs", "published", "modules"}), loads=True)
