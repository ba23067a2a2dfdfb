# $1: seconds it may take; then ENTRY ROOT FILE SIZE KIND of each install, SIZE 0 if not known, KIND `program`, `file` or `folder` (no FILE). Run as the ordinary user. It looks at
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
read -r now _ </proc/uptime
end=$((${now%.*} + $1)) seen=0
shift
while [ $# -gt 0 ] && read -r now _ </proc/uptime && [ "${now%.*}" -lt "$end" ]; do
  bad='' at=$3
  if ! cd "$2" 2>/dev/null; then
    at=$2 bad=$(why "$2/.")
  elif [ "$5" != folder ] && ! [ -e "$3" ]; then
    bad=$(why "$3")
  elif [ "$5" = program ] && ! [ -x "$3" ]; then
    bad="cannot be executed"
  elif [ "$5" != folder ] && ! said=$(head -c 1 "$3" 2>&1 >/dev/null); then
    bad=${said##*: }
  elif [ "$4" != 0 ] && said=$(stat -L -c %s "$3") && [ "$said" != "$4" ]; then
    bad="has $said bytes, $4 when it was published"
  fi
  [ -z "$bad" ] || [ ! -L "$at" ] || at="$at, a link to $(readlink -m "$at")"
  [ -z "$bad" ] || printf '@software.bad.%s=%s: %s\n' "$1" "$at" "$bad"
  case $bad in *'Permission denied') stopped "$1" "$2${3:+/$3}" ;; esac
  seen=$((seen + 1)) && shift 5
done
echo "@software.seen=$seen"
