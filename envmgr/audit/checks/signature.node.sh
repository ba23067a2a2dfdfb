# What root's own check of signatures found on this node, and whose signatures it takes.
[ ! -r /var/lib/envmgr/flip ] || awk -v limit="${signature_limit?}" '
  FNR == 1 { file++ }
  file == 1 { boot = $1 }
  file == 2 { now = int($1) }
  file < 3 { next }
  FNR == 1 { print "@signature.state=" $1 "\n@signature.late=" ($4 == boot && $5 ~ /^[0-9]+$/ && now - $5 < limit ? "no" : "yes") }
  FNR == 4 { print "@signature.prefix=" $0 }
  FNR == 5 { sub(/^[^ ]+ */, ""); print "@signature.reason=" $0 }' /proc/sys/kernel/random/boot_id /proc/uptime - </var/lib/envmgr/flip
if [ -r /etc/envmgr/allowed_signers ]; then put signature.signers "$(sum </etc/envmgr/allowed_signers)"; fi
