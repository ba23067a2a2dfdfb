# $1: a test's folder; $2: the user that runs it; $3: its needs. Runs its test.sh in an environment of its own and says in its `rc` how
# it ended, and after how many milliseconds.
: "${clean?}" "${path?}" "${slurm_variables?}" "${slurm_given?}"

job=$1 user=$2 needs=$3
set -- bash --noprofile --norc "$job/test.sh"
[ "$(id -u)" != 0 ] || set -- setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@"
case $needs in
  *slurm*)
    for name in $slurm_variables; do
      eval "value=\${$name-}"
      # shellcheck disable=SC2154 # by eval
      [ -z "$value" ] || set -- "$name=$value" "$@"
    done
    set -f # a list of nodes has brackets
    # shellcheck disable=SC2086 # each variable is a word
    set -- $slurm_given "$@"
    set +f
    srun=$(command -v srun) && set -- "PATH=$path:${srun%/*}" "$@"
    ;;
esac
cd "$job/home" || exit
# What a probe writes is bounded, by `start`, and what a test writes is not: memory that processes of MPI share is a file, too.
# shellcheck disable=SC3045 # dash, bash and busybox have -S
read -r fsize <"${0%/*}/fsize" && ulimit -S -f "$fsize"
before=$(date +%s%N)
# shellcheck disable=SC2086 # each variable is a word
env -i HOME="$job/home" TMPDIR="$job/home" USER="$user" LOGNAME="$user" $clean \
  ${CUDA_VISIBLE_DEVICES+"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"} "$@"
echo "$? $((($(date +%s%N) - before) / 1000000))" >"$job/rc~"
mv "$job/rc~" "$job/rc"
