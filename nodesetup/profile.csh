# envmgr: the shared modules, pinned to one generation. Installed by `envmgr node-setup`; `envmgr node-setup --undo` removes it.
# For csh and tcsh. /etc/envmgr/node/pin works everything out, waits two seconds at most, and prints what to set.
# One line, as in zz-envmgr.sh. Were pin started without /bin/sh, a csh would read it that lost its first line, and this file before it.
if ( -r /etc/envmgr/node/pin && ! $?ENVMGR_PINNING ) eval "`/usr/bin/env ENVMGR_PINNING=yes /bin/sh /etc/envmgr/node/pin csh $?prompt $$`" #
