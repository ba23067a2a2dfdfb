# shellcheck shell=sh
# PATH of each install of the upstream: whether this user can enter it, and the sha256 of its manifest.

seen=0
while [ $# -gt 0 ]; do
  if cd "$1" 2>/dev/null; then
    cd / || exit
    sum=$(sha256sum "$1.manifest.json" 2>/dev/null) || sum=
    printf '@upstream.manifest.%s=%s\n' "$seen" "${sum%% *}"
  else
    said=$(ls -dL "$1/." 2>&1 >/dev/null)
    printf '@upstream.bad.%s=%s\n' "$seen" "${said##*: }"
  fi
  seen=$((seen + 1))
  printf '@upstream.seen=%s\n' "$seen"
  shift
done
