# PATH HOW IGNORE of each tree, IGNORE names that are left out: the sha256 of a list of its files, as `shape_of` of
# envmgr/store/outside.py makes it. A folder that cannot be listed is another shape.
list() { # the arguments are names to leave out
  time=
  [ "$how" != times ] || time='\t%T@'
  for name; do
    set -- "$@" -name "$name" -prune -o
    shift
  done
  find . -mindepth 1 "$@" '(' -type f -printf "%P\tf\t%s$time\0" -o -type d -printf '%P\td\0' -o -type l -printf '%P\tl\t%l\0' ')'
}
whole() { if [ "$how" = times ]; then sed -z 's/\(\tf\t[0-9]*\t-\{0,1\}[0-9]*\)\.[0-9]*$/\1/'; else cat; fi; }
seen=0
while [ $# -gt 0 ]; do
  how=$2
  if cd "$1" 2>/dev/null; then # else the check of software says why not
    set -f
    # shellcheck disable=SC2086 # names, with spaces between them
    sum=$(list $3 2>/dev/null | whole | LC_ALL=C sort -z | sha256sum)
    set +f
    printf '@outside.shape.%s=%s\n' "$seen" "${sum%% *}"
    cd / || exit
  fi
  seen=$((seen + 1))
  printf '@outside.seen=%s\n' "$seen"
  shift 3
done
