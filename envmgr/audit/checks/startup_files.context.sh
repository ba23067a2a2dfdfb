# shellcheck shell=sh
# Start-up files, and what they read, that this account may not read, and one that keeps another from being read: of login bash. Of /etc/envmgr
# what envmgr made for users: a key to sign with lies there, too, and is closed on purpose.
: "${startup_systems?}"

# startup_unread PATH: what keeps this account from a file or folder of the system: itself, or a folder on its way, also behind a link.
startup_unread() {
  startup_way=$1
  if [ -L "$1" ] && ! [ -e "$1" ]; then startup_way=$(readlink -m "$1"); fi
  while [ ! -e "${startup_way:-/}" ]; do startup_way=${startup_way%/*}; done
  if [ -d "${startup_way:-/}" ]; then [ -x "${startup_way:-/}" ]; else [ -r "$startup_way" ]; fi || printf '%s\n' "${startup_way:-/}"
}

# startup_links PATH…: `NAME PATH FILE` of programs, without those that are links to alternatives, which another check looks at.
startup_links() {
  # shellcheck disable=SC2046 # words
  set -- $(find "$@" -maxdepth 0 ! -lname '/etc/alternatives/*')
  readlink -f "$@" | while read -r startup_file; do
    printf '%s %s %s\n' "${1##*/}" "$1" "$startup_file"
    shift
  done
}

# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell && [ "$(id -u)" != 0 ]; then
  # shellcheck disable=SC2046,SC3045 # words; it is bash
  startup_links $(type -P python python3 pip pip3 perl ruby gcc g++ gfortran cc c++ clang ld make cmake git java R julia mpirun mpicc mpif90 nvcc \
    srun sbatch ssh tar) 2>/dev/null | lines startup_programs
  startup_lmod=${LMOD_PKG:-${LMOD_CMD:+${LMOD_CMD%/libexec/lmod}}}
  {
    for startup_file in $startup_systems /etc/ld.so.conf.d/*.conf; do startup_unread "$startup_file"; done
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n -E 's/.* => (\/(usr\/)?lib)/\1/p' |
      while read -r startup_file; do startup_unread "$startup_file"; done
    for startup_file in /etc/profile /etc/bash.bashrc /etc/bashrc /etc/environment /etc/zsh /etc/csh.cshrc /etc/profile.d \
      /etc/lmod /etc/envmgr /etc/envmgr/site.yaml /etc/envmgr/allowed_signers /etc/envmgr/node ${startup_lmod:+"$startup_lmod" "$startup_lmod/init" "$startup_lmod/libexec"}; do
      if [ -d "$startup_file" ]; then
        if ! { [ -r "$startup_file" ] && [ -x "$startup_file" ]; }; then
          printf '%s\n' "$startup_file"
          continue
        fi
        [ "$startup_file" != /etc/envmgr ] || continue
        for startup_inner in "$startup_file"/*; do
          [ ! -e "$startup_inner" ] || [ -r "$startup_inner" ] || printf '%s\n' "$startup_inner"
        done
      elif [ -e "$startup_file" ] && ! [ -r "$startup_file" ]; then
        printf '%s\n' "$startup_file"
      fi
    done
  } | LC_ALL=C sort -u | lines startup_files
fi
# shellcheck disable=SC3044 # it is bash
if [ -n "${BASH_VERSION-}" ] && shopt -q login_shell && [ -r "$HOME/.profile" ]; then
  for startup_file in "$HOME/.bash_profile" "$HOME/.bash_login"; do # bash reads only the first of them
    if [ -r "$startup_file" ]; then
      grep -q -E '\.(profile|bashrc)' "$startup_file" || put startup_hides "$startup_file"
      break
    fi
  done
fi
