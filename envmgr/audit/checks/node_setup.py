"""Each file of node-setup, and its lines in files of the system, are what `envmgr node-setup` would write now.

If one of them is lost or was changed, shells of one kind, or jobs, have no modules on that node, or other ones: the
profile file of login shells, the lines for zsh, csh and bash over ssh, the task prolog, the hook of Lmod. The check
compares all of them by content, and the files also by what users may do with them. A file that an earlier envmgr wrote,
or that site.yaml would change now, is a warning. `envmgr node-setup --apply` fixes all of that.

The link of Jupyter's kernels counts if node-setup made it: what a site has there stays. Where `policies.unsigned` is
`refuse` there is to be none, for nobody checks what Jupyter reads through it.

A node that has none of them was never set up, and is no finding here: the check `contexts` tells if its shells have no
modules. Nodes without systemd need no units. The list of signers is a part of the check `signature`. What the lost file
leads to in the shells that read it is not reported.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.catalog.site import Site
from envmgr.modules.node_paths import FISH_COMPLETION, HOME, SIGNERS
from envmgr.modules.nodesetup import BEGIN, END, NodeFile, NodeFiles, node_files
from envmgr.report import Severity
from envmgr.system.files import sha256_bytes
from envmgr.system.shelltext import assign, script_text


def probe(plan: AuditPlan) -> ProbeTexts:
    files = _files(plan.site)
    kinds = ("optional" if f.optional else "settings" if f.path.endswith("/settings") else "file" for f in files.files)
    whole = [*zip(kinds, files.files, strict=True)]
    whole += [("unit", service.unit) for service in files.linked]
    whole += [each for timer in files.timers for each in (("unit", timer.service), ("cron", timer.cron))]
    units = [f"{service.link} ../{service.unit.path.rpartition('/')[2]}" for service in files.linked]
    bash, _, csh = files.blocks
    given = assign(
        node_setup_files="\n".join(_line(kind, file) for kind, file in whole if file.path != SIGNERS),
        node_setup_units="\n".join(units),
        node_setup_kernels=files.kernels.path,
        node_setup_target=files.kernels.target,
        node_setup_refused="yes" if files.kernels.refused else "",
        node_setup_begin=BEGIN,
        node_setup_end=END,
        node_setup_bash=bash.text,
        node_setup_csh=csh.text,
    )
    return {"node": given + script_text(__file__, "node.sh")}


def _files(site: Site) -> NodeFiles:
    return node_files(site, None if site.signing is None else "")


def _line(kind: str, file: NodeFile) -> str:
    """Return a line for the shell text. The highest signed flip differs each time, and is left out."""
    lines = file.text.splitlines(keepends=True)
    text = "".join(line for line in lines if kind != "settings" or not line.startswith("signed_floor="))
    return f"{kind} {sha256_bytes(text.encode())} {5 if file.mode == '755' else 4} {file.path}"


def judge(evidence: Evidence) -> Rows:
    files = _files(evidence.site)
    minor = {path for service in files.linked for path in (service.unit.path, service.link)}
    minor |= {f"{HOME}/completion.bash", f"{HOME}/_envmgr", FISH_COMPLETION}  # users lose no more than words after Tab
    minor |= {files.kernels.path, *(file.path for timer in files.timers for file in (timer.service, timer.cron))}
    together: dict[tuple[str, tuple[str, ...], bool], list[str]] = {}
    for line, nodes in evidence.looked("node_setup").by_line("node_setup.faults").items():
        fault, _, path = line.partition(" ")
        together.setdefault((fault, nodes, path in minor and fault != "unchecked"), []).append(path)
    for (fault, nodes, is_minor), paths in together.items():
        severity: Severity | None = "warning" if is_minor else None
        yield evidence.say(fault, nodes, severity=severity, paths=" ".join(paths))


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
