# What every stage of a probe has. `mark`, `who`, `room`, `host_name` and `probe_uid` are set before.
# An answer is lines `@key=value`, `@key|a line of a longer value` and `@~key=value` for what is the node's own. What runs
# behind a user's start-up files puts `mark` after the `@`, so that nothing which those print is taken for a fact.
put() { # KEY VALUE
  case $2 in *"
"*) set -- "$1" "$(printf '%s' "$2" | tr '\n' ' ')" ;; esac
  printf '@%s%s=%s\n' "${mark?}" "$1" "$2"
}
own() { put "~$1" "$2"; }
lines() { LC_ALL=C awk -v key="$mark$1" '{ print "@" key "|" $0 }'; }
sum() { set -- "$(sha256sum)" && echo "${1%% *}"; }
now() { read -r now _ </proc/uptime && now=${now%.*}; } # seconds, in `now`, without a process
# Without what the dynamic linker says, before each program, of /etc/ld.so.preload and of LD_PRELOAD, and of libraries without versions: other
# checks tell that. What is taken for a program's answer goes through it, and no path, number or sum is read from a program's stderr.
plain() { sed -e '/^ERROR: ld\.so: /d' -e '/: no version information available (required by /d'; }

# For awk: a text with `by` for a name that is a word of its own in it, and with NODE for that of a host: `c1` in `lic1` is no name.
named_words='
  function named(text, name, by,  at, before, after, done) {
    done = ""
    while (name != "" && (at = index(text, name))) {
      before = at > 1 ? substr(text, at - 1, 1) : substr(done, length(done), 1)
      after = substr(text, at + length(name), 1)
      done = done substr(text, 1, at - 1) (before after ~ /[A-Za-z0-9_-]/ ? name : by)
      text = substr(text, at + length(name))
    }
    return done text
  }
  function nameless(text, host,  short) {
    short = host; sub(/\..*/, "", short)
    return named(named(text, host, "NODE"), short, "NODE")
  }
'

# whole_path KEY: a PATH without the system's programs is reported, and completed for what the probe calls itself.
whole_path() {
  if command -v sed >/dev/null 2>&1; then return; fi
  put "$1" "${PATH-}"
  path_brought=${path_brought-${PATH-}}
  PATH=${PATH:+$PATH:}/usr/bin:/bin
}

# account_of NAME: what getent said of it, if it is one of the probe's accounts. No process: each shell asks.
account_of() {
  while IFS=: read -r account_name _ account_uid account_gid _ account_home account_shell; do
    [ "$account_name" != "$1" ] || return 0
  done <"${who?}"
  account_uid='' account_gid='' account_home='' account_shell=''
  return 1
} 2>/dev/null

# as ACCOUNT COMMAND…: with what a login gives, and no more but HISTFILE, which names no file of the account's. It ends in exec: to be called
# in a subshell. `probe_uid` is who runs the main script.
as() {
  account=$1
  shift
  account_of "$account"
  if [ "${probe_uid?}" = 0 ] && [ "${account_uid:-0}" != 0 ]; then
    set -- setpriv --reuid "$account_uid" --regid "$account_gid" --init-groups "$@"
  fi
  while IFS= read -r word; do set -- "$word" "$@"; done <"${who%/*}/environment"
  exec env -i HOME="${account_home:-/}" USER="$account" LOGNAME="$account" SHELL=/bin/bash LANG=C.UTF-8 HISTFILE="${room:-$tmp/room}/history" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SSH_CLIENT="${SSH_CLIENT:-127.0.0.1 0 22}" SSH_CONNECTION="${SSH_CONNECTION:-127.0.0.1 0 127.0.0.1 22}" "$@"
}

# with_limit SECONDS FILE COMMAND…: a command that may hang for good (a sick driver, a directory service that is gone). Its
# stdout in FILE, its stderr in FILE.err; its status, or 124 when it was left behind. What hangs in the kernel cannot be
# killed, and `timeout` hangs with it: what is waited for becomes a sleep, which the command's end kills. FILE is made from "$0", the stage's own file.
with_limit() {
  limit_seconds=$1
  limit_file=$2
  shift 2
  : >"$limit_file.rc"
  (exec sleep "$limit_seconds") </dev/null >/dev/null 2>&1 &
  limit_sleep=$!
  (
    ("$@") >"$limit_file" 2>"$limit_file.err"
    echo $? >"$limit_file.rc"
    kill -KILL "$limit_sleep" # start-up files may ignore TERM
  ) </dev/null >/dev/null 2>&1 &
  limit_child=$!
  while kill -0 "$limit_sleep"; do wait "$limit_sleep"; done 2>/dev/null # a signal ends a wait; a shell says that the sleep was killed
  read -r limit_status <"$limit_file.rc" || { limit_status=124 && kill -KILL "$limit_child" 2>/dev/null; }
  return "$limit_status"
}

# look_as_user PART SECONDS TEXT ARGUMENT…: the lines `@PART.` that a script prints as the ordinary user.
look_as_user() {
  if ! account_of "${user?}" && [ "$probe_uid" = 0 ]; then put "$1.user" unknown && return; fi
  look_part=$1 look_seconds=$2 look_text=$3
  shift 3
  with_limit "$look_seconds" "$0.$look_part" as "$user" /bin/sh -c "$look_text" sh "$@"
  sed -n "/^@$look_part\\./p" "$0.$look_part"
}
