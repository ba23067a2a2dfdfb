"""Places that a user's programs need on a node: for temporary files, for shared memory, and the home.

In every shell and job, as the account whose it is: /tmp and /dev/shm can be written (without shared memory Python's multiprocessing,
PyTorch's DataLoader and MPI fail); so can the folders that TMPDIR, XDG_RUNTIME_DIR and some twenty variables of caches name, which
jobs inherit from shells of a node that has them; the home is there and can be written, and what of it is kept elsewhere (~/.cache) is
there. The folder for temporary files has room, and programs in it start where they do on the other nodes. Files that variables name (certificates) and compilers (CC) are there, and HOME is the account's. The home is that of the other nodes, where most
share one; it, SCRATCH, WORK, /var/tmp and /dev/shm are not mounted noexec on one node alone (the home on all: a note); /var, /tmp and
other places that are written to are not mounted read-only where they are not on the other nodes, as a file system is after an error of
its disk, and SlurmdSpoolDir is not at all: no job starts then; /dev/fd and the like are there; /dev/shm is as large as that of most.
Lmod's own folders in the
home are the user's: in one that belongs to somebody else `module save` says that it saved, and saves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from envmgr.audit.causes import set_by
from envmgr.audit.compare.between_nodes import QUORUM, as_on, compare
from envmgr.audit.model import Check, Evidence, Found, Row, scripts
from envmgr.probe.model import Fleet, ShellAccount, ShellContext, number_in
from envmgr.probe.shell import context_key
from envmgr.system.modes import as_user, ask_about_way, give_back, owner_enters, word
from envmgr.system.shelltext import quote
from envmgr.wording import size_text


def judge(evidence: Evidence) -> Iterator[Row]:
    found = [
        each for context, account, fleet in evidence.contexts() for each in _all(context, account, fleet, evidence)
    ]
    yield from found
    yield from _of_the_node(evidence)


_DEVICES = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 - are told of
_IN_HOME = frozenset({".lmod.d", ".config", ".cache", ".local", ".conda"})  # as in context.sh
_SMALL, _PART = 64 << 10, 8  # KiB of shared memory that are few anywhere; a node has this part of what its like have


def _of_the_node(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.looked("places")
    for lines, nodes in fleet.by_value("places.devices").items():
        for device in lines.splitlines():
            hint = (
                f"on the node: `ln -s {_DEVICES[device]} {device}`"
                if device in _DEVICES
                else f"what made /dev of the node without {device}?"
            )
            yield Found("error", device, "is not there", "what programs and shells (`<(…)`) open", hint, nodes)
    for said, nodes in fleet.by_value("places.proc").items():
        yield Found("error", "/proc", said, "a /proc", "on the node: `mount -t proc proc /proc`", nodes)
    yield from _read_only(fleet, evidence)
    sizes = {
        node: size
        for node in fleet.nodes
        if (size := number_in(evidence.fleet.own.get(node, {}), "places.shm_kib")) is not None
    }
    usual = median(sizes.values()) if len(sizes) >= QUORUM else 0
    for node, size in sizes.items():
        if size < _SMALL or size * _PART < usual:
            yield Found(
                "warning",
                _SHM,
                f"has room for {size_text(size << 10)}",
                f"{size_text(int(usual) << 10)}, as the others" if usual else "some GB",
                "on the node: `mount -o remount,size=50% /dev/shm`, and its line in /etc/fstab; is something mounted over it?",
                (node,),
            )


def _read_only(fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """A root that is read-only on all nodes, as on those without disks, is as it should be; Slurm's own folder is not."""
    points: dict[str, dict[str, list[str]]] = {}  # mount point -> what lies there -> nodes
    for group in fleet.groups:
        for line in group.facts.get("places.readonly", "").splitlines():
            point, _, paths = line.partition(" ")
            points.setdefault(point, {}).setdefault(paths, []).extend(group.nodes)
    for point, lies in points.items():
        having = {node: paths for paths, nodes in lies.items() for node in nodes}
        modes = {"ro": tuple(having), "rw": tuple(node for node in fleet.nodes if node not in having)}
        compared = compare({mode: nodes for mode, nodes in modes.items() if nodes}, evidence)
        accused = {node for of in compared.outliers if of.value == "ro" for node in of.nodes}
        for paths, nodes in lies.items():
            stops = "SlurmdSpoolDir" in paths.split()
            if wrong := [node for node in nodes if stops or node in accused]:
                what = (
                    "mounted read-only: SlurmdSpoolDir lies there, and no job starts" if stops else "mounted read-only"
                )
                yield Found(
                    "error",
                    point,
                    what,
                    "a place that can be written",
                    f"on the node: `mount -o remount,rw {quote(point)}`; was it an error of the disk? `dmesg` tells, and `fsck` comes first then",
                    wrong,
                )


