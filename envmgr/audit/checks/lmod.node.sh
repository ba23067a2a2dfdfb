# shellcheck shell=sh
# Whether Lmod itself runs on the node, without anything of a user's.
: "${lmod_home?}"

if [ -n "$lmod_home" ]; then
  if ! [ -r "$lmod_home/init/bash" ] || ! [ -r "$lmod_home/libexec/lmod" ]; then
    put lmod.gone "$lmod_home"
  elif ! { with_limit 10 "$0.lmod" "$lmod_home/libexec/lmod" bash --version && grep -q "Modules based on Lua" "$0.lmod.err" "$0.lmod"; }; then
    grep -h . "$0.lmod.err" "$0.lmod" 2>/dev/null | plain | head -n 3 | cut -c1-300 | lines lmod.fails
  fi
fi
