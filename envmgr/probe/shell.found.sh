# shellcheck shell=sh
# What start-up files have left of the shell's own settings: kept for the checks that tell of them, and put right for the probe.

# shellcheck disable=SC2034 # for the checks
shell_flags=$-
# shellcheck disable=SC2034
shell_ifs=${IFS- }
set +e +u +f +C +a +v +x
IFS=' 	
'