def _all(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    key = f"{context_key(context, account)}places."
    user, where = evidence.account(account), evidence.shell(context, account)
    for name in fleet.names(f"{key}of."):
        for folder, nodes in fleet.by_value(f"{key}of.{name}").items():
            mend = f": make the folder on the node, for {user}, or take that away"
            unknown = f"which start-up file, or which prolog of Slurm, sets it?{mend}"
            if context.export == "ALL":
                unknown = (
                    f"jobs inherit it from the submitting shell: TaskProlog can say `unset {name}`, or {name} be set "
                    "where the folder is"
                )
            hint = set_by(nodes, context, account, name, f" sets it{mend}", unknown)
            yield Found(
                "error" if name == "TMPDIR" else "warning",
                where,
                f"{user} cannot write in {folder}, which is {name}",
                "a folder that is there",
                hint,
                nodes,
            )
    yield from _named(context, account, fleet, evidence)
    for home, nodes in fleet.by_value(f"{key}other_home").items():
        yield Found(
            "warning",
            where,
            f"HOME is {home or 'empty'}",
            f"the home of {user}'s account",
            set_by(nodes, context, account, "HOME", " sets it: take that line away", "which start-up file sets HOME?"),
            nodes,
        )
    for name, folder, what in (
        ("tmp", _TMP, "a place for temporary files"),
        ("shm", _SHM, "shared memory that users can have"),
    ):
        for nodes in fleet.by_value(f"{key}{name}").values():
            yield Found(
                "error",
                where,
                f"{user} cannot write in {folder}",
                what,
                f"on the node: `mount -o remount,mode=1777 {folder}` where it is a tmpfs, else `systemd-tmpfiles --create --prefix={folder}`; where fstab has a mode for it, mend that, too",
                nodes,
            )
    for of in compare(fleet.by_value(f"{key}home_is"), evidence).outliers:
        yield Found(
            "warning",
            where,
            f"the home of {user} is another folder than {as_on(of.others).removeprefix('as ')} ({of.value.rpartition(' ')[2]})",
            "the home that nodes share",
            "on the node: `findmnt -T ~`: mount the file system of homes; what lies over it, `umount`",
            of.nodes,
        )
    for said, nodes in fleet.by_value(f"{key}full").items():
        yield Found(
            "error",
            where,
            f"{user} cannot write into the folder for temporary files: {said.rpartition(': ')[2]}",
            "room for temporary files",
            "on the node: `df -h /tmp`, `df -i /tmp` and `du -xsh /tmp/*`: what fills it? (or TMPDIR, where that is set)",
            nodes,
        )
    for of in compare(fleet.by_value(f"{key}runs"), evidence).outliers:
        if of.value == "no":
            yield Found(
                "warning",
                where,
                "programs in the folder for temporary files do not start: it is mounted noexec",
                f"programs that start, {as_on(of.others)}",
                "on the node: `mount -o remount,exec /tmp`, and its line in /etc/fstab; or set TMPDIR to another folder",
                of.nodes,
            )
    yield from _noexec(context, account, fleet, evidence)
    for said, nodes in fleet.by_value(f"{key}home").items():
        yield Found(
            "warning",
            where,
            f"the home of {user} {said}",
            "a home that can be written",
            "is the file system of homes mounted on the node, and not read-only?",
            nodes,
        )
    for lines, nodes in fleet.by_value(f"{key}folders").items():
        for line in lines.splitlines():
            if line.startswith("-> "):
                target, _, link = line.removeprefix("-> ").rpartition(" ")
                yield Found(
                    "warning",
                    f"~{user}",
                    f"{link} is a link to {target}, which is not there",
                    "a folder that is there",
                    f"on the node: is the file system of {target} mounted? make or mount it there",
                    nodes,
                )
                continue
            owner, _, folder = line.partition(" ")
            owner, _, how = owner.partition(":")
            yield Found(
                "warning",
                f"~{user}",
                f"{user} cannot write in {folder}, which belongs to {owner}",
                "folders in which Lmod keeps collections and caches",
                _writable(folder, owner, how, user),
                nodes,
            )


def _writable(folder: str, owner: str, how: str, user: str) -> str:
    """How `user` can write again in a folder of their home; `how` is empty where that is not theirs to have."""
    if how not in ("home", "below"):
        return ask_about_way(folder)
    if owner == user:
        return f"`{owner_enters(user, folder)}`"
    if how == "home" and (name := folder.rpartition("/")[2]) in _IN_HOME:
        return f"`{give_back(user, name, tree=True)}`: its owner must write and enter it"
    away = as_user(user, f"mv -T {word(folder)} {word(f'{folder}.old')}")
    return f"`{away}`: programs make it again; what {user} needs of it, {user} copies back"


def _noexec(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Places that are mounted so that no program of theirs starts; on all nodes, that is the site's choice."""
    key, where = f"{context_key(context, account)}places.noexec.", evidence.shell(context, account)
    told: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name in fleet.names(key):
        values = fleet.by_value(f"{key}{name}", default="")
        kinds = fleet.by(lambda facts, name=name: "noexec" if f"{key}{name}" in facts else "exec")  # type: ignore[misc]
        for of in compare(kinds, evidence).outliers:
            for point, nodes in values.items():
                if point and (wrong := tuple(node for node in nodes if node in of.nodes)):
                    told.setdefault((point, wrong, of.others), []).append(name)
        if name == "HOME" and len(values) == 1:
            point, nodes = next(iter(values.items()))
            yield Found(
                "note",
                where,
                f"programs in HOME do not start: {point} is mounted noexec",
                "homes in which users' own programs start",
                f"is it meant? else `mount -o remount,exec {quote(point)}`, and its line in /etc/fstab",
                nodes,
            )
    for (point, nodes, others), names in told.items():
        yield Found(
            "warning",
            where,
            f"programs in {', '.join(names)} do not start: {point} is mounted noexec",
            f"programs that start, {as_on(others)}",
            f"on the node: `mount -o remount,exec {quote(point)}`, and its line in /etc/fstab",
            nodes,
        )


def _named(context: ShellContext, account: ShellAccount, fleet: Fleet, evidence: Evidence) -> Iterator[Row]:
    """Files and programs that variables name, and that are not there."""
    where = evidence.shell(context, account)
    for kind, what in (("file", "a file that can be read"), ("program", "a program that is there")):
        key = f"{context_key(context, account)}places.{kind}."
        for name in fleet.names(key):
            for value, nodes in fleet.by_value(f"{key}{name}").items():
                known = " sets it: take that line away, or install what it names"
                yield Found(
                    "warning",
                    where,
                    f"{name} is {value}, which is not there",
                    what,
                    set_by(nodes, context, account, name, known, f"which start-up file sets {name}?"),
                    nodes,
                )


CHECK = Check(judge=judge, probe=scripts(__file__, "context", "node"), joins=True)
