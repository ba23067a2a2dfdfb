# Driver and GPUs, and which of them Slurm gave to a job; `gpus_look` is node-setup's own.
: "${fitness_seconds?}"

ask_smi() {
  with_limit "$fitness_seconds" "$0.smi" nvidia-smi "$@"
  set -- "$?"
  if [ "$1" = 0 ]; then smi_said=$(cat "$0.smi"); else smi_said=$(cat "$0.smi" "$0.smi.err" | plain | grep .); fi
  return "$1"
}

gpus_look >"$0.gpus"
put fitness.driver "$(sed -n 's/^driver //p' "$0.gpus")"
put fitness.library "$(sed -n 's/^library_version //p' "$0.gpus")"
put fitness.cuda "$(sed -n 's/^cuda //p' "$0.gpus")"
fitness_smi=$(sed -n 's/^smi //p' "$0.gpus")
[ -z "$fitness_smi" ] || put fitness.smi "$fitness_smi"
sed -n 's/^gpu //p' "$0.gpus" | LC_ALL=C sort | lines fitness.gpus
[ -z "${CUDA_VISIBLE_DEVICES-}" ] || own fitness.visible "$CUDA_VISIBLE_DEVICES"
