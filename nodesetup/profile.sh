# envmgr: the shared modules, pinned to one generation. Installed by `envmgr node-setup`; `envmgr node-setup --undo` removes it.
# For sh, bash, zsh and ksh. /etc/envmgr/node/pin works everything out, waits two seconds at most, and prints what to set.
# One line: a file that was cut after any line, or has the line ends of another system, still ends a login well. A shell that pin starts skips it.
[ ! -r /etc/envmgr/node/pin ] || [ -n "${ENVMGR_PINNING-}" ] || \eval "$(MODULEPATH="${MODULEPATH-}" LMOD_RC="${LMOD_RC-}" JUPYTER_PATH="${JUPYTER_PATH-}" LMOD_PACKAGE_PATH="${LMOD_PACKAGE_PATH-}" LMOD_SITEPACKAGE_PREPEND="${LMOD_SITEPACKAGE_PREPEND-}" ENVMGR_PINNING=yes /bin/sh /etc/envmgr/node/pin sh "${BASH_VERSION:+bash}${ZSH_VERSION:+zsh}${KSH_VERSION:+ksh}" "$-" "$$")" || : #
