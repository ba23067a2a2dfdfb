# The second look at nodes that differ, and at one that does not: what each shell's start read and set, the text of files, where paths lead. Behind shell.sh, csh.sh.
: "${generation?}" "${look_seconds?}"
# Of a trace: `read<TAB>FILE`, also of files that its commands name, and `set<TAB>NAME<TAB>FILE:LINE` for the line that set NAME last: the nearest
# one below /etc or in the home, for others share a vendor's file. What a folder of a home has is not named. A command (`:module`) is a NAME, too;
# its words are not sent. MODULEPATH is also named `MODULEPATH-`, where the folder of the generation went for good.
look_lines() { # KEY HOME
  LC_ALL=C awk -v key="$1" -v home="$2" -v folder="$generation" '
    function in_home(at) { return home != "" && index(at, home "/") == 1 }
    function own(at) { return at ~ /^\/etc\// || in_home(at) }
    function ours(at) { return at ~ /\/lmod\/(lmod\/)?(init|libexec)\/|^\/etc\/envmgr\// }
    function hidden(at) { return in_home(at) && substr(at, length(home) + 2) ~ /\// }
    function place(head,  of, count, i, at, file) {
      count = split(head, of, "<"); at = ""
      for (i = 1; i <= count; i++) if (of[i] ~ /^\/.*:[0-9]+$/ && !hidden(of[i])) {
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
      sub(/: .*/, "", head); sub(/^\++/, "", head); sub(/^[^ ]*: /, "", text)
      if ((at = place(head)) == "") next
      if (assigns = match(text, /^((export|declare|typeset|readonly)( -[a-zA-Z]+)* )?[A-Za-z_][A-Za-z0-9_]*[+]?=/)) {
        name = substr(text, 1, RLENGTH); sub(/[+]?=$/, "", name); sub(/.* /, "", name)
        last[name] = at
        if (name == "MODULEPATH" && folder != "") {
          if (index(text, folder)) there = 1; else if (there) { last["MODULEPATH-"] = at; there = 0 }
          if (there) delete last["MODULEPATH-"]
        }
      } else if (match(text, /^(unset|unalias|alias|export -n)( -[a-z])* \047?[A-Za-z_][A-Za-z0-9_]*/)) {
        name = substr(text, 1, RLENGTH); sub(/.*[ \047]/, "", name)
        last[name] = at
      } else if (text ~ /^(umask|ulimit|set|shopt|trap|module|ml|\.|source|exec|exit|return|cd|read|readonly|echo|printf|cat)( |$)/) {
        name = text; sub(/ .*/, "", name)
        last[":" name] = at
      }
      if (assigns || toupper(text) ~ /TOKEN|SECRET|PASS|KEY|CRED/) next # no path of it may leave the node
      for (i = split(text, word, /[ \t"\047`=;()<>]+/); i > 0; i--) if (word[i] ~ /^\/[A-Za-z0-9_.+\/-]+$/ && length(word[i]) < 200 && !in_home(word[i]) && !(word[i] in seen) && named++ < 2000) {
        seen[word[i]]; if (word[i] ~ /^\/s?bin\//) seen["/usr" word[i]] }
    }
    END {
      for (file in seen) print "@second_look." key "|read\t" file
      for (name in last) print "@second_look." key "|set\t" name "\t" last[name]
    }' "$0.trace" | LC_ALL=C sort
}
look_shell() { # KEY ACCOUNT HOW
  case $3 in csh) look_start=look_csh ;; *) look_start=trace_run ;; esac
  with_limit "$look_seconds" "$0.trace" "$look_start" "$2" "$3"
  account_of "$2"
  look_lines "$1" "${account_home?}" >"$0.lines"
  with_limit 2 "$0.real" look_real "$2"
  cut -d: -f6 "${who?}" | sed 's|.*|^&/|' | grep -v -f - "$0.real" | sed "s/^/@second_look.$1|read	/" | sort -u - "$0.lines"
}
look_real() { sed -n 's/.*|read\t//p' "$0.lines" | (as "$1" xargs -d '\n' -r realpath -m); } # as the account whose files name them

# The lines of files that all may read, behind one empty line for each file that was read. As root it reads them as nobody, for whom the way must be open, too.
look_text='BEGIN {
  for (i = 1; i < ARGC; i++) {
    file = ARGV[i]; secret = size = 0
    while ((got = getline line <file) >= 0) {
      if (!size) print "@second_look.text." file "|"
      if (!got || (size += length(line) + 1) > 60000) break
      if (line ~ /^[ \t]*(#|$)|^signed_floor=/ && !secret) continue # each signed flip is another floor
      if (line ~ /-----BEGIN .*PRIVATE/) secret = "key"
      else if (!secret && (toupper(line) ~ /TOKEN|SECRET|PASS|KEY|CRED/ || line ~ /:\/\/[^\/@ ]*:[^\/@ ]*@/)) secret = "line"
      print "@second_look.text." file "|" (secret ? "a line with a secret" : substr(line, 1, 400))
      if (secret == "key" ? line ~ /-----END / : line !~ /\\$/) secret = 0
    }
    close(file)
  }
}'
look_files() { # FILE ...
  look_nobody=
  [ "$(id -u)" != 0 ] || look_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
  # shellcheck disable=SC2086 # words, or none
  find -L "$@" -maxdepth 0 -type f -perm -004 -print0 2>/dev/null | xargs -0 -r $look_nobody env LC_ALL=C awk "$look_text"
}

# What each path leads to (links, the program that a script names, a daemon's libraries, and `/NAME` of one that it does not find), and all on the way, in the words
# of the inventory: `PATH<TAB>SECONDS KIND VALUE`, of its last change.
look_paths() { # PATH ...
  for look_path; do
    look_at=$look_path
    for _ in 1 2 3 4 5 6; do
      look_way='' look_to='' look_rest=$look_at
      while [ -n "$look_rest" ]; do
        look_above=$look_way look_rest=${look_rest#/}
        look_way=$look_way/${look_rest%%/*}
        look_rest=${look_rest#"${look_rest%%/*}"}
        printf '%s\n' "$look_way" >>"$0.ways"
        if [ -h "$look_way" ] && look_to=$(readlink "$look_way"); then
          case $look_to in /*) ;; *) look_to=$look_above/$look_to ;; esac
          look_to=$(realpath -ms "$look_to$look_rest")
          break
        fi
      done
      if [ -z "$look_to" ] && [ -n "$(find "$look_at" -maxdepth 0 -type f -perm -004 2>/dev/null)" ]; then
        look_to=$(head -c 200 "$look_at" | tr -d '\000' | sed -n '1s/^#! *\(\/[^ 	]*\).*/\1/p')
      fi
      [ -n "$look_to" ] || break
      printf '@second_look.leads|%s\t%s\n' "$look_path" "$look_to"
      look_at=$look_to
    done
    case $look_at in /usr/sbin/*/*) ;; /usr/sbin/*) ldd "$look_at" 2>&1 | sed -n 's|.* => \(/[^ ]*\) .*|\1|p; s|^[[:space:]]*\([^ /]*\) => not found|/\1|p; s|.*libraries: \([^/:]*\):.*|/\1|p' ;; esac |
      while read -r look_at; do printf '@second_look.leads|%s\t%s\n' "$look_path" "$(realpath -m "$look_at")" "$look_path" "$(realpath -m "${look_at%/*}")/${look_at##*/}"; done
  done
  sort -u "$0.ways" | xargs -d '\n' -r sh -c 'find "$@" -maxdepth 0 -printf "%p\t%C@ " \( -type d -printf "dir %m %u:%g\n" -o -type l -printf "link -> %l\n" -o -path "/etc/*" -printf "file %m %u:%g\n" -o -printf "prog %m %u:%g\n" \)' sh 2>/dev/null | lines second_look.ways
}

# All that lies in folders, as look_paths tells it, and with sizes: see inventory_trees.
look_trees() { # FOLDER ...
  for look_at in "$@"; do
    case $look_at in /*/*/*/*) look_deep=3 ;; *) look_deep=1 ;; esac
    find "$look_at" -maxdepth "$look_deep" -xdev \( -name __pycache__ -o -path /var/lib/envmgr -o -path /usr/local/bin/envmgr \) -prune -o \
      -printf '%p\t%C@ ' \( -type d -printf 'dir %m %u:%g\n' -o -type l -printf 'link -> %l\n' -o -printf 'prog %m %u:%g %s\n' \) 2>/dev/null
  done | lines second_look.ways
}
