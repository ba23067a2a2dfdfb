"""The files of a test cluster's nodes, written once per cluster; node.sh copies them into each node's own /etc."""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers.cluster.nfs import nfsfuse
from tests.helpers.places import ROOT as PROJECT

NETWORK = "10.77.0"
PREFIX = Path("/cluster/sw")
USERS = {"rsw": 2000, "alice": 2001}
# Folders that a node does not share with the host: its own, empty ones.
HIDDEN = (Path("/root"), Path("/mnt"))
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"}

# UsePAM no: no session daemons; keys outside of the homes, so that a hung home does not stop a login.
_SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/keys/%u
PasswordAuthentication no
UsePAM no
PermitRootLogin yes
MaxStartups 1000
MaxSessions 1000
UseDNS no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp /usr/lib/openssh/sftp-server
"""

# proctrack/linuxproc and cgroup/v1: no cgroup of the host is touched. config_overrides: nodes claim more than there is.
_SLURM = """\
ClusterName=testbed
SlurmctldHost=login
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/var/spool/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmdTimeout=30
UnkillableStepTimeout=20
NodeName=c[1-{nodes}] CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=30 State=UP
"""

# NFSv3 without locks: what the FUSE client (libnfs) speaks.
_GANESHA = """\
NFS_CORE_PARAM { Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = None; mount_path_pseudo = true; }
NFSv4 { Graceless = true; }
LOG { Default_Log_Level = EVENT; }
EXPORT {
  Export_Id = 1; Path = /export/sw; Pseudo = /export/sw; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
  Protocols = 3; Transports = TCP; FSAL { Name = VFS; }
}
"""


def addresses(compute: Sequence[str]) -> dict[str, str]:
    """Node -> address. Every cluster has the same ones: each lives in a network namespace of its own."""
    fixed = {"fs1": f"{NETWORK}.10", "login": f"{NETWORK}.1"}
    return fixed | {name: f"{NETWORK}.{100 + i}" for i, name in enumerate(compute, start=1)}


def write_files(folder: Path, compute: Sequence[str], share: str, mount_options: str) -> None:
    """Lay out `folder`: settings, etc/, hostkeys/, home/, roothome/, sbin/, export/sw, and empty pids/, log/, root/."""
    for name in ("pids", "log", "root", "sbin", "etc/ssh/keys", "etc/slurm", "etc/munge", "etc/ganesha"):
        (folder / name).mkdir(parents=True)
    address = addresses(compute)
    _settings(folder, address, share, mount_options)
    _accounts(folder / "etc")
    _ssh(folder, address)
    _homes(folder)
    etc = folder / "etc"
    hosts = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in address.items())]
    (etc / "hosts").write_text("\n".join(hosts) + "\n")
    (etc / "slurm/slurm.conf").write_text(_SLURM.format(nodes=len(compute)))
    (etc / "slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (etc / "slurm/plugstack.conf").write_text("")
    (etc / "ganesha/ganesha.conf").write_text(_GANESHA)
    key = etc / "munge/munge.key"
    key.write_bytes(secrets.token_bytes(128))
    _own(key, "munge", 0o400)
    (folder / "export/sw").mkdir(parents=True)
    _own(folder / "export/sw", "rsw", 0o755)
    shutil.copy(Path(__file__).with_name("share.sh"), folder / "sbin/cluster-share")
    (folder / "sbin/cluster-share").chmod(0o755)
    if share == "nfs":
        shutil.copy(nfsfuse(), folder / "sbin/nfsfuse")


def _settings(folder: Path, address: Mapping[str, str], share: str, mount_options: str) -> None:
    words = {"SHARE": share, "PREFIX": str(PREFIX), "MOUNT_OPTIONS": mount_options}
    plain = "".join(f"{name}={shlex.quote(value)}\n" for name, value in words.items())
    (folder / "etc/cluster-share").write_text(plain)
    measured = [Path(os.environ["ENVMGR_COVERAGE"])] if "ENVMGR_COVERAGE" in os.environ else []  # by tools/coverage
    lists = {"HIDDEN": HIDDEN, "BINDS": _visible(), "SHARED": measured}
    arrays = "".join(f"{name}=({shlex.join(map(str, paths))})\n" for name, paths in lists.items())
    nodes = " ".join(f"[{name}]={ip}" for name, ip in address.items())
    (folder / "settings").write_text(f"{plain}{arrays}GATEWAY={NETWORK}.254\ndeclare -A ADDRESS=({nodes})\n")


def _visible() -> list[Path]:
    """What nodes must see of the host to run this project with this Python, wherever it lies; the outer before the inner."""
    named = {PROJECT, Path(sys.prefix), Path(sys.base_prefix)}
    paths = named | {path.resolve() for path in named}  # links lead to an interpreter by either name
    return sorted(paths - {Path("/usr"), Path("/usr/local"), Path("/")})


def _accounts(etc: Path) -> None:
    """The host's accounts and ours. sshd without PAM takes a password that begins with `!` for a locked account."""
    ours = [f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash" for name, uid in USERS.items()]
    groups = [f"{name}:x:{uid}:" for name, uid in USERS.items()]
    for file, lines in (("passwd", ours), ("group", groups)):
        (etc / file).write_text("\n".join([*_others(file), *lines]) + "\n")
    shadow = [f"{line.split(':')[0]}:*:19000:0:99999:7:::" for line in _others("shadow")]
    (etc / "shadow").write_text("\n".join([*shadow, *(f"{name}:*:19000:0:99999:7:::" for name in USERS)]) + "\n")
    (etc / "shadow").chmod(0o640)


def _others(file: str) -> list[str]:
    """The lines of a file in the host's /etc that do not clash with our users."""
    fields = (line.split(":") for line in Path("/etc", file).read_text().splitlines() if line)
    ids = {str(uid) for uid in USERS.values()}
    return [":".join(f) for f in fields if f[0] not in USERS and (file == "shadow" or f[2] not in ids)]


def _ssh(folder: Path, address: Mapping[str, str]) -> None:
    (folder / "hostkeys").mkdir()
    _keygen(folder / "id", "testbed")
    known = []
    for name, ip in address.items():
        _keygen(folder / "hostkeys" / name, name)
        kind, key, _ = (folder / f"hostkeys/{name}.pub").read_text().split()
        known.append(f"{name},{ip} {kind} {key}\n")
    ssh = folder / "etc/ssh"
    (ssh / "ssh_known_hosts").write_text("".join(known))
    (ssh / "sshd_config").write_text(_SSHD)
    for user in ("root", *USERS):
        shutil.copy(folder / "id.pub", ssh / "keys" / user)


def _keygen(path: Path, comment: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], check=True)


def _homes(folder: Path) -> None:
    """One home for all nodes, as a cluster has; root's is each node's own. All start with the distribution's files."""
    skeleton = {"bashrc": Path("/etc/skel/.bashrc"), "profile": Path("/etc/skel/.profile")}
    roots = {name: Path(f"/usr/share/base-files/dot.{name}") for name in skeleton}
    for user in ("root", *USERS):
        home = folder / "roothome" if user == "root" else folder / "home" / user
        (home / ".ssh").mkdir(parents=True)
        shutil.copy(folder / "id", home / ".ssh/id_ed25519")
        for name, source in (roots if user == "root" else skeleton).items():
            if source.exists():
                shutil.copy(source, home / f".{name}")
        for path in (home, *home.rglob("*")):
            uid = USERS.get(user, 0)
            os.chown(path, uid, uid)
        home.chmod(0o711 if user == "root" else 0o755)
        (home / ".ssh").chmod(0o700)


def _own(path: Path, user: str, mode: int) -> None:
    uid = USERS[user] if user in USERS else pwd.getpwnam(user).pw_uid
    gid = USERS[user] if user in USERS else pwd.getpwnam(user).pw_gid
    os.chown(path, uid, gid)
    path.chmod(mode)
