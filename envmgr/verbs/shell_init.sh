# A shell that inherits a pin of this prefix keeps it while that generation is there: a job runs with what it was submitted with.
# MODULEPATH names the generation and not `current`: Lmod reads a modulefile again to unload it.

: "${envmgr_prefix?}" "${envmgr_init?}" "${envmgr_init_bash?}" "${envmgr_init_zsh?}" "${envmgr_hook?}"
case "${ENVMGR_PIN:-}" in
  "" | "$envmgr_prefix"/*) ;;
  *) # of another prefix, whose lines came later: what this one has is in MODULEPATH
    envmgr_path=:${MODULEPATH:-}:
    envmgr_path=${envmgr_path#*":$envmgr_prefix/generations/"}
    ENVMGR_PIN=$envmgr_prefix/generations/${envmgr_path%%/modules:*}
    ;;
esac
case "${ENVMGR_PIN:-}" in
  "$envmgr_prefix"/generations/*) [ -d "$ENVMGR_PIN/modules" ] || ENVMGR_PIN= ;;
  *) ENVMGR_PIN= ;;
esac
# With ENVMGR_USE=candidate the newest candidate, until the shell has one (ENVMGR_CANDIDATE); without it that goes.
case "${ENVMGR_USE:-}:${ENVMGR_CANDIDATE:-none}" in
  candidate:"${ENVMGR_PIN##*/}") ;;
  candidate:*)
    if [ -d "$envmgr_prefix/candidate/modules" ]; then
      ENVMGR_PIN=$envmgr_prefix/$(readlink "$envmgr_prefix/candidate")
      export ENVMGR_CANDIDATE="${ENVMGR_PIN##*/}"
    fi
    ;;
  *:"${ENVMGR_PIN##*/}") ENVMGR_PIN='' && unset ENVMGR_CANDIDATE ;;
esac
[ -n "$ENVMGR_PIN" ] || ENVMGR_PIN=$envmgr_prefix/$(readlink "$envmgr_prefix/current" || :)
if [ -d "$ENVMGR_PIN/modules" ]; then
  # The hook that lets a collection restore in another generation, last in two lists: Lmod reads the first, from 9.2.8 both.
  envmgr_path=${LMOD_PACKAGE_PATH:+:$LMOD_PACKAGE_PATH}:
  while case $envmgr_path in *":$envmgr_hook:"*) ;; *) false ;; esac; do
    envmgr_path=${envmgr_path%%":$envmgr_hook:"*}:${envmgr_path#*":$envmgr_hook:"}
  done
  envmgr_path=${envmgr_path#:}
  export LMOD_PACKAGE_PATH="$envmgr_path$envmgr_hook"
  envmgr_path=${LMOD_SITEPACKAGE_PREPEND:+:$LMOD_SITEPACKAGE_PREPEND}:
  while case $envmgr_path in *":$envmgr_hook/prepend.lua:"*) ;; *) false ;; esac; do
    envmgr_path=${envmgr_path%%":$envmgr_hook/prepend.lua:"*}:${envmgr_path#*":$envmgr_hook/prepend.lua:"}
  done
  envmgr_path=${envmgr_path#:}
  export LMOD_SITEPACKAGE_PREPEND="$envmgr_path$envmgr_hook/prepend.lua"
  # Other prefixes and the site have files in this list, too: each names caches.
  envmgr_path=
  envmgr_left=${LMOD_RC:-}:
  while [ -n "$envmgr_left" ]; do
    case ${envmgr_left%%:*} in
      "" | "$envmgr_prefix"/*) ;;
      *) envmgr_path=$envmgr_path:${envmgr_left%%:*} ;;
    esac
    envmgr_left=${envmgr_left#*:}
  done
  export ENVMGR_PIN LMOD_RC="$ENVMGR_PIN/lmodrc.lua$envmgr_path" LMOD_CACHED_LOADS=yes
  # Where Jupyter finds the kernels of entries: the user's own folders come first.
  envmgr_path=
  envmgr_left=${JUPYTER_PATH:-}:
  while [ -n "$envmgr_left" ]; do
    case ${envmgr_left%%:*} in
      "" | "$envmgr_prefix"/*) ;;
      *) envmgr_path=$envmgr_path${envmgr_left%%:*}: ;;
    esac
    envmgr_left=${envmgr_left#*:}
  done
  export JUPYTER_PATH="$envmgr_path$ENVMGR_PIN"
  export LMOD_AVAIL_EXTENSIONS="${LMOD_AVAIL_EXTENSIONS-no}" # else `module avail` lists each package of each entry
  case $(command -v module 2>/dev/null) in
    module | alias*) ;; # not a program of that name, which is printed with its path
    *)
      # shellcheck disable=SC1090 # Lmod's
      if [ -n "${BASH_VERSION:-}" ]; then . "$envmgr_init_bash"; elif [ -n "${ZSH_VERSION:-}" ]; then . "$envmgr_init_zsh"; else . "$envmgr_init"; fi
      ;;
  esac
  # another generation that was inherited goes: a shell sees one
  for envmgr_path in $(printf '%s' "${MODULEPATH:-}" | tr : ' '); do
    case "$envmgr_path" in
      "$ENVMGR_PIN/modules") ;;
      "$envmgr_prefix"/generations/*) module unuse "$envmgr_path" ;;
    esac
  done
  unset envmgr_path
  case ":${MODULEPATH:-}:" in
    *":$ENVMGR_PIN/modules:"*) ;;
    *) module use "$ENVMGR_PIN/modules" ;;
  esac
  # Modules of the user's own packages (`envmgr user`).
  case ${XDG_DATA_HOME-} in /*) envmgr_left=$XDG_DATA_HOME ;; *) envmgr_left=${HOME-}/.local/share ;; esac
  envmgr_left=$envmgr_left/envmgr/envs/.envmgr/modules
  # shellcheck disable=SC3067 # all that read this have -O: with another's HOME, root takes no modules of a user
  case ":${MODULEPATH:-}:" in
    *":$envmgr_left:"*) ;;
    *) if [ -d "$envmgr_left" ] && [ -O "$envmgr_left" ]; then module use --append "$envmgr_left"; fi ;;
  esac
else
  unset ENVMGR_PIN
fi
unset envmgr_left envmgr_prefix envmgr_init envmgr_init_bash envmgr_init_zsh envmgr_hook
