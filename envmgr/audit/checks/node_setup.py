"""Each file of node-setup, and its lines in files of the system, are what `envmgr node-setup` would write now.

If one of them is lost or was changed, shells of one kind, or jobs, have no modules on that node, or other ones: the
profile file of login shells, the lines for zsh, csh and bash over ssh, the task prolog, the hook of Lmod. The check
compares all of them by content. A file that an earlier envmgr wrote, or that site.yaml would change now, is a warning.
`envmgr node-setup --apply` fixes all of that. Modes and links are compared in the inventory.

Where `policies.unsigned` is `refuse` there is to be no link of Jupyter's kernels, for nobody checks what Jupyter reads
through it.

A node that has none of them was never set up, and is no finding here: the check `contexts` tells if its shells have no
modules. Nodes without systemd need no units. The list of signers is a part of the check `signature`.
"""

from __future__ import annotations

from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.catalog.site import Site
from envmgr.modules.node_paths import FISH_COMPLETION, HOME, SIGNERS
from envmgr.modules.nodesetup import BEGIN, END, NodeFile, NodeFiles, node_files
from envmgr.probe.model import grouped
from envmgr.system.files import sha256_bytes
from envmgr.system.shelltext import assign, script_text

_UNITS = "/etc/systemd/system"


def probe(plan: AuditPlan) -> ProbeTexts:
    files = _files(plan.site)
    wanted = [("/", file) for file in files.files if not file.optional and file.path != SIGNERS]
    wanted += [(file.path.rpartition("/")[0], file) for file in files.files if file.optional]
    wanted += [(_UNITS, service.unit) for service in files.linked]
    wanted += [each for timer in files.timers for each in ((_UNITS, timer.service), ("/etc/cron.d", timer.cron))]
    bash, _, csh = files.blocks
    given = assign(
        node_setup_files="\n".join(f"{folder} {_sum(file)} {file.path}" for folder, file in wanted),
        node_setup_kernels=files.kernels.path,
        node_setup_target=files.kernels.target if files.kernels.refused else "",
        node_setup_begin=BEGIN,
        node_setup_end=END,
        node_setup_bash=bash.text,
        node_setup_csh=csh.text,
    )
    return {"node": given + script_text(__file__, "node.sh")}


def _files(site: Site) -> NodeFiles:
    return node_files(site, None if site.signing is None else "")


def _sum(file: NodeFile) -> str:
    """Return the sha256 of a file, without the highest signed flip, which differs each time."""
    lines = file.text.splitlines(keepends=True)
    return sha256_bytes("".join(line for line in lines if not line.startswith("signed_floor=")).encode())


def judge(evidence: Evidence) -> Rows:
    files = _files(evidence.site)
    minor = {service.unit.path for service in files.linked}
    minor |= {f"{HOME}/completion.bash", f"{HOME}/_envmgr", FISH_COMPLETION}  # users lose no more than words after Tab
    minor |= {file.path for timer in files.timers for file in (timer.service, timer.cron)}
    told = evidence.looked("node_setup").by_line("node_setup.faults").items()
    faults = ((*line.partition(" ")[::2], nodes) for line, nodes in told)
    together = grouped(((fault, nodes, path in minor), path) for fault, path, nodes in faults)
    for (fault, nodes, is_minor), paths in together.items():
        yield evidence.say(fault, nodes, severity="warning" if is_minor else None, paths=" ".join(paths))


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"published"}))
