# envmgr: the shared modules, pinned to one generation. Installed by `envmgr node-setup`; `envmgr node-setup --undo` removes it.
# For sh, bash, zsh and ksh. /etc/envmgr/node/pin works everything out, waits two seconds at most, and prints what to set.
if [ -x /etc/envmgr/node/pin ]; then
  \eval "$(MODULEPATH="${MODULEPATH-}" LMOD_RC="${LMOD_RC-}" \
    LMOD_PACKAGE_PATH="${LMOD_PACKAGE_PATH-}" LMOD_SITEPACKAGE_PREPEND="${LMOD_SITEPACKAGE_PREPEND-}" \
    /etc/envmgr/node/pin sh "${BASH_VERSION:+bash}${ZSH_VERSION:+zsh}${KSH_VERSION:+ksh}" "$-")" || :
fi
