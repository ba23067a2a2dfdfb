"""The probe: one POSIX shell script that joins the parts of all checks, and what reads its answer.

The script leaves behind what hangs: whatever may touch the prefix runs apart, with its output in a file, and is looked
at and never waited for. A process on a hung mount cannot be killed, and neither `timeout` nor `$(…)` gets away from it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from envmgr.probe.model import Facts, ProbePart, ProbePlan, ProbeStage, ShellAccount, ShellContext

GATE_SECONDS = 5  # how long a healthy prefix may take to answer once
NO_USER = "there is no user"  # how the end of a shell begins that could not be started for that
NO_USER_HINT = "give all nodes the same accounts; another user to look at is `audit: {user: …}` in site.yaml"

# An answer is lines `@key=value`, `@key|a line of a longer value` and `@~key=value` for what is the node's own. What runs
# behind a user's start-up files puts `mark` after the `@`, so that nothing which those print is taken for a fact.
_LIBRARY = r"""
put() {
  case $2 in
    *"
"*) printf '@%s%s=%s\n' "$mark" "$1" "$(printf '%s' "$2" | tr '\n' ' ')" ;;
    *) printf '@%s%s=%s\n' "$mark" "$1" "$2" ;;
  esac
}
own() { put "~$1" "$2"; }
lines() { LC_ALL=C awk -v key="$mark$1" '{ print "@" key "|" $0 }'; }
sum() { sha256sum | cut -d' ' -f1; }
as() {
  account=$1
  shift
  IFS=: read -r _ _ uid gid _ home _ <<END
$(grep "^$account:" "$who")
END
  if [ "$(id -u)" = 0 ] && [ "${uid:-0}" != 0 ]; then
    set -- setpriv --reuid "$uid" --regid "$gid" --init-groups "$@"
  fi
  set -f
  exec env -i HOME="${home:-/}" USER="$account" LOGNAME="$account" SHELL=/bin/bash LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    $(sed -n 's/^\(export  *\)\{0,1\}\([A-Za-z_][A-Za-z0-9_]*=\)"\{0,1\}\([^"[:space:]]*\)"\{0,1\}$/\2\3/p' /etc/environment 2>/dev/null) \
    SSH_CLIENT="${SSH_CLIENT:-127.0.0.1 0 22}" SSH_CONNECTION="${SSH_CONNECTION:-127.0.0.1 0 127.0.0.1 22}" "$@"
}
"""

# `as` ends in exec, hence the subshells. start NAME COMMAND…: apart, so that it can be left behind; what it writes is
# bounded. skip NAME KEY REASON: not started, and why. join SECONDS NAME…: wait for some. tell PREFIX NAME MARK KEYS: its
# facts, those that begin with the regex KEYS.
_JOBS = r"""
start() {
  job=$1
  shift
  (
    ulimit -f 16384
    (cd / && "$@") >"$tmp/$job.out" 2>"$tmp/$job.err"
    echo $? >"$tmp/$job.rc~"
    mv "$tmp/$job.rc~" "$tmp/$job.rc"
  ) </dev/null >/dev/null 2>&1 &
}
skip() {
  put "$2end" "$3"
  : >"$tmp/$1.rc"
}
join() {
  left=$(($1 * 100))
  step=1
  shift
  for job in "$@"; do
    while [ ! -e "$tmp/$job.rc" ] && [ "$left" -gt 0 ]; do
      sleep "0.0$step"
      left=$((left - step))
      [ "$step" -ge 5 ] || step=$((step + (left % 2)))
    done
  done
}
tell() {
  end=${1:-$2.}end
  if [ -e "$tmp/$2.rc" ] && [ ! -s "$tmp/$2.rc" ]; then return; fi
  if [ ! -e "$tmp/$2.rc" ]; then
    put "$end" "no end in $limit s"
    return
  fi
  sed -n -E "s/^@$3(~?)(${4:-.})/@\1$1\2/p" "$tmp/$2.out" | grep -v -E "^@${1}done="
  read -r rc <"$tmp/$2.rc"
  if [ "$rc" = 153 ]; then
    put "$end" "its start-up files print more than 8 MB"
  elif [ "$rc" != 0 ]; then
    put "$end" "exit status $rc: $(tail -n 1 "$tmp/$2.err" 2>/dev/null | cut -c1-200)"
  elif ! grep -q "^@$3done=yes" "$tmp/$2.out"; then
    put "$end" "the shell ended before the probe in it: \`exit\` or \`exec\` in a start-up file?"
  fi
}
"""

# Touching `current` makes autofs mount what is not there yet. Names come from an attribute cache for a while; opening a file
# asks the server.
_GATE = r"""
said=$(ls -d "$prefix/." 2>&1 >/dev/null)
if [ -n "$said" ]; then
  put gate "${said##*: }"
