# shellcheck shell=sh
# Where programs put what they need for a while, and the user's home: what of it this account cannot have.
: "${user?}"

for places_name in TMPDIR TMP TEMP XDG_RUNTIME_DIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME PIP_CACHE_DIR CONDA_PKGS_DIRS \
  APPTAINER_TMPDIR APPTAINER_CACHEDIR SINGULARITY_TMPDIR SINGULARITY_CACHEDIR MPLCONFIGDIR NUMBA_CACHE_DIR TORCH_HOME HF_HOME \
  TRITON_CACHE_DIR CUDA_CACHE_PATH JUPYTER_RUNTIME_DIR R_LIBS_USER PYTHONUSERBASE PYTHONPYCACHEPREFIX; do
  eval "places_folder=\${$places_name-}"
  case $places_folder in /*) ;; *) continue ;; esac
  # Programs make what is not there, where they can.
  places_above=$places_folder
  while [ ! -e "$places_above" ] && [ ! -L "$places_above" ] && [ "$places_name" != TMPDIR ] && [ "$places_name" != XDG_RUNTIME_DIR ]; do
    places_above=${places_above%/*}
    [ -n "$places_above" ] || places_above=/
  done
  if ! { [ -d "$places_above" ] && [ -w "$places_above" ]; }; then put "places.of.$places_name" "$places_folder"; fi
done
for places_name in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT PIP_CONFIG_FILE CONDARC MAMBARC KRB5_CONFIG \
  PYTHONSTARTUP UCX_CONFIG_FILE NCCL_CONF_FILE OMPI_MCA_mca_base_param_files JUPYTER_CONFIG_PATH GIT_CONFIG_GLOBAL ENV; do
  eval "places_folder=\${$places_name-}"
  case $places_folder in /*) [ -r "$places_folder" ] || put "places.file.$places_name" "$places_folder" ;; esac
done
for places_name in CC CXX FC F77 F90 MPICC MPICXX MPIFC NVCC; do
  eval "places_folder=\${$places_name-}"
  places_folder=${places_folder%% *}
  [ -z "$places_folder" ] || command -v "$places_folder" >/dev/null || put "places.program.$places_name" "$places_folder"
done
if [ -z "${TMPDIR-}" ] && ! [ -w /tmp ]; then
  case $(stat -L -c %a /tmp) in *[37]) put places.tmp_readonly "$(findmnt -n -o TARGET -T /tmp)" ;; *) put places.tmp /tmp ;; esac
fi
# Once for an account of a node: what is written there.
# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell && [ -w "${TMPDIR:-/tmp}" ]; then
  [ ! -d "${HOME-}" ] || put places.home_is "$(stat -c %i "$HOME") $(stat -f -c %T "$HOME")"
  # What lies in the home is looked at and not written: a file that comes and goes leaves its folder with another time.
  places_file=
  case $(cd -P "${TMPDIR:-/tmp}" 2>/dev/null && pwd)/ in "$(cd -P "${HOME:-/nonexistent}" 2>/dev/null && pwd)"/?*) places_file=home ;; esac
  if [ -n "$places_file" ]; then
    :
  elif places_file=$(mktemp "${TMPDIR:-/tmp}/envmgr-audit.XXXXXX" 2>/dev/null); then
    places_said=$( { printf '%65536s' '' >"$places_file"; } 2>&1) || put places.full "$places_said"
  else # the shell's own words: what a program says may be the loader's
    places_file=${TMPDIR:-/tmp}/envmgr-audit.$$
    places_said=$( (set -C && : >"$places_file") 2>&1) || {
      places_file=
      put places.full "$places_said"
    }
  fi
  case $places_file in /*) rm -f "$places_file" ;; esac
fi
# Whether programs may start there, by how it is mounted: its folder is not touched, as its server may hang.
# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell && [ -r /proc/self/mountinfo ]; then
  for places_name in HOME TMPDIR TMP TEMP SCRATCH WORK PROJECT /tmp /var/tmp /dev/shm; do
    case $places_name in
      HOME) places_folder=$(cd -P "${HOME:-/nonexistent}" 2>/dev/null && pwd) ;;
      TMPDIR) places_folder=$(cd -P "${TMPDIR:-/nonexistent}" 2>/dev/null && pwd) ;;
      /*) places_folder=$places_name ;;
      *) eval "places_folder=\${$places_name-}" ;;
    esac
    case $places_folder in /?*) printf '%s %s\n' "$places_name" "$places_folder" ;; esac
  done | awk '
    FILENAME == "-" { folder[$1] = $2; next }
    { for (name in folder) if ($5 == "/" || index(folder[name] "/", $5 "/") == 1) if (length($5) >= length(at[name])) {
        at[name] = $5
        how[name] = ("," $6 ",") ~ /,noexec,/ ? "noexec" : "exec"
    } }
    END { for (name in at) if (how[name] == "noexec") print name, at[name] }' - /proc/self/mountinfo | LC_ALL=C sort |
    while read -r places_name places_said; do put "places.noexec.$places_name" "$places_said"; done
fi
if [ -d /dev/shm ] && ! [ -w /dev/shm ]; then put places.shm /dev/shm; fi
account_of "$(id -un)"
places_home=${account_home?}
if [ -n "$places_home" ] && [ -n "${HOME-}" ] && [ "$HOME" != "$places_home" ] && [ "$(cd "$HOME" 2>/dev/null && pwd -P)" != "$(cd "$places_home" 2>/dev/null && pwd -P)" ]; then
  put places.other_home "$HOME"
fi
case ${HOME-} in
  /nonexistent | / | '') ;; # an account that belongs to no person
  *)
    if ! [ -d "$HOME" ]; then
      put places.home "is not there"
    elif ! [ -w "$HOME" ]; then
      put places.home "cannot be written"
    else
      # OWNER:home lies in the home itself, OWNER:below in a folder of it; only OWNER is elsewhere, or behind a link.
      places_real=$(readlink -f "$HOME")
      [ "$(readlink -f "${places_home:-$HOME}")" = "$places_real" ] || places_real=
      places_said=$(for places_folder in "$HOME/.lmod.d" "$HOME/.config" "$HOME/.config/lmod" "$HOME/.cache" "$HOME/.cache/lmod" "$HOME/.local" "$HOME/.conda"; do
        if [ -L "$places_folder" ] && ! [ -e "$places_folder" ]; then
          printf -- '-> %s %s\n' "$(readlink "$places_folder")" "$places_folder"
        elif [ -d "$places_folder" ] && ! { [ -w "$places_folder" ] && [ -x "$places_folder" ]; }; then
          places_how=
          if [ "$(readlink -f "$places_folder")" = "${places_real%/}${places_folder#"$HOME"}" ]; then
            case ${places_folder#"$HOME"/} in */*) places_how=:below ;; *) places_how=:home ;; esac
          fi
          printf '%s%s %s\n' "$(stat -c %U "$places_folder")" "$places_how" "$places_folder"
        fi
      done)
      [ -z "$places_said" ] || printf '%s\n' "$places_said" | lines places.folders
    fi
    ;;
esac
