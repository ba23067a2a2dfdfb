# What root's own check of signatures found on this node, and whose signatures it takes.

signature_state='' signature_boot='' signature_at=''
if [ -r /var/lib/envmgr/flip ]; then
  {
    read -r signature_state _ _ signature_boot signature_at
    read -r _
    read -r _
    read -r signature_prefix
    read -r _ signature_reason
  } </var/lib/envmgr/flip
  read -r signature_now _ </proc/uptime
  signature_late=no
  [ "$signature_boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] || signature_late=yes
  case $signature_at in '' | *[!0-9]*) signature_late=yes ;; *) [ $((${signature_now%%.*} - signature_at)) -lt "${signature_limit?}" ] || signature_late=yes ;; esac
  put signature.state "$signature_state"
  put signature.prefix "$signature_prefix"
  put signature.reason "$signature_reason"
  put signature.late "$signature_late"
fi
if [ -r /etc/envmgr/allowed_signers ]; then put signature.signers "$(sum </etc/envmgr/allowed_signers)"; fi
