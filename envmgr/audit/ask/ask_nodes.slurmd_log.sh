# The first error that slurmd, or a job's slurmstepd, wrote in the last `ago` seconds: why a job ended without an answer. Its log, where
# slurm.conf names a file; else the journal.
: "${ago?}" "${host_name?}"
log_conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
log_file=$(sed -n -E 's/^[[:space:]]*SlurmdLogFile[[:space:]]*=[[:space:]]*([^[:space:]#]+).*/\1/Ip' "$log_conf" 2>/dev/null | tail -n 1 | sed "s/%[hn]/${host_name%%.*}/g")
if [ -n "$log_file" ]; then
  with_limit 5 "$0.log" tail -n 400 "$log_file"
  log_since=$(date -d "-$ago seconds" +%Y-%m-%dT%H:%M:%S)
  awk -v since="[$log_since" '$1 >= since' "$0.log" >"$0.lines" 2>/dev/null
else
  with_limit 5 "$0.lines" journalctl -q -o cat -u slurmd --since "-${ago}s" -n 400
fi
# Without its time, the number of its job and other numbers of jobs: nodes with one cause say the same.
put slurmd_log.error "$(grep -E '(error|fatal): ' "$0.lines" | grep -v -i -e 'munge' -e 'slurm_receive_msg' |
  sed -E -e 's/^\[[^]]*\] //' -e 's/^\[[^]]*\] //' -e 's/ ?(StepId|JobId)=[0-9.]+(batch|extern)?//g' | head -n 1 | cut -c1-200)"
