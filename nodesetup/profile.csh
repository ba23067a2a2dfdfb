# envmgr: the shared modules, pinned to one generation. Installed by `envmgr node-setup`; `envmgr node-setup --undo` removes it.
# For csh and tcsh. /etc/envmgr/node/pin works everything out, waits two seconds at most, and prints what to set.
if ( -x /etc/envmgr/node/pin ) then
  if ( $?prompt ) then
    eval "`/etc/envmgr/node/pin csh i`"
  else
    eval "`/etc/envmgr/node/pin csh`"
  endif
  if ( $?envmgr_lmod ) then
    if ( "`alias module`" == "" ) source "$envmgr_lmod"
    unset envmgr_lmod
  endif
endif
