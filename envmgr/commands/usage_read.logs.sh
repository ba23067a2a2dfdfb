# shellcheck shell=sh
# Puts a mark into the syslog of this node, and prints what the logs say of loads, counted. A mark of an earlier reading is where that one
# stopped, this one is where this reading stops: what lies between is read once, however logs are rotated. A mark that arrives shows
# that the syslog writes to the logs that are read. Logs are read oldest first.
#
# name NAME            the node's own name
# mark NAME            its mark was sent; `unmarked WHY`: it was not
# closed FILE, nolog   a log that cannot be read; there is none
# host NAME FROM TO    FROM is `mark` if the earlier mark is there, else `start`; TO is `mark` if this one is, else `end`
# load COUNT NAME DAY ENTRY BY JOB UID    JOB is `job` or `-`; BY and UID are `-` where there is none
# damaged, others, lost COUNT: lines that say something else; loads of unknown entries or hosts; loads for which there was no room
: "${usage_nonce?}" "${usage_marks?}" "${usage_hosts?}" "${usage_logs?}" "${usage_send?}" "${usage_wait?}" "${usage_most?}"
: "${usage_uids?}" "${usage_first?}" "${usage_last?}" "${usage_entries?}"

LC_ALL=C
export LC_ALL
usage_name=$(uname -n)
echo "name $usage_name"
if [ "$usage_send" = yes ]; then
  if [ ! -S /dev/log ]; then
    echo "unmarked there is no socket /dev/log"
    usage_marks=0
  elif usage_said=$(timeout 5 logger -t envmgr -- "mark 1 $usage_name $usage_nonce" 2>&1); then
    echo "mark $usage_name"
  else
    echo "unmarked ${usage_said:-it did not take it in 5 s}" | head -n 1
    usage_marks=0
  fi
fi
[ -n "$usage_logs" ] || exit 0

usage_files=
usage_journal=
for usage_each in $usage_logs; do
  if [ "$usage_each" = journal ]; then
    usage_journal=yes
  elif [ -f "$usage_each" ]; then
    [ -r "$usage_each" ] || echo "closed $usage_each"
    usage_files="$usage_files $usage_each"
  fi
done
[ -n "$usage_files$usage_journal" ] || echo "nolog"

# The end of the logs that grow.
usage_ends() {
  for usage_each in $usage_files; do
    case $usage_each in *.gz | *.xz | *.zst | *.bz2) ;; *) tail -c 262144 "$usage_each" 2>/dev/null ;; esac
  done
  [ -z "$usage_journal" ] || journalctl -q -t envmgr -n 2000 -o cat
}

# Lines of the logs that have a mark or a load. What a file is, is in its name.
usage_lines() {
  # shellcheck disable=SC2012,SC2086 # plain paths
  [ -z "$usage_files" ] || ls -tr $usage_files | while read -r usage_each; do
    case $usage_each in
      *.gz) gzip -dc "$usage_each" ;;
      *.xz) xz -dc "$usage_each" ;;
      *.zst) zstd -dc "$usage_each" ;;
      *.bz2) bzip2 -dc "$usage_each" ;;
      *) cat "$usage_each" ;;
    esac 2>/dev/null | grep -a -E 'envmgr(\[[0-9]+\])?: (load|mark) '
  done
  # A quote within a value has a backslash before it: what a message says is never taken for a field.
  [ -z "$usage_journal" ] || journalctl -q -t envmgr -o json --output-fields=MESSAGE,_UID |
    sed -n -E 's/^.*[{,] ?"MESSAGE" ?: ?"([^"\\]*)".*$/\1\n&/;T;s/\n.*[{,] ?"_UID" ?: ?"([0-9]+)".*$/\n\1/;s/^([^\n]*)\n([0-9]+)$/ uid=\2 envmgr: \1/;s/\n.*//;s/^(load|mark) /envmgr: &/;p'
}

# The first uid of a line is the log's own; a message may say another one behind it.
usage_texts() {
  sed -n -E 's/ uid=([0-9]+) /\n\1\n/;s/^[^\n]*\n([0-9]+)\n(.*)$/\2 \1/;T none;b text;:none;s/$/ -/;:text;s/^.*envmgr(\[[0-9]+\])?: ((load|mark) .*)$/\2/p'
}

usage_left=$usage_wait
while [ "$usage_left" -gt 0 ] && [ "$(usage_ends | grep -a -c -F " $usage_nonce")" -lt "$usage_marks" ]; do
  sleep 0.2
  usage_left=$((usage_left - 1))
done

{
  printf '%s\n' "$usage_entries" -- "$usage_hosts"
  [ "$usage_send" = no ] || printf '%s\n' "$usage_name -"
  echo --
  usage_lines | usage_texts
} | awk -v nonce="$usage_nonce" -v most="$usage_most" -v uids="$usage_uids" -v first="$usage_first" -v last="$usage_last" '
  part < 2 { if ($0 == "--") part++; else if (part == 0) entries[$1]; else if (NF == 2 && !($1 in from)) from[$1] = $2; next }
  $1 == "mark" && $2 == "1" && NF == 5 {
    if (!($3 in from)) next
    if ($4 == from[$3] && !($3 in begun)) {
      begun[$3]
      for (key in count) { split(key, words, " "); if (words[1] == $3) { delete count[key]; kept-- } }
    } else if ($4 == nonce) ended[$3]
    next
  }
  $1 == "load" && $2 == "1" && NF == 9 && $4 ~ /^[0-9]+$/ && ($5 == "-" || $5 ~ /^[0-9]+$/) && \
  $7 ~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/ && $7 >= first && $7 <= last {
    if (!($3 in entries) || !($8 in from)) { others++; next }
    if ($8 in ended) next
    key = $8 " " $7 " " $3 " " ($6 in entries ? $6 : "-") " " ($5 == "-" ? "-" : "job") " " (uids == "yes" ? $9 : "-")
    if (key in count) count[key]++
    else if (kept < most) { kept++; count[key] = 1 }
    else lost++
    next
  }
  { damaged++ }
  END {
    for (host in from) print "host", host, (host in begun ? "mark" : "start"), (host in ended ? "mark" : "end")
    for (key in count) print "load", count[key], key
    print "damaged", damaged + 0
    print "others", others + 0
    print "lost", lost + 0
  }'
