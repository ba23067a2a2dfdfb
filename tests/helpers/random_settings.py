"""Drifts of chance in what a node is told by accounts, limits, sshd's configuration and Slurm's rows."""

from __future__ import annotations

import random
from shlex import quote

from tests.helpers.drift_places import Places
from tests.helpers.put_and_back import RandomDrift
from tests.helpers.user_actions import USER

_RELOAD = "kill -HUP $(cat /run/sshd.pid) || /usr/sbin/sshd; sleep 1"
_NEW = "/mnt/new"
# What PAM and prlimit call a limit: a word of what bash calls it.
_LIMITS = {
    "as": "virtual|address|-v",
    "core": "-c",
    "cpu": "-t",
    "data": "seg|-d",
    "fsize": "size|-f",
    "locks": "-x",
    "memlock": "locked|-l",
    "msgqueue": "queues|-q",
    "nofile": "files|descriptors|-n",
    "nproc": "processes|-u",
    "rtprio": "priority|-r",
    "sigpending": "signals|-i",
    "stack": "-s",
}
# No node is `down`: by ReturnToService it would be back at once.
_STATES = {"node": ("drain", "fail"), "partition": ("down", "drain", "inactive")}
_BACK = {"node": "resume", "partition": "up"}
_OTHER = {"YES": "NO", "NO": "YES", "ALL": "rsw", "UNLIMITED": "1", "NONE": "1"}
Nodes = tuple[str, ...]


def variable_name(chance: random.Random, places: Places) -> str:
    return chance.choice(chance.choice((places.variables, places.asked)))


def first_line(line: str, file: str) -> str:
    return f"{{ echo {quote(line)}; cat {quote(file)}; }} >{_NEW}; cat {_NEW} >{quote(file)}; rm {_NEW}"


def account(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    number, value, named = chance.choice(
        (
            (3, "4001", "uid|uids|4001"),
            (4, "100", "gid|group|groups|100"),
            (6, f"/home/{USER}.old", "home"),
            *((7, shell, f"shell|{shell}") for shell in ("/bin/sh", "/bin/false", "/bin/ksh93")),
        )
    )
    gone = ("is gone", f'$1 != "{USER}"', "account|accounts|unknown|group|groups|exist")
    own = f'$1 == "{USER}"'
    (story, program, named), name = chance.choice(
        (
            *[((f"field {number} is {value}", f'{own} {{ ${number} = "{value}" }} 1', named), "passwd")] * 2,
            (gone, "passwd"),
            (("has a twin", f'{own} {{ $1 = "games2"; print; $1 = "{USER}" }} 1', "games2|uid|uids"), "passwd"),
            (gone, "group"),
            (("has expired", f"{own} {{ $8 = 1 }} 1", "expired|expires|account"), "shadow"),
            (("needs another password", f"{own} {{ $3 = 0 }} 1", "password|expired|account"), "shadow"),
        )
    )
    file = f"/etc/{name}"
    do = f"awk -F: -v OFS=: {quote(program)} {file} >{_NEW}; cat {_NEW} >{file}; rm {_NEW}"
    return RandomDrift("account", f"{file}: {USER} {story}", (file, f"{USER} {named}"), do, keeps=(file,))


def limit(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    name = chance.choice([limit for limit in places.limits if limit in _LIMITS])
    value, named = chance.choice((8, 128, 4096, 100000)), f"limit|limits|ulimit {name}|{_LIMITS[name]}"
    if chance.random() < 0.5:
        file = f"/etc/security/limits.d/{chance.choice(('10', '90'))}-{chance.choice(('site', 'slurm', 'mpi'))}.conf"
        text = f"{chance.choice(('*', USER, f'@{USER}'))} {chance.choice(('hard', 'soft', '-'))} {name} {value}"
        return RandomDrift("limit", f"{file}: {text}", (file, named), f"echo {quote(text)} >{file}", keeps=(file,))
    daemon, old = chance.choice(("sshd", "slurmd")), "/mnt/kept/old-limit"
    process = f"$(pidof {daemon} | tr ' ' '\\n' | sort -n | head -n 1)"
    put = f"prlimit -p {process} --noheadings --raw -o SOFT --{name} >{old}; prlimit -p {process} --{name}={value}:"
    back = f"prlimit -p {process} --{name}=$(cat {old}):; rm {old}; pidof {daemon} >/dev/null || /usr/sbin/{daemon}"
    return RandomDrift("limit", f"{daemon} has {name} {value}", (f"{daemon} {name}", named), put, back)


def sshd(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    known = dict(line.split(" ", 1) for line in places.sshd if " " in line)
    new = {
        word: {"yes": "no", "no": "yes"}.get(value, "1" if value.isdigit() else value.split(",")[-1])
        for word, value in known.items()
    }
    word = chance.choice([word for word in known if known[word] != new[word]])
    others = (
        "AllowUsers root",
        f"DenyUsers {USER}",
        "ForceCommand /bin/sh",
        f"SetEnv {variable_name(chance, places)}=1",
        "AllowGroups wheel",
    )
    line, file = (
        chance.choice((f"{word} {new[word]}", f"{word} {new[word]}", chance.choice(others))),
        "/etc/ssh/sshd_config",
    )
    do = f"{first_line(line, file)}; /usr/sbin/sshd -t; {_RELOAD}"
    return RandomDrift("sshd", f"{file}: {line}", (file, f"sshd|ssh {line.split()[0]}"), do, _RELOAD, keeps=(file,))


def slurm_row(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    """A row of nodes; one of a partition is about all nodes. What Slurm refuses is drawn again."""
    what = chance.choice(sorted(places.rows))
    row, own = places.rows[what], places.rows["node"]["NodeName"]
    nodes = tuple(node for node in some if node != "login") or (own,)
    rows = [f"nodename={node}" for node in nodes] if what == "node" else [f"partitionname={row['PartitionName']}"]
    field = chance.choice(list(row))
    old = "" if row[field] == "(null)" else row[field]
    new = _OTHER.get(old, str(1 + (old == "1")) if old[-1:].isdigit() else "old")
    names = f"{what} {field}"
    if chance.random() < 0.4:
        field, old, new = "State", _BACK[what], chance.choice(_STATES[what])
        names = f"{what}|slurm|state|scontrol {new}|{new}ed|{new}ing|{what}{new}|available"
        new += " reason=disk" * (what == "node")
    do, undo = (
        "\n".join(f"scontrol update {each} {field}={to.replace(own, each.partition('=')[2])}" for each in rows)
        for to in (new, old)
    )
    if what == "partition":
        return RandomDrift("Slurm row", do, (names,), f"set -e\n{do}", undo, at=("login",))
    return RandomDrift("Slurm row", do.replace("\n", "; "), (names,), f"set -e\n{do}", undo, nodes=nodes, at=("login",))