elif target=$(readlink "$prefix/current"); then
  said=$(head -c 1 "$prefix/current/generation.json" 2>&1 >/dev/null)
  real=$(cd -P "$prefix" && pwd)
  [ "$real" = "$prefix" ] || put real "$real"
  put gate ok
  put current "$target"
else
  put gate "no link $prefix/current"
fi
"""

_MAIN = r"""
mark=
own host "$(uname -n)"
own slurm_node "${SLURMD_NODENAME:-}"
own began "$(date +%s.%N)"
tmp=
trap '[ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
for base in /tmp /dev/shm /run; do
  tmp=$(mktemp -d "$base/envmgr-audit.XXXXXX" 2>/dev/null) || continue
  if echo yes 2>/dev/null >"$tmp/try" && grep -q yes "$tmp/try"; then break; fi
  rm -rf "$tmp"
  tmp=
done
if [ -z "$tmp" ]; then
  put probe "cannot write to /tmp, /dev/shm or /run"
  exit 0
fi
chmod 755 "$tmp"
find "${tmp%/*}" -maxdepth 1 -name 'envmgr-audit.*' -user "$(id -u)" -mmin +1440 -exec rm -rf {} + 2>/dev/null
own addresses "$(hostname -I 2>/dev/null || :)"
who=$tmp/who.out
secret=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
"""

# A directory service that hangs is looked at apart, too. The room is for what the login stage writes.
_WHO = r"""
start who getent passwd "$user" root
join 3 who
mkdir -m 700 "$tmp/room"
if [ "$(id -u)" = 0 ]; then chown "$(sed -n "s/^$user:[^:]*:\([0-9]*\):.*/\1/p" "$who" 2>/dev/null)" "$tmp/room" 2>/dev/null; fi
"""


# A file of its own: csh has no `.`, and takes no script in an argument with line breaks.
_CSH = """\
cat >"$tmp/context.csh" <<'ENVMGR_END'
if ( "`alias module`" =~ *LMOD_CMD* ) setenv ENVMGR_ALIAS yes
exec /bin/sh "$1"
ENVMGR_END
"""


def join_probes(
    parts_of: Iterable[ProbePart],
    plan: ProbePlan,
    *,
    stages: Sequence[ProbeStage] = ("node", "prefix", "context", "login"),
) -> str:
    """The script for the contexts and accounts of `plan`: the parts of all checks, each stage in a file of its own."""
    parts: dict[ProbeStage, list[str]] = {stage: [] for stage in ("node", "prefix", "context", "login")}
    of_login: list[str] = []
    for part in parts_of:
        for stage, text in part.probe(plan).items():
            if stage in stages:
                parts[stage].append(text)
                of_login += [part.__name__.rpartition(".")[2]] if stage == "login" else []
    limit = max(2, int(plan.site.transport.node_timeout * 0.8) - GATE_SECONDS)
    out = [_LIBRARY, _JOBS, _settings(plan), _MAIN, _WHO]
    out.append(_file("gate", _GATE, plan))
    out += [_file(stage, "".join(texts), plan) for stage, texts in parts.items()]
    out.append(f'limit={limit}\nbefore=$(date +%s%N)\nstart gate /bin/sh "$tmp/gate.sh"\njoin {GATE_SECONDS} gate\n')
    out.append("own gate_ms $((($(date +%s%N) - before) / 1000000))\n")
    out.append('if [ -e "$tmp/gate.rc" ]; then tell "" gate; else put gate hung; fi\n')
    out.append('ENVMGR_REAL=$(sed -n "s/^@real=//p" "$tmp/gate.out") start node /bin/sh "$tmp/node.sh"\n')
    jobs = ["node"]
    telling = ["tell '' node\n"]
    body = []
    if parts["prefix"]:
        jobs.append("prefix")
        body.append('start prefix /bin/sh "$tmp/prefix.sh"\n')
        telling.append("tell '' prefix\n")
    if parts["login"]:
        jobs.append("login")
        body.append(_if_known("user", "login", "login.", f'start login {_login(plan)} "$tmp/login.sh"\n', plan))
        telling.append(f"tell '' login \"$secret\" '({'|'.join(sorted(set(of_login)))})\\.'\n")
    for number, (context, account) in enumerate(_pairs(plan) if parts["context"] else ()):
        start, tell = _context(f"c{number}", context, account, plan)
        body.append(start)
        telling.append(tell)
        jobs.append(f"c{number}")
    out.append(f'if grep -q "^@gate=ok" "$tmp/gate.out"; then\n{"".join(body)}join $limit {" ".join(jobs)}\n')
    out.append(f"{''.join(telling)}else\njoin $limit node\ntell '' node\nfi\n")
    return "".join(out)


def _file(stage: str, text: str, plan: ProbePlan) -> str:
    """The lines that write a stage's script; users' start-up files run before those of `context` and `login`."""
    mark = '"$secret"' if stage in ("context", "login") else "''"
    head = f'printf \'mark=%s\\nwho=%s\\nroom=%s\\n\' {mark} "$who" "$tmp/room" >"$tmp/{stage}.sh"\n'
    return f"{head}cat >>\"$tmp/{stage}.sh\" <<'ENVMGR_END'\n{_LIBRARY}{_settings(plan)}\n{text}\nput done yes\nENVMGR_END\n"


def context_key(context: ShellContext, account: ShellAccount) -> str:
    """The beginning of a context's facts."""
    return f"ctx.{context.name}.{account}."


