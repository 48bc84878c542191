#!/usr/bin/env bash
# The Flink demo: a whole distribution on this machine, a TaskManager killed, the same model. RANK and
# VERSION choose whose, and when.
set -eu
cd "$(dirname "$0")/.."
export JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drank=${RANK:-1} -Dversion=${VERSION:-80}"
scripts/flink-distribution.sh
exec integration-tests/run.sh flink23 io.rejoin.it.flink.FlinkDemo
