# A job of Slurm may have mounts of its own (job_container/tmpfs), and so may a login (pam_namespace): what is mounted there is seen by
# nobody else. So this runs where the node's first process is.
: "${stage_script?}"

if [ "$(id -u)" = 0 ] && [ "$(readlink /proc/self/ns/mnt)" != "$(readlink /proc/1/ns/mnt)" ]; then
  exec nsenter --target 1 --mount -- /bin/sh -c "$stage_script"
fi
exec /bin/sh -c "$stage_script"
