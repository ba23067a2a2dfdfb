# shellcheck shell=sh
# Version and settings of Environment Modules. Its answers come on stderr.

if [ -z "${LMOD_CMD-}" ] && [ -n "${MODULES_CMD-}" ]; then
  # shellcheck disable=SC2069 # its stdout is for eval
  environment_modules=$("$MODULES_CMD" bash config 2>&1 >/dev/null | plain)
  environment_modules_version=$(printf '%s\n' "$environment_modules" | sed -n 's/^Modules Release \([^ ]*\).*/\1/p')
  if [ -n "$environment_modules_version" ]; then
    put environment_modules.version "$environment_modules_version"
    printf '%s\n' "$environment_modules" | grep -E '^[a-z_0-9]+ ' |
      grep -v -E '^(color|colors|editor|pager|rcfile|redirect_output|term_background|term_width|reset_target_state) ' |
      lines environment_modules.settings
  fi
fi
