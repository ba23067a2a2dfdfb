# shellcheck shell=sh
# Lmod's version, settings and own files; behind lmod_config.sh. Left out of the settings: what belongs to the machine, the
# terminal or the home, and what is reported on its own.

if [ -n "${LMOD_CMD-}" ]; then
  # Where node-setup's word on `module avail` is missing, the check of contexts tells it.
  case ${LMOD_AVAIL_EXTENSIONS-no} in no) lmod_told=disp_av_ext ;; *) lmod_told=spdr_loads ;; esac
  if lmod_config; then
    put lmod.version "$(lmod_value configT.lmodV)"
    put lmod.lua "$(lmod_value configT.luaV)"
    lmod_lines | sed -n 's/^configT\.//p' | sed 's/^\(tcl_version=[0-9]*\.[0-9]*\).*/\1/' |
      grep -v -E "^(uname|os_name|shell|lua_term_A|lang|usrCacheDir|lmodV|luaV|rc|modRC|numSC|spdr_ignore|spdr_loads|$lmod_told)=" |
      lines lmod.settings
    for lmod_key in sitePkg lmod_cfg nag z01_admin; do
      lmod_file=$(lmod_value "configT.$lmod_key")
      [ ! -f "$lmod_file" ] || printf '%s %s %s\n' "$lmod_key" "$(sum <"$lmod_file" 2>/dev/null)" "$lmod_file"
    done | lines lmod.files
  else
    put lmod.broken "$(printf '%s\n' "${lmod_said?}" | grep . | head -n 2 | cut -c1-300)"
  fi
  # Our hook in a list is looked at by the check saved-collections.
  awk 'BEGIN { for (name in ENVIRON) if (name ~ /^LMOD_/) {
    value = ENVIRON[name]
    if (!sub(/:?\/etc\/envmgr\/node\/lmod(\/prepend\.lua)?$/, "", value) || value != "") print name "=" value
  } }' | LC_ALL=C sort | grep -v -E \
    '^LMOD_(CMD|DIR|PKG|ROOT|RC|VERSION|CACHED_LOADS|IGNORE_CACHE|MODULERCFILE|MODULERC|sys|arch|FAMILY_.*|SETTARG_.*|FULL_SETTARG.*)=|^LMOD_AVAIL_EXTENSIONS=no$' |
    lines lmod.variables
fi
