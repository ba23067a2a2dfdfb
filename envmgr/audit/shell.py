"""The probe: one POSIX shell script that joins the parts of all checks, and what reads its answer.

The script leaves behind what hangs: whatever may touch the prefix runs apart, with its output in a file, and is looked
at and never waited for. A process on a hung mount cannot be killed, and neither `timeout` nor `$(…)` gets away from it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from envmgr.audit.model import Account, Check, Facts, Plan, ShellContext, Stage

GATE_SECONDS = 5  # how long a healthy prefix may take to answer once

# An answer is lines `@key=value`, `@key|a line of a longer value` and `@~key=value` for what is the node's own.
_LIBRARY = r"""
put() {
  case $2 in
    *"
"*) printf '@%s=%s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ')" ;;
    *) printf '@%s=%s\n' "$1" "$2" ;;
  esac
}
own() { put "~$1" "$2"; }
lines() { LC_ALL=C awk -v key="$1" '{ print "@" key "|" $0 }'; }
sum() { sha256sum | cut -d' ' -f1; }
as() {
  account=$1
  shift
  home=$(getent passwd "$account" | cut -d: -f6)
  if [ "$(id -u)" = 0 ] && [ "$account" != root ]; then
    set -- setpriv --reuid "$account" --regid "$(id -g "$account")" --init-groups "$@"
  fi
  exec env -i HOME="${home:-/}" USER="$account" LOGNAME="$account" SHELL=/bin/bash LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    $(sed -n 's/^\(export  *\)\{0,1\}\([A-Za-z_][A-Za-z0-9_]*=\)"\{0,1\}\([^"[:space:]]*\)"\{0,1\}$/\2\3/p' /etc/environment 2>/dev/null) \
    SSH_CLIENT="${SSH_CLIENT:-127.0.0.1 0 22}" SSH_CONNECTION="${SSH_CONNECTION:-127.0.0.1 0 127.0.0.1 22}" "$@"
}
"""

# `as` ends in exec, hence the subshells. start NAME COMMAND…: apart, so that it can be left behind. join SECONDS NAME…: wait for some. tell PREFIX NAME: its facts.
_JOBS = r"""
start() {
  job=$1
  shift
  (
    (cd / && "$@") >"$tmp/$job.out" 2>"$tmp/$job.err"
    echo $? >"$tmp/$job.rc~"
    mv "$tmp/$job.rc~" "$tmp/$job.rc"
  ) </dev/null >/dev/null 2>&1 &
}
join() {
  left=$(($1 * 20))
  shift
  for job in "$@"; do
    while [ ! -e "$tmp/$job.rc" ] && [ "$left" -gt 0 ]; do
      sleep 0.05
      left=$((left - 1))
    done
  done
}
tell() {
  end=${1:-$2.}end
  if [ ! -e "$tmp/$2.rc" ]; then
    put "$end" "no end in $limit s"
    return
  fi
  sed -n "s|^@~|@~$1|p; s|^@\([^~]\)|@$1\1|p" "$tmp/$2.out"
  if read -r rc <"$tmp/$2.rc" && [ "$rc" != 0 ]; then
    put "$end" "exit status $rc: $(tail -n 1 "$tmp/$2.err" 2>/dev/null | cut -c1-200)"
  fi
}
"""

# Touching `current` makes autofs mount what is not there yet.
_GATE = r"""
said=$(ls -d "$prefix/." 2>&1 >/dev/null)
if [ -n "$said" ]; then
  put gate "${said##*: }"
elif target=$(readlink "$prefix/current"); then
  put gate ok
  put current "$target"
else
  put gate "no link $prefix/current"
