# slurm_conf_fault FILE: what is wrong with the SLURM_CONF of this shell, where `FILE` is the right one; nothing where all is well.

slurm_conf_fault() {
  if [ -z "${SLURM_CONF-}" ] || [ "$SLURM_CONF" = "$1" ]; then return 0; fi
  if ! [ -e "$SLURM_CONF" ]; then
    echo "is not there"
  elif ! [ -r "$SLURM_CONF" ]; then
    echo "cannot be read"
  elif [ -r "$1" ]; then
    for slurm_conf_name in ClusterName SlurmctldHost ControlMachine; do
      slurm_conf_own=$(slurm_conf_value "$slurm_conf_name" "$SLURM_CONF")
      slurm_conf_right=$(slurm_conf_value "$slurm_conf_name" "$1")
      if [ -n "$slurm_conf_own" ] && [ -n "$slurm_conf_right" ] && [ "$slurm_conf_own" != "$slurm_conf_right" ]; then
        echo "is another cluster's: $slurm_conf_name=$slurm_conf_own, not $slurm_conf_right"
        return 0
      fi
    done
  fi
}
slurm_conf_value() { # NAME FILE: the first one, in small letters, without an address
  sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*\([^[:space:]#(]*\).*/\1/Ip" "$2" 2>/dev/null | head -n 1 | tr '[:upper:]' '[:lower:]'
}
