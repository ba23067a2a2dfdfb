# shellcheck shell=sh
# Lines `KIND[:other] FILE[|MODULES]`, only of login bash: other contexts of the same account have the same home. `other`: the file is not the
# user's own, or a link leads to it, or out of the home: no command may change it. A cache in use is one
# that Lmod takes (l_readCacheFile of its src/Cache.lua): younger than LMOD_ANCIENT_TIME, and newer than a system cache of the
# same folder. Behind lmod_config.sh.

user_files_conda() {
  conda_kind=conda
  ! grep -q -s -E '^ *auto_activate(_base)? *: *([Ff]alse|no|off)' "$HOME/.condarc" "$HOME/.conda/.condarc" || conda_kind=conda-off
  set -- "$HOME"/.bashrc "$HOME"/.bash_profile "$HOME"/.bash_login "$HOME"/.profile "$HOME"/.zshrc "$HOME"/.zprofile \
    "$HOME"/.zshenv "$HOME"/.cshrc "$HOME"/.tcshrc "$HOME"/.login /etc/profile /etc/bash.bashrc /etc/bashrc /etc/csh.cshrc \
    /etc/zshrc /etc/zsh/zshrc /etc/profile.d/*.sh /etc/profile.d/*.csh
  grep -l -s '^# >>> conda initialize >>>' "$@" | sed "s|^|$conda_kind |"
  grep -l -s '^# >>> mamba initialize >>>' "$@" | sed 's|^|mamba |'
}
user_files_cache() {
  folder=$HOME/.lmod.d/.cache
  ! grep -q -s '\.cache/lmod' "${LMOD_CMD%/*}/myGlobals.lua" || folder=$HOME/.cache/lmod
  [ -d "$folder" ] && [ ! -e "$folder/invalidated" ] && [ -z "${LMOD_IGNORE_CACHE-}" ] || return 0
  for file in "$folder"/spiderT*.lua; do
    [ -s "$file" ] || continue
    case $file in *.old.lua) continue ;; esac
    made=$(stat -c %Y "$file")
    [ "$(($(date +%s) - made))" -lt "${LMOD_ANCIENT_TIME:-86400}" ] || continue
    printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep . | while read -r modules; do
      grep -q -F "[\"$modules\"]" "$file" && [ -n "$(find "$modules/" ! -type d -cnewer "$file" 2>/dev/null | head -n 1)" ] || continue
      ! user_files_covered "$modules" "$made" || continue
      printf 'cache %s|%s\n' "$file" "$modules"
    done
  done
}
user_files_covered() {
  lmod_config || return 1
  lmod_lines | sed -n 's/^cache\.[0-9]*\.1=//p' | while read -r system; do
    grep -q -s -F "[\"$1\"]" "$system/spiderT.lua" && [ "$(stat -c %Y "$system/spiderT.lua")" -ge "$2" ] && echo yes
  done | grep -q yes
}
user_files_of_user() { [ "$(stat -L -c %u "$1")" = "$(id -u)" ]; }
# FILE: whether it is the user's, and lies in the home without a link on the way.
user_files_own() { user_files_of_user "$1" && [ "$(readlink -f "$1")" = "$user_files_home${1#"${HOME%/}"}" ]; }
# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell; then
  # Empty where HOME is not that of the account.
  account_of "$(id -un)"
  user_files_home=$(readlink -f "$HOME")
  [ -z "${account_home?}" ] || [ "$(readlink -f "$account_home")" = "$user_files_home" ] || user_files_home=
  user_files_home=${user_files_home%/}
  (
    unset IFS
    user_files_conda
    for file in "$HOME/.lmodrc.lua" "$HOME/.modulerc" "$HOME/.modulerc.lua"; do
      [ ! -f "$file" ] || printf 'own %s\n' "$file"
    done
    [ -z "${LMOD_CMD-}" ] || user_files_cache
    [ ! -f "$HOME/.ssh/rc" ] || printf 'rc %s\n' "$HOME/.ssh/rc"
    for file in "$HOME/.ssh/environment" "$HOME/.pam_environment"; do
      ! grep -q -s -E '^[A-Za-z_]' "$file" ||
        printf 'session %s|%s\n' "$file" "$(sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\).*/\1/p' "$file" | sort -u | head -n 9 | paste -sd ' ' -)"
    done
    # ssh passes over a private key that others can read, and sshd over keys in a home that others can write to.
    for file in "$HOME"/.ssh/id_*; do
      case $file in *.pub) continue ;; esac
      { [ -f "$file" ] && user_files_of_user "$file"; } || continue # of another's key ssh asks no mode
      [ -z "$(find -L "$file" -perm /077)" ] || printf 'key %s|%s\n' "$file" "$(stat -L -c %a "$file")"
    done
    for file in "$HOME" "$HOME/.ssh" "$HOME/.ssh/authorized_keys"; do
      user_files_open=
      [ ! -e "$HOME/.ssh/authorized_keys" ] || user_files_open=$(stat -L -c '%A %G' "$file")
      case $user_files_open in
        ?????w??-?" $(id -un)") ;; # Debian's sshd lets a group write that is the user's own
        ?????w* | ????????w*) printf 'open %s|%s\n' "$file" "$(stat -L -c %a "$file")" ;;
      esac
    done
    for file in "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" /etc/pip.conf; do
      found=$(grep -s -i -E '^[[:space:]]*(user[[:space:]]*[=:][[:space:]]*(1|true|yes|on)|(target|prefix|root)[[:space:]]*[=:])' "$file" | head -n 1 | tr -s ' \t' ' ')
      [ -z "$found" ] || printf 'pipconf %s|%s\n' "$file" "$found"
    done
    if [ -n "${user_site?}" ] && [ -z "${PYTHONNOUSERSITE-}" ]; then
      for folder in "${PYTHONUSERBASE:-$HOME/.local}"/lib/python3*/site-packages; do
        found=$(cd "$folder" 2>/dev/null && find . -maxdepth 1 -name '*.dist-info' | LC_ALL=C sort | sed 's|^./||; s|-[^-]*[.]dist-info$||' | head -n 5 | tr '\n' ' ')
        [ -z "$found" ] || printf 'pip %s|%s\n' "$folder" "${found% }"
      done
    fi
    for user_files_name in abc ast bisect calendar code codecs collections copy csv ctypes datetime decimal email enum functools glob gzip \
      hashlib heapq html http inspect io itertools json logging math matplotlib multiprocessing numbers numpy operator os pandas parser \
      pathlib pickle platform profile queue random re sched scipy secrets select shutil signal site socket ssl stat statistics string \
      struct subprocess sys tempfile tensorflow test threading time token torch traceback types typing uuid warnings weakref xml zipfile; do
      [ ! -e "$HOME/$user_files_name.py" ] || printf 'shadow %s\n' "$HOME/$user_files_name.py"
    done
  ) 2>/dev/null | while read -r kind file; do
    case $kind in key | open | cache | shadow | pip) user_files_own "${file%%|*}" || kind=$kind:other ;; esac
    # shellcheck disable=SC2088 # a name for people
    case $user_files_home,$file in
      ?*,"${HOME%/}"/*) file="~/${file#"${HOME%/}/"}" ;;
    esac
    printf '%s %s\n' "$kind" "$file"
  done | lines user_files
fi