fi
"""

_MAIN = r"""
tmp=$(mktemp -d /tmp/envmgr-audit.XXXXXX) || {
  put probe "no temporary folder in /tmp"
  exit 0
}
chmod 755 "$tmp"
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
own host "$(uname -n)"
own slurm_node "${SLURMD_NODENAME:-}"
own addresses "$(hostname -I 2>/dev/null || :)"
own began "$(date +%s.%N)"
put account "$(id -un)"
"""


# A file of its own: csh has no `.`, and takes no script in an argument with line breaks.
_CSH = """\
cat >"$tmp/context.csh" <<'ENVMGR_END'
if ( "`alias module`" != "" ) setenv ENVMGR_ALIAS yes
exec /bin/sh "$1"
ENVMGR_END
"""


def join_probes(
    checks: Iterable[Check], plan: Plan, *, stages: Sequence[Stage] = ("node", "prefix", "context", "login")
) -> str:
    """The script for the contexts and accounts of `plan`: the parts of all checks, each stage in a file of its own."""
    parts: dict[Stage, list[str]] = {stage: [] for stage in ("node", "prefix", "context", "login")}
    for check in checks:
        for stage, text in check.probe(plan).items():
            if stage in stages:
                parts[stage].append(text)
    settings = _settings(plan)
    files: dict[str, str] = {"gate": _GATE}
    files |= {stage: "".join(texts) for stage, texts in parts.items()}
    out = [_LIBRARY, _JOBS, settings, _MAIN]
    for name, text in files.items():
        out.append(f"cat >\"$tmp/{name}.sh\" <<'ENVMGR_END'\n{_LIBRARY}{settings}\n{text}\nENVMGR_END\n")
    out.append("before=$(date +%s%N)\n")
    out.append('start gate /bin/sh "$tmp/gate.sh"\n')
    limit = max(2, int(plan.site.transport.node_timeout * 0.8) - GATE_SECONDS)
    out.append(f"limit={limit}\n")
    out.append(f"join {GATE_SECONDS} gate\nown gate_ms $((($(date +%s%N) - before) / 1000000))\n")
    out.append(
        'if [ -e "$tmp/gate.rc" ]; then tell "" gate; else put gate hung; fi\nstart node /bin/sh "$tmp/node.sh"\n'
    )
    jobs = ["node"]
    telling = ["tell '' node\n"]
    body = []
    if parts["prefix"]:
        jobs.append("prefix")
        body.append('start prefix /bin/sh "$tmp/prefix.sh"\n')
        telling.append("tell '' prefix\n")
    if parts["login"]:
        jobs.append("login")
        body.append(f'start login {_login(plan)} "$tmp/login.sh"\n')
        telling.append("tell '' login\n")
    for number, (context, account) in enumerate(_pairs(plan)):
        start, tell = _context(f"c{number}", context, account, plan)
        body.append(start)
        telling.append(tell)
        jobs.append(f"c{number}")
    out.append(f'if grep -q "^@gate=ok" "$tmp/gate.out"; then\n{"".join(body)}join $limit {" ".join(jobs)}\n')
    out.append(f"{''.join(telling)}else\njoin $limit node\ntell '' node\nfi\n")
    return "".join(out)


def context_key(context: ShellContext, account: Account) -> str:
    """The beginning of a context's facts."""
    return f"ctx.{context.name}.{account}."


def _pairs(plan: Plan) -> list[tuple[ShellContext, Account]]:
    return [(c, a) for c in plan.contexts for a in plan.accounts]


def _settings(plan: Plan) -> str:
    values = {
        "prefix": plan.prefix, "generation": plan.generation, "user": plan.user, "init": plan.init,
        "samples": " ".join(plan.samples), "build_user": plan.site.build_user or "",
    }  # fmt: skip
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def _login(plan: Plan) -> str:
    if any(c.way == "slurm" for c in plan.contexts):  # a job is its user's already
        return "/bin/bash -l"
    return f"as {shlex.quote(_name('user' if 'user' in plan.accounts else 'root', plan))} /bin/bash -l"


def _name(account: Account, plan: Plan) -> str:
    return plan.user if account == "user" else "root"


def _context(job: str, context: ShellContext, account: Account, plan: Plan) -> tuple[str, str]:
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
    tell = f"tell {key} {job}; {_noise(key, job)}\n"
    if context.way == "slurm":
        return start, tell
    if context.shell == "csh":
        start = f"if command -v csh >/dev/null; then\n{_CSH}{start}else put {key}end absent; fi\n"
    if account == "user":
        start = (
            f'if getent passwd {name} >/dev/null; then\n{start}else put {key}end "there is no user {plan.user}"; fi\n'
        )
    return start, f'if [ -e "$tmp/{job}.out" ]; then {tell}fi\n'


def _noise(key: str, job: str) -> str:
    return (
        f'noise=$(grep -v -e "^@" -e "^$" "$tmp/{job}.out" 2>/dev/null | head -n 1 | cut -c1-100)\n'
        f'[ -z "$noise" ] || put {key}noise "$noise"\n'
    )


_LINE = re.compile(r"@(~?)([^=|]+)([=|])(.*)")


def read_answer(text: str) -> tuple[Facts, Facts, str]:
    """What is compared, what is the node's own, and the text of the first alone, by which answers are folded."""
    facts: dict[str, list[str]] = {}
    own: dict[str, list[str]] = {}
    kept: list[str] = []
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        mine, key, kind, value = match.groups()
        place = own if mine else facts
        if not mine:
            kept.append(line)
        if kind == "=":
            place[key] = [value]
        else:
            place.setdefault(key, []).append(value)
    return _joined(facts), _joined(own), "\n".join(kept)


def _joined(found: Mapping[str, list[str]]) -> dict[str, str]:
    return {key: "\n".join(values) for key, values in found.items()}
