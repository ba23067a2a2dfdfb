# shellcheck shell=sh
# The second look at nodes that differ, and at one that does not: what each shell's start read and set, and the text of files.
# Behind traced_shell.sh. `look_own` are the folders of node-setup's files and of programs, whose lines set nothing for others to see.
: "${generation?}"

# Of a trace: `read<TAB>FILE`, and `set<TAB>NAME<TAB>FILE:LINE` for the line that set NAME last: the outermost caller below /etc or in the
# home, for others share a vendor's file. A command (`:module`, `:umask`) is a NAME, too; its words are not sent. MODULEPATH is also
# named `MODULEPATH-`, where the folder of the generation went for good.
look_lines() { # HOME
  awk -v home="$1" -v folder="$generation" '
    function own(at) { return at ~ /^\/etc\// || home != "" && index(at, home "/") == 1 }
    function ours(at) { return at ~ /\/lmod\/(lmod\/)?(init|libexec)\/|^\/etc\/envmgr\// }
    function place(head,  of, count, i, at) {
      count = split(head, of, "<")
      at = ""
      for (i = 1; i <= count; i++) if (of[i] ~ /^\/.*:[0-9]+$/) {
        file = of[i]; sub(/:[0-9]+$/, "", file); seen[file]
        if (!ours(of[i]) && (at == "" || own(of[i]) && !own(at))) at = of[i]
      }
      return at
    }
    # What logins set before any shell; not PATH, which each shell sets again.
    BEGIN {
      while ((getline line <"/etc/environment") > 0) {
        number++
        sub(/^export /, "", line)
        if (line !~ /^PATH=/ && match(line, /^[A-Za-z_][A-Za-z0-9_]*=/)) last[substr(line, 1, RLENGTH - 1)] = "/etc/environment:" number
      }
    }
    /^\++[^ ]*: / {
      head = text = $0
      sub(/: .*/, "", head); sub(/^\++/, "", head)
      sub(/^[^ ]*: /, "", text)
      at = place(head)
      if (at == "") next
      if (match(text, /^((export|declare|typeset|readonly)( -[a-zA-Z]+)* )?[A-Za-z_][A-Za-z0-9_]*[+]?=/)) {
        name = substr(text, 1, RLENGTH)
        sub(/[+]?=$/, "", name); sub(/.* /, "", name)
        last[name] = at
        if (name == "MODULEPATH" && folder != "") {
          if (index(text, folder)) there = 1; else if (there) { last["MODULEPATH-"] = at; there = 0 }
          if (there) delete last["MODULEPATH-"]
        }
      } else if (match(text, /^(unset|unalias|alias|export -n)( -[a-z])* [A-Za-z_][A-Za-z0-9_]*/)) {
        name = substr(text, 1, RLENGTH)
        sub(/.* /, "", name)
        last[name] = at
      } else if (text ~ /^(umask|ulimit|set|shopt|trap|module|ml|\.|source|exec|exit|return|cd|read|readonly) ?/) {
        name = text
        sub(/ .*/, "", name)
        last[":" name] = at
      }
    }
    END {
      for (file in seen) print "read\t" file
      for (name in last) print "set\t" name "\t" last[name]
    }' "$0.trace" | LC_ALL=C sort
}
look_shell() { # KEY ACCOUNT HOW
  with_limit 10 "$0.trace" trace_run "$2" "$3"
  look_lines "$(getent passwd "$2" | cut -d: -f6)" | lines "second_look.$1"
}
# A file that all may read; others are not reported.
look_file() { # FILE
  [ -f "$1" ] || return 0
  look_mode=$(stat -L -c %a "$1")
  case $look_mode in *[4567]) head -c 60000 "$1" | sed -E -e '/^[[:space:]]*(#|$)/d' -e 's/.*(TOKEN|SECRET|PASS|KEY|CRED).*/a line with a secret/I' | cut -c1-400 | lines "second_look.text.$1" ;; esac
}
# Each path, what it leads to (links, the program that a script names), and all folders on the way: `PATH<TAB>MODE OWNER:GROUP`.
look_paths() { # PATH ...
  for look_at in "$@"; do
    for _ in 1 2 3 4 5 6; do
      printf '%s\n' "$look_at" >>"$0.ways"
      if [ -h "$look_at" ]; then
        look_to=$(readlink "$look_at")
        case $look_to in /*) ;; *) look_to=${look_at%/*}/$look_to ;; esac
      else
        look_to=$([ -f "$look_at" ] && LC_ALL=C head -c 200 "$look_at" 2>/dev/null | tr -d '\0' | sed -n '1s/^#! *\([^ ]*\).*/\1/p')
      fi
      [ -n "$look_to" ] || break
      printf '%s\t%s\n' "$1" "$look_to" | lines second_look.leads
      look_at=$look_to
    done
    shift
  done
  awk -F / '{ way = ""; for (i = 2; i <= NF; i++) { way = way "/" $i; if (!seen[way]++) printf "%s%c", way, 0 } }' "$0.ways" |
    xargs -0 -r stat -c '%n	%F %a %U:%G' 2>/dev/null | lines second_look.ways
}
