#!/usr/bin/env bash
# Figures against their bars; tables go to build/bench/*.csv, and the last line is "bars met: N of M". Chosen by variables:
#   BENCH=training,fit,rendezvous,own,frozen,recovery   which (all)
#   PAIRS=9                                      repetitions of each configuration
#   ONLY=2_ranks                                 only configurations with this in their names (an underscore is a space)
#   ROUNDS=200                                   rounds of a training, instead of each configuration's own number
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/bench
export JAVA_OPTIONS="${JAVA_OPTIONS:-} -Dbench=${BENCH:-} -Dpairs=${PAIRS:-9} -Donly=${ONLY:-} -Drounds=${ROUNDS:-0}"
# On hosts in namespaces (rejoin-bench network) the driver is on the first.
hosts=${REJOIN_BENCH_HOSTS:-}
where=()
[ -n "$hosts" ] && where=(ip netns exec "${hosts%%=*}")
exec "${where[@]}" integration-tests/run.sh spark35-xgb340 io.rejoin.it.bench.Bench
