# $1: seconds it may take; then ENTRY ROOT FILE KIND of each install, KIND `program`, `file` or `folder` (FILE is empty). Run as the ordinary user. It looks at
# the clock itself: the probe cannot end all of its processes without ending itself.
why() { said=$(ls -dL "$1" 2>&1 >/dev/null) || printf '%s\n' "${said##*: }"; } # why a path cannot be had, in the system's words
# stopped ENTRY PATH: `MODE OWNER PLACE` of the first place on the way that keeps this user out.
stopped() {
  way='' left=${2#/}/
  while [ -n "$left" ]; do
    next=$way/${left%%/*} left=${left#*/}
    case $(why "$next") in '') way=$next ;; 'Permission denied') break ;; *) return ;; esac
  done
  [ -L "$next" ] || stat -c "@software.stopped.$1=%a %U:%G %n" "$way"
}
end=$(($(date +%s) + $1)) seen=0
shift
while [ $# -gt 0 ] && [ "$(date +%s)" -lt "$end" ]; do
  bad=
  if ! cd "$2" 2>/dev/null; then
    bad="$2: $(why "$2/.")"
  elif [ "$4" != folder ] && ! [ -e "$3" ]; then
    bad="$3$([ ! -L "$3" ] || printf ', a link to %s' "$(readlink "$3")"): $(why "$3")"
  elif [ "$4" = program ] && ! [ -x "$3" ]; then
    bad="$3: cannot be executed"
  elif [ "$4" != folder ] && ! said=$(head -c 1 "$3" 2>&1 >/dev/null); then
    bad="$3: ${said##*: }"
  fi
  [ -z "$bad" ] || printf '@software.bad.%s=%s\n' "$1" "$bad"
  case $bad in *'Permission denied') stopped "$1" "$2${3:+/$3}" ;; esac
  cd /
  seen=$((seen + 1))
  shift 4
done
echo "@software.seen=$seen"
