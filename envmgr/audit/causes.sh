# shellcheck shell=sh
# Which line of which start-up file set a variable last, or an alias: traced shells, each once, as the account whose shell it is.
# `trace_end` is what such a shell runs behind them.
# `trace_names` are the names, or NAME~PART, for what brought PART into a list, or :COMMAND, for who calls it, or :COMMAND-OPTION; trace KEY
# ACCOUNT HOW, HOW `login`, `job` (a login shell, which finds SLURM_JOB_ID), `interactive`, `ssh`, `csh` or `zsh`. Behind trace.csh.sh.
#
# A trace line names where it is, and who called that: `+FILE:LINE<CALLER:LINE<CALLER:LINE: text`. Bash takes no PS4 from the
# environment for root: there a bash that sets it reads the start-up files itself, in bash's order. Lmod silences traces of itself,
# but for LMOD_SH_DBG_ON.
: "${trace_names?}" "${trace_pin?}" "${trace_profile?}" "${trace_end?}" # the folder of node-setup's files, and the one that shells read

# A user's shell can print anything as its trace. So a file that it names is read as that user, for a bounded time, into $0.file.
trace_read() { # FILE
  # shellcheck disable=SC2016 # the inner shell's
  with_limit 2 "$0.file" as "$trace_account" /bin/sh -c '[ -f "$0" ] && exec head -c 400000 "$0"' "$1"
}
# Whether a start-up file is as the distribution's package has it: what its lines do is not what is wrong with a node.
trace_untouched() { # FILE
  trace_read "$1" && trace_sum=$(md5sum <"$0.file") || return
  trace_sum=${trace_sum%% *}
  cmp -s "$0.file" "/etc/skel/${1##*/}" || cmp -s "$0.file" "/usr/share/base-files/${1##*/}" ||
    grep -q -s -F -x -e " $1 $trace_sum" /var/lib/dpkg/status ||
    grep -q -s -F -x -e "$trace_sum  ${1#/}" /var/lib/dpkg/info/*.md5sums ||
    { rpm -q -f "$1" && ! rpm -V -f --nodeps "$1" | grep -q -F -e " $1"; } >/dev/null
} 2>/dev/null
# The last line that sets or unsets NAME, or else exports it, or the first that brings PART into it: where it is, or the first caller
# that is below /etc or in the home, for others share a vendor's file; without one, the first that is not Lmod's own. Lines of files that
# nobody touched since they were installed do not count, nor those of `trace_but`, nor does what node-setup's hand on of PART.
trace_place() { # NAME FILE [PART]
  trace_skip=" ${trace_but:+$trace_but }"
  while trace_at=$(trace_line "$@") && [ -n "$trace_at" ]; do
    case ${3:+part}:$trace_at in
      part:"$trace_pin"* | part:"${trace_profile%.sh}"*) ;;
      *) trace_untouched "${trace_at%:*}" || break ;;
    esac
    trace_skip="$trace_skip${trace_at%:*} "
  done
  printf '%s\n' "$trace_at"
}
trace_line() { # NAME FILE [PART]
  trace_part=${3-} trace_skip=$trace_skip awk -v name="$1" -v home="${trace_home-}" '
    function own(at) { return at ~ /^\/etc\// || home != "" && index(at, home "/") == 1 }
    function source(head,  of, count, i, at, file) {
      sub(/^\++/, "", head)
      count = split(head, of, "<")
      i = of[1] in dumped && of[2] ~ /^\// ? 2 : 1 # what `export -p` wrote once: who reads it
      for (; i <= count; i++) if (of[i] ~ /^\/.*:[0-9]+$/ && of[i] !~ /\/lmod\/|\/Lmod\//) {
        if (own(of[i])) return of[i]
        if (at == "") at = of[i]
      }
      if (at == "") return of[1] ~ /^\/.*:[0-9]+$/ ? of[1] : ""
      file = at
      sub(/:[0-9]+$/, "", file)
      return reader[file] != "" ? reader[file] : at
    }
    BEGIN {
      part = ENVIRON["trace_part"]; skip = ENVIRON["trace_skip"]
      command = name
      sub(/-.*/, "", command)
      option = substr(name, length(command) + 2)
      split("e errexit f noglob u nounset C noclobber a allexport x xtrace v verbose", of)
      for (i = 2; i in of; i += 2) letter[of[i]] = "|[a-zA-Z]*" of[i - 1] "[a-zA-Z]*"
      wanted = command ~ /^:/ ? "^" substr(command, 2) "( |$)" : "^((export|declare|typeset|readonly)( -[a-zA-Z]+)* )?" name "[+]?=|^alias .?" name "=" \
        "|^(unset|unalias|export -n|(declare|typeset) [+]x)( [^=]*)? " name "( |$)"
      if (command == ":ulimit" && option != "") wanted = "^ulimit (.* )?-[a-zA-Z]*" option "[a-zA-Z]* [^-]"
      if (command == ":set") wanted = "^set (.* )?-([a-zA-Z]*o " option letter[option] ")( |$)"
      if (command == ":shopt") wanted = "^shopt (.* )?-s (.* )?" option "( |$)"
      if (command == ":readonly") wanted = "^(readonly|(declare|typeset)( -[a-zA-Z]+)* -[a-zA-Z]*r[a-zA-Z]*) (.* )?" option "(=| |$)"
      if (command == ":read") wanted = "^(\\.|source) " option "( |$)"
      if (command == ":trap") wanted = "^trap (-- )?\047\047 "
      if (command == ":purge") wanted = "^(module|ml) (--force |-q )*(purge|reset|restore|r|unload|del|swap|sw)( |$)"
      if (command == ":umask") wanted = "^umask (-[a-zA-Z]+ )?[0-7augo]"
    }
    /^\++[^ ]*: / {
      head = text = $0
      sub(/: .*/, "", head)
      sub(/^[^ ]*: /, "", text)
      if (text ~ /^declare -x /) { dump = head; sub(/<.*/, "", dump); sub(/^\++/, "", dump); dumped[dump] }
      file = here = source(head)
      sub(/:[0-9]*$/, "", file)
      if (text ~ /^(\.|source) \//) { split(text, words, " "); if (here != "") reader[words[2]] = own(here) ? here : reader[file] }
      if (index(skip, " " file " ")) next
      if (command == ":set") sub(/ --( .*|$)/, "", text) # `set --` is about arguments
      if (name == "IFS" && text ~ /^read( |$)/ && at == NR - 1) { place = before; next } # `IFS=: read` is two lines
      if (part != "" && (place != "" || !index(text, part))) next
      if (name == ":left") { # the first start-up file that is left early
        if (place == "" && text ~ /^return( |$)/ && head ~ /^\++(\/etc\/(profile|bash\.bashrc|bashrc|csh\.cshrc)|\/[^ ]*\/\.[a-z_]+):/) place = here
        next
      }
      if (text ~ wanted && (here != "" || name !~ /^:/)) {
        before = place; at = NR
        place = here
      } else if (part == "" && name !~ /^:/ && text ~ "^(export|declare -[a-z]*x|typeset -[a-z]*x)( [^=]*)? " name "( |$)") {
        exported = here
      }
    }
    END { if (place == "") place = exported # it had its value already
      if (place != "") print place
    }' "$2"
}
# How a line stands in the file that was read: nothing where it is a command by itself; `,inside` of a block; `,only`, where the shell needs a
# command in its place; `,part` of a longer command. The shell reads the file without running it.
trace_parses() { # what awk prints of it
  awk -v line="$trace_number" "$1" "$0.file" >"$0.try"
  # shellcheck disable=SC2086 # a command and its options
  (as "$trace_account" $trace_reader) <"$0.try" >/dev/null 2>&1
}
trace_stands() {
  case $trace_found in /etc/environment:* | /etc/security/*) return ;; esac
  trace_before=$(awk -v line="$trace_number" '
    NR == line - 1 && /(&&|\|)[ \t]*$/ { print "joined" }
    (NR == line || NR == line - 1) && /\\$/ { print "part" }' "$0.file")
  if [ "${trace_before%part}" != "$trace_before" ] || { [ -n "$trace_reader" ] && ! trace_parses 1; }; then
    echo ,part
  elif [ -z "$trace_reader" ]; then
    : # in csh a block may be empty
  elif trace_parses 'NR < line' && trace_parses 'NR == line'; then
    :
  elif [ -z "$trace_before" ] && trace_parses 'NR != line'; then
    echo ,inside
  elif trace_parses 'NR == line { print ":" } NR != line'; then
    echo ,only
  else
    echo ,part
  fi
}
trace_put() { # KEY.NAME FILE:LINE
  trace_found=$2
  trace_number=${2##*:}
  if trace_read "${2%:*}"; then
    put "trace.$1" "$2$(trace_stands) $(awk -v line="$trace_number" 'NR == line' "$0.file" | cut -c 1-400)"
  else
    put "trace.$1" "$2"
  fi
}
trace_find() { # NAME FILE PART HOW
  if [ "$4" = csh ]; then trace_at=$(trace_csh "$1" "$2" "$3"); else trace_at=$(trace_place "$1" "$2" "$3"); fi
  [ -n "$trace_at" ] || trace_at=$(
    grep -n -s -E "^(export +)?$1=|^$1[[:space:]]+(DEFAULT|OVERRIDE)=" /etc/environment /etc/security/pam_env.conf | grep -F -e "$3" | tail -n 1 | cut -d: -f1,2
  )
  printf '%s\n' "$trace_at"
}
trace() { # KEY ACCOUNT HOW
  # shellcheck disable=SC2034 # trace.csh.sh reads it
  trace_home=$(getent passwd "$2" | cut -d: -f6)
  trace_account=$2
  case $3 in csh) trace_reader= ;; zsh) trace_reader='zsh -fn' ;; *) trace_reader='/bin/bash -O extglob -n' ;; esac
  with_limit 10 "$0.trace" trace_run "$2" "$3"
  trace_last=$(grep '^+' "$0.trace" | tail -n 1)
  case ${trace_last#*: } in
    exec\ * | exit* | logout*) trace_put "$1.:end" "$(printf '%s\n' "$trace_last" | sed 's/^+*//; s/[<:]* .*//; s/<.*//')" ;;
  esac
  # Whether node-setup's file is there, which such a shell would come to.
  case $3 in
    csh) trace_files=/etc/csh.cshrc trace_found=${trace_profile%.sh}.csh ;;
    login | job) trace_files='' trace_found=$trace_profile ;;
    *) trace_files='/etc/bash.bashrc /etc/bashrc' trace_found=$trace_profile ;;
  esac
  # shellcheck disable=SC2086 # two files
  if [ -r "$trace_found" ] && { [ -z "$trace_files" ] || grep -h -s -v '^[[:space:]]*#' $trace_files | grep -q -F -e "$trace_found"; }; then
    put "trace.$1.:there" yes
  fi
  # Lmod's own start-up file, and the list of which it makes MODULEPATH.
  trace_found=$(sed -n -E 's/^\++([^:]*):[^ ]*: (export )?MODULEPATH_INIT=["'\'']?(\/[^ "'\'']*).*/\1 \3/p' "$0.trace" | tail -n 1)
  if [ -n "$trace_found" ]; then put "trace.$1.:list" "$trace_found"; fi
  if grep -q -F -e "$trace_pin" "$0.trace"; then put "trace.$1.:pinned" yes; fi
  for trace_name in $trace_names; do
    trace_part=
    case $trace_name in *'~'*) trace_part=${trace_name#*"~"} ;; esac
    trace_at=$(trace_find "${trace_name%%"~"*}" "$0.trace" "$trace_part" "$3")
    [ -n "$trace_at" ] || continue
    trace_put "$1.$trace_name" "$trace_at"
    case $3:$trace_name in
      *::umask) ;;
      csh:* | *'~'* | *::*) continue ;;
    esac
    # What would set it without that file.
    trace_at=$(trace_but=${trace_found%:*} && trace_find "$trace_name" "$0.trace" '' "$3")
    [ -z "$trace_at" ] || trace_put "$1.$trace_name<" "$trace_at"
  done
}
