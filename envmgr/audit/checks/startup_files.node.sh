# shellcheck shell=sh
# The system's start-up files by content: lines SHA256 PATH.

set --
for startup_file in /etc/profile /etc/bash.bashrc /etc/bashrc /etc/environment /etc/csh.cshrc /etc/csh.login /etc/zshenv /etc/zprofile \
  /etc/zsh/* /etc/profile.d/*; do
  if [ -s "$startup_file" ] && [ -f "$startup_file" ] && [ -r "$startup_file" ]; then set -- "$@" "$startup_file"; fi
done
[ $# = 0 ] || sha256sum "$@" | sed 's/^\(.\{12\}\)[0-9a-f]*  /\1 /' | lines startup_files.sums
put startup_files.sh "$(readlink -f /bin/sh)"
