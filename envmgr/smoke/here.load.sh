# shellcheck shell=bash
# The test of an entry that has none: of the programs that the module brings, one starts, and each script's interpreter is there.
: "${root?}" "${name?}"

broken='' first='' chosen=''
IFS=: read -r -a folders <<<"$PATH"
for folder in "${folders[@]}"; do
  case $folder in "$root"/*) ;; *) continue ;; esac
  for program in "$folder"/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    : "${first:=$program}"
    case ${program##*/} in "$name") chosen=$program ;; python3) : "${chosen:=$program}" ;; esac
    { read -r -N 2 mark && read -r -n 300 interpreter _; } <"$program" 2>/dev/null
    # What the system lacks is not the install's fault.
    case $mark$interpreter in
    '#!/bin/'* | '#!/usr/'*) ;;
    '#!/'*) [ -x "$interpreter" ] || broken="$broken$program: its interpreter $interpreter is not there"$'\n' ;;
    esac
  done
done
printf %s "$broken" >&2
[ -z "$broken" ] || exit 1
: "${chosen:=$first}"
[ -n "$chosen" ] || exit 0
said=$(timeout 60 "${chosen##*/}" --version 2>&1 </dev/null)
status=$?
# A runtime of containers may end as a program does that dislikes its words.
case $said in 'ch-run['*']: error: '*) status=127 ;; esac
# Any other end is the program's own: not each knows --version. 141 is SIGPIPE, 124 a program that waits.
if [ "$status" = 126 ] || [ "$status" = 127 ] || { [ "$status" -gt 128 ] && [ "$status" != 141 ]; }; then
  printf '%s\n%s cannot be started: it ended with %s\n' "$said" "$chosen" "$status" >&2
  exit 1
fi
