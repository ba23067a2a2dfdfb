# shellcheck shell=sh
# What Lmod says of caches in a login shell; behind lmod_config.sh.
: "${generation?}"

if [ -n "${LMOD_CMD-}" ] && lmod_config; then
  put cache.ignored "$(lmod_value configT.spdr_ignore)"
  put cache.loads "$(lmod_value configT.spdr_loads)"
  lmod_lines | sed -n 's/^cache\.[0-9]*\.1=//p' | LC_ALL=C sort -u | lines cache.folders
  case :${MODULEPATH-}: in *":$generation/modules:"* | *":$generation/modules/:"*) put cache.ours yes ;; esac
  case "
${lmod_config?}
" in *"=$generation/lmodrc.lua
"*) put cache.named yes ;; esac
fi
