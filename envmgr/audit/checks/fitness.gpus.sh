# Driver and GPUs, and which of them Slurm gave to a job; `gpus_look` is node-setup's own.
: "${fitness_seconds?}"
ask_smi() {
  with_limit "$fitness_seconds" "$0.smi" nvidia-smi "$@"
  set -- "$?"
  if [ "$1" = 0 ]; then smi_said=$(cat "$0.smi"); else smi_said=$(cat "$0.smi" "$0.smi.err" | plain | grep .); fi
  return "$1"
}
gpus_look | LC_ALL=C sort | sed -n 's/^gpu /@fitness.gpus|/p; s/^driver /@fitness.driver=/p; s/^library_version /@fitness.library=/p
  s/^cuda /@fitness.cuda=/p; s/^smi /@fitness.smi=/p'
[ -z "${CUDA_VISIBLE_DEVICES-}" ] || own fitness.visible "$CUDA_VISIBLE_DEVICES"
