# shellcheck shell=sh
# Lmod's own account of its configuration. Its JSON comes on stderr with the keys in random order, and a node need not have
# anything that reads JSON but the Lua that runs Lmod, named in Lmod's first line. `lmod_reader` is lmod_config.lua.
: "${lmod_reader?}"

# lmod_config: asks once for all checks of a shell; status 1, and $lmod_said, where Lmod cannot tell.
lmod_config() {
  [ -z "${lmod_config-}" ] || return 0
  lmod_said=$("$LMOD_CMD" bash --no_redirect --config_json 2>&1 >/dev/null)
  read -r lmod_lua <"$LMOD_CMD" || return 1
  lmod_config=$(printf '%s\n' "$lmod_said" | ${lmod_lua#"#!"} -e "$lmod_reader" 2>/dev/null | grep -v '^propT\.')
  [ -n "$lmod_config" ]
}
# lmod_lines: `configT.NAME=VALUE`, `rcfileA.1=PATH`, `cache.1.1=PATH` (a cache's folder), sorted.
lmod_lines() { printf '%s\n' "$lmod_config"; }
lmod_value() { lmod_lines | sed -n "s|^$1=||p"; }
