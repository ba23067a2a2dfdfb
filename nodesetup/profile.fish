# envmgr: the shared modules, pinned to one generation. Installed by `envmgr node-setup`; `envmgr node-setup --undo` removes it.
# For fish. /etc/envmgr/node/pin works everything out, waits two seconds at most, and prints what to set.
# One line, as in zz-envmgr.sh.
test -r /etc/envmgr/node/pin; and not set -q ENVMGR_PINNING; and /usr/bin/env ENVMGR_PINNING=yes /bin/sh /etc/envmgr/node/pin fish fish (status --is-interactive; and echo i; or echo -) $fish_pid | source; or true #
