# inventory_tell KIND…: lines `KIND<TAB>KEY<TAB>VALUE` on stdin as facts; `looked<TAB>KIND` says that a kind was looked at whole, and what of the
# kinds named was not is `closed`. Sorted, and without the node's own name and the job's number in paths, so that nodes that are alike say the same
# bytes. A name without a digit is a word that nodes have for other reasons. Called in a subshell. Kinds that are not among `inventory_whole` are
# reported by a digest; of all but `inventory_only` nothing is reported. Both may be `all`.
: "${named_words?}" "${host_name?}"
# Programs of the shell's own PATH are not called: a start-up file may have put others there.
inventory_path=/usr/sbin:/usr/bin:/sbin:/bin
# For awk: KEY<TAB>SOFT HARD of a line of /proc/PID/limits; of what the kernel derives from memory only whether it is enough.
inventory_limit='
  function limit(line,  key, word, i) {
    key = tolower(substr(line, 5, 21))
    sub(/ +$/, "", key)
    split(substr(line, 27), word, " ")
    for (i = 1; i < 3; i++) if (key ~ /processes|pending/ && (word[i] == "unlimited" || word[i] > 4096)) word[i] = "enough"
    return key "\t" word[1] " " word[2]
  }
'
inventory_tell() {
  PATH=$inventory_path
  export LC_ALL=C host_name
  inventory_there=${room?}/kinds.$$
  if [ "${inventory_whole?} ${inventory_only?}" != "all all" ]; then mkdir "$inventory_there" || return; fi
  command sort -u | command awk -F '\t' -v mark="${mark?}" -v kinds="$*" -v job="${job-}" -v there="$inventory_there/" \
    -v whole=" $inventory_whole " -v only=" $inventory_only " "$named_words"'
    function among(kind, all) { return all == " all " || index(all, " " kind " ") }
    BEGIN { if ((host = ENVIRON["host_name"]) !~ /[0-9]/) host = "" }
    # A name in a folder that others may write in can hold a line: only the kinds that are asked for here are taken.
    !index(" looked closed " kinds " ", " " $1 " ") { next }
    $1 == "looked" { looked[$2] = 1; next }
    {
      if (!among($1, only) || ++count[$1] > 20000) next
      key = nameless($2, host)
      value = nameless(substr($0, length($1) + length($2) + 3), host)
      gsub(/[\001-\037]/, " ", value)
      if (job != "" && $1 ~ /^(env|folder)$/ && (value == job || value ~ /\//)) value = named(value, job, "JOB")
      if (!among($1, whole) || only != " all ") print key "\t" value >(there $1)
      if (among($1, whole)) print "@" mark "inventory." $1 "|" key "\t" substr(value, 1, 600)
    }
    END {
      for (i = split(kinds, all, " "); i > 0; i--) {
        if (!among(all[i], only)) continue
        if (!(all[i] in looked)) print "@" mark "inventory.closed|" all[i]
        if (count[all[i]] > 20000) print "@" mark "inventory.cut|" all[i]
      }
    }'
  [ "$inventory_whole $inventory_only" != "all all" ] || return 0
  cd "$inventory_there" && command sha256sum -- [a-z]* 2>/dev/null |
    command awk -v mark="$mark" '{ print "@" mark "inventory.digest|" $2 "\t" substr($1, 1, 24) }'
}
