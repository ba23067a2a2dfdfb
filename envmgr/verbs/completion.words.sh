# Prints what may take the place of the last word of a line: a word a line, then a TAB and what it does. `sh -c TEXT sh LINE`; LINE ends at
# the cursor. Status 1: the name of a file is wanted. `table` has lines VERB|OPTION|KIND|TEXT. VERB is empty for the program itself; without
# OPTION the line is the verb's own, with a number or `*` it is that argument's. Names that a shell could read as more than a word are left out.
: "${table?}" "${nodes?}" "${modules?}"
case ${XDG_DATA_HOME-} in /*) own=$XDG_DATA_HOME ;; *) own=${HOME-}/.local/share ;; esac
own=$own/envmgr/envs line=${1-}
export table nodes modules own line
exec awk '
function begins(text, with) { # of an empty text, `index` says something else in each awk
  return substr(text, 1, length(with)) == with
}
function offer(name, text) {
  if (begins(name, last) && name !~ /[^A-Za-z0-9._+\/@:=,-]/) print before name (text == "" ? "" : "\t" text)
}
function offer_files(command, name) {
  command = "timeout -s KILL 1 sh -c \047" command "\047" # what a file system that hangs would wait for without end
  while ((command | getline name) > 0) {
    sub(/[.]lua$/, "", name)
    offer(name)
  }
}
function offer_kind(kind, count, i, name) {
  if (kind == "files") exit 1
  if (kind == "entries") offer_files("cd \"$modules\" && exec ls -d -- */*.lua")
  if (kind == "environments") offer_files("exec ls -- \"$own\"")
  if (kind == "nodes" && match(last, /.*,/)) {
    before = before substr(last, 1, RLENGTH)
    last = substr(last, RLENGTH + 1)
  }
  count = split(kind == "nodes" ? ENVIRON["nodes"] : kind ~ /^=/ ? substr(kind, 2) : "", name, " ")
  for (i = 1; i <= count; i++) offer(name[i])
}
BEGIN {
  rows = split(ENVIRON["table"], row, "\n")
  for (i = 1; i <= rows; i++) {
    split(row[i], part, "|")
    takes[part[1], part[2]] = part[3]
    if (match(part[1], / /)) group[substr(part[1], 1, RSTART - 1)] = 1
  }
  words = split(ENVIRON["line"], word, " ")
  if (ENVIRON["line"] !~ /[ \t]$/) last = word[words--]
  sub(/^["\047]/, "", last)
  for (i = 1; i <= words && word[i] !~ /(^|\/)envmgr$/; i++);
  while (++i <= words) {
    if (kind != "") kind = ""
    else if (word[i] == "--") exit 1
    else if (word[i] ~ /^-/) kind = takes[verb, word[i]]
    else if (verb == "" || verb in group) verb = verb (verb == "" ? "" : " ") word[i]
    else arguments++
  }
  if (kind != "") offer_kind(kind)
  else if (match(last, /^--[a-z-]+=/)) {
    kind = takes[verb, substr(last, 1, RLENGTH - 1)]
    before = substr(last, 1, RLENGTH)
    last = substr(last, RLENGTH + 1)
    offer_kind(kind)
  } else if (last !~ /^-/ && verb != "" && !(verb in group)) {
    offer_kind((verb, ++arguments) in takes ? takes[verb, arguments] : takes[verb, "*"])
  } else {
    inner = verb == "" ? "" : verb " "
    for (i = 1; i <= rows; i++) {
      split(row[i], part, "|")
      if (last ~ /^-/ ? part[1] == verb && part[2] ~ /^--/ : part[2] == "" && part[1] != verb && begins(part[1], inner))
        offer(last ~ /^-/ ? part[2] : substr(part[1], length(inner) + 1), part[4])
    }
  }
}' 2>/dev/null