def _pairs(plan: ProbePlan) -> list[tuple[ShellContext, ShellAccount]]:
    return [(c, a) for c in plan.contexts for a in plan.accounts]


def _settings(plan: ProbePlan) -> str:
    values = {
        "prefix": plan.prefix, "generation": plan.generation, "user": plan.user, "init": plan.init,
        "samples": " ".join(plan.samples), "build_user": plan.site.build_user or "",
    }  # fmt: skip
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def _login(plan: ProbePlan) -> str:
    if any(c.way == "slurm" for c in plan.contexts):  # a job is its user's already
        return "/bin/bash -l"
    return f"as {shlex.quote(_name('user' if 'user' in plan.accounts else 'root', plan))} /bin/bash -l"


def _name(account: ShellAccount, plan: ProbePlan) -> str:
    return plan.user if account == "user" else "root"


def _context(job: str, context: ShellContext, account: ShellAccount, plan: ProbePlan) -> tuple[str, str]:
    """The lines that start a context's shell, and those that tell what it found."""
    file, key = '"$tmp/context.sh"', context_key(context, account)
    command = {
        "bash": f"/bin/bash -c '. \"$0\"' {file}",
        "bash-login": f"/bin/bash -l {file}",
        "sh": f'/bin/sh -c \'[ ! -r "$1" ] || . "$1"; . "$0"\' {file} "$init/sh"',
        "csh": f'csh "$tmp/context.csh" {file}',
    }[context.shell]
    name = shlex.quote(_name(account, plan))
    run = command if context.way == "slurm" else f"as {name} {command}"
    start = f"start {job} {run}\n"
    tell = f'tell {key} {job} "$secret"; {_noise(key, job)}\n'
    if context.way == "slurm":
        return start, tell
    if context.shell == "csh":
        start = f"if command -v csh >/dev/null; then\n{_CSH}{start}else skip {job} {key} absent; fi\n"
    return _if_known(account, job, key, start, plan), tell


def _if_known(account: ShellAccount, job: str, key: str, start: str, plan: ProbePlan) -> str:
    """`start`, where the node knows the account; a job of Slurm's is its user's already."""
    if account == "root" or "user" not in plan.accounts or any(c.way == "slurm" for c in plan.contexts):
        return start
    return (
        f'if grep -q "^{plan.user}:" "$who" 2>/dev/null; then\n{start}elif [ -e "$tmp/who.rc" ]; then\n'
        f'skip {job} {key} "{NO_USER} {plan.user}"\nelse skip {job} {key} "getent does not answer"; fi\n'
    )


def _noise(key: str, job: str) -> str:
    return (
        f'noise=$(grep -v -e "^@$secret" -e "^$" "$tmp/{job}.out" 2>/dev/null | head -n 1 | cut -c1-100)\n'
        f'[ -z "$noise" ] || put {key}noise "$noise"\n'
    )


_LINE = re.compile(r"@~?([^=|]+)([=|])(.*)")


def printable(text: str) -> str:
    """What a node said may end in a terminal, a log or a label: nothing in it acts there. Line breaks stay."""
    return (
        text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)
    )


def split_answer(text: str) -> tuple[list[str], str]:
    """The lines that are the node's own, and the text of the rest, by which answers are folded."""
    lines = [line for line in text.split("\n") if line.startswith("@")]
    return [line for line in lines if line.startswith("@~")], "\n".join(x for x in lines if not x.startswith("@~"))


def read_lines(lines: Iterable[str]) -> Facts:
    """key -> value; what is no fact is passed over."""
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(printable(line))
        if match is None:
            continue
        key, kind, value = match.groups()
        if kind == "=":
            found[key] = [value]
        else:
            found.setdefault(key, []).append(value)
    return {key: "\n".join(values) for key, values in found.items()}


def read_answer(text: str) -> tuple[Facts, Facts, str]:
    """What is compared, what is the node's own, and the text of the first alone."""
    own, shared = split_answer(text)
    return read_lines(shared.split("\n")), read_lines(own), shared
