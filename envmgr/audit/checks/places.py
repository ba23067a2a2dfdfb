"""Places that a user's programs need on a node: for temporary files, for shared memory, and the home.

The check looks at these in every shell and job, as the account that owns the shell:

- /tmp and /dev/shm can be written. Without shared memory Python's multiprocessing, PyTorch's DataLoader and MPI fail.
- The folders that TMPDIR, XDG_RUNTIME_DIR and some twenty variables of caches name can be written. Jobs inherit these
  variables from shells of a node that has the folders.
- The home is there and can be written, and its parts that are kept elsewhere (~/.cache) are there. Where most nodes
  share one home, it is that of the other nodes.
- The folder for temporary files has room.
- Files that variables name (certificates) and compilers (CC) are there, and HOME is the account's.
- The home, TMPDIR, SCRATCH, WORK, /tmp, /var/tmp and /dev/shm are not mounted noexec on only one node. A home that is noexec on all
  nodes is a note.
- Lmod's own folders in the home are the user's. If one belongs to another user, `module save` says that it saved, and
  saves nothing.

The check looks at these on every node:

- /var, /tmp and other places that are written to are not mounted read-only where they are writable on the other nodes.
  A file system becomes read-only after an error of its disk.
- SlurmdSpoolDir is never read-only, because no job starts then.
- /dev/fd and the like are there, and /dev/shm is as large as that of most nodes.
"""

from __future__ import annotations

from statistics import median

from envmgr.audit.compare.between_nodes import as_on, compare
from envmgr.audit.model import QUORUM, AskedShell, Check, Evidence, Rows, scripts
from envmgr.audit.table import Steps
from envmgr.probe.model import Fleet, number_in
from envmgr.report import Severity
from envmgr.system.modes import as_user, ask_about_way, give_back, owner_enters, word
from envmgr.wording import size_text


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        in_job = shell.context.export == "ALL"
        for name in shell.names("places.of."):
            for folder, nodes in shell.by_value(f"places.of.{name}").items():
                row = "no_folder_in_a_job" if in_job else "no_folder"
                severity: Severity = "error" if name == "TMPDIR" else "warning"
                yield evidence.say(row, nodes, shell, severity, folder=folder, name=name)
        yield from _noexec(shell, evidence)
        for line, nodes in shell.by_line("places.folders").items():
            if line.startswith("-> "):
                target, _, link = line.removeprefix("-> ").rpartition(" ")
                yield evidence.say("dead_link", nodes, shell, link=link, target=target)
            else:
                owner, _, folder = line.partition(" ")
                owner, _, how = owner.partition(":")
                hint = _writable(folder, owner, how, shell.user)
                yield evidence.say("closed", nodes, shell, folder=folder, owner=owner, hint=hint)
    yield from _of_the_node(evidence)


_IN_HOME = frozenset({".lmod.d", ".config", ".cache", ".local", ".conda"})  # as in context.sh
_SMALL, _PART = 64 << 10, 8  # KiB of shared memory that are too few anywhere; 1/8 of the usual size is the least


def _of_the_node(evidence: Evidence) -> Rows:
    fleet = evidence.looked("places")
    for device, nodes in fleet.by_line("places.devices").items():
        made = evidence.table.words.get(device)
        run = f"ln -s {made} {device}" if made else ""
        hint = Steps(run=run, look="" if made else f"what made /dev of the node without {device}?")
        yield evidence.say("device", nodes, device=device, hint=hint)
    yield from _read_only(fleet, evidence)
    own = evidence.fleet.own
    sizes = {node: size for node in fleet.nodes if (size := number_in(own.get(node, {}), "places.shm_kib")) is not None}
    usual = int(median(sizes.values())) if len(sizes) >= QUORUM else 0
    for node, size in sizes.items():
        if size < _SMALL or size * _PART < usual:
            expected = f"{size_text(usual << 10)}, as the others" if usual else "some GB"
            yield evidence.say("little_shared_memory", [node], size=size_text(size << 10), usual=expected)


def _read_only(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield places that are read-only on a node and should not be.

    A root that is read-only on all nodes, as on nodes without disks, is no fault. Slurm's own folder always is.
    """
    points: dict[str, dict[str, tuple[str, ...]]] = {}  # mount point -> what lies there -> nodes
    for line, nodes in fleet.by_line("places.readonly").items():
        point, _, paths = line.partition(" ")
        points.setdefault(point, {})[paths] = nodes
    for point, lies in points.items():
        having = {node: paths for paths, nodes in lies.items() for node in nodes}
        modes = {"ro": tuple(having), "rw": tuple(node for node in fleet.nodes if node not in having)}
        compared = compare({mode: nodes for mode, nodes in modes.items() if nodes}, evidence)
        accused = {node for of in compared.outliers if of.value == "ro" for node in of.nodes}
        for paths, nodes in lies.items():
            stops = "SlurmdSpoolDir" in paths.split()
            if wrong := [node for node in nodes if stops or node in accused]:
                what = ": SlurmdSpoolDir lies there, and no job starts" if stops else ""
                yield evidence.say("read_only", wrong, point=point, stops=what)


def _writable(folder: str, owner: str, how: str, user: str) -> Steps:
    """Return the steps that let `user` write again in a folder of their home.

    `how` is empty if the folder is not theirs to have.
    """
    if how not in ("home", "below"):
        return Steps(look=ask_about_way(folder))
    if owner == user:
        return Steps(run=owner_enters(user, folder))
    if how == "home" and (name := folder.rpartition("/")[2]) in _IN_HOME:
        return Steps(run=give_back(user, name, tree=True), look="its owner must write and enter it")
    away = as_user(user, f"mv -T {word(folder)} {word(f'{folder}.old')}")
    return Steps(run=away, look=f"programs make it again; what {user} needs of it, {user} copies back")


def _noexec(shell: AskedShell, evidence: Evidence) -> Rows:
    """Yield places that are mounted so that no program in them starts.

    If all nodes have them so, it is the site's choice.
    """
    told: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in shell.names("places.noexec."):
        values = shell.by_value(f"places.noexec.{name}", default="")
        there = {node for point, nodes in values.items() if point for node in nodes}
        kinds = {"noexec": tuple(there), "exec": tuple(node for node in shell.fleet.nodes if node not in there)}
        for of in compare({kind: nodes for kind, nodes in kinds.items() if nodes}, evidence).outliers:
            for point, nodes in values.items():
                if point and (wrong := tuple(node for node in nodes if node in of.nodes)):
                    told.setdefault((point, wrong, of.others), []).append(name)
        if name == "HOME" and len(values) == 1:
            point, nodes = next(iter(values.items()))
            yield evidence.say("noexec_home", nodes, shell, point=point)
    for (point, nodes, others), names in told.items():
        yield evidence.say(
            "noexec", nodes, shell, names=", ".join(names), point=point, as_on=as_on(others), against=others
        )


CHECK = Check(judge=judge, probe=scripts(__file__, "context", "node"), joins=True)
