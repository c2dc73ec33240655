#!/bin/sh
# Prolog, Epilog and HealthCheckProgram of a worker: says what the agent of its node has marked.
# Slurm sets no search path for these, so shell builtins only; no network, a few milliseconds.
#
# Prolog and Epilog fail on an open fault that takes the node out of work: Slurm drains it, and the job starts elsewhere.
# A state that isn't known is no reason to refuse a job. The health check ends 1 then too: slurmd logs it, no more.
marker=${1:-/run/sparewheel/node-state}
state='missing' words="no agent has written $marker"
if [ -r "$marker" ]; then
  read -r state words <"$marker" || [ -n "$state" ] || state='missing'
fi
case $state in
  ok) exit 0 ;;
  fault)
    echo "sparewheel: $words"
    exit 1
    ;;
esac
[ -n "${SLURM_SCRIPT_CONTEXT:-}" ] && exit 0
echo "sparewheel: $state: $words"
exit 1
