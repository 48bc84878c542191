#!/usr/bin/env bash
# What an executor's death, freeze and end that it was told of, and a task that throws, cost a training on a real
# Spark cluster: Rejoin, Rejoin with a spare, the stock estimator, plain Spark (gradient descent, a job for each
# round); what a host costs that is cut off from the network (in network namespaces: root, and Debian's iproute2), and
# one that is gone for good a training that goes on with fewer workers; and one that comes in a training that grows. A
# table in Markdown; the last line is "bars met: N of M".
# Variables choose:
#
#   TRIALS=10   of each fault; some four hours
#   ROUNDS=300  of a training, and REPEAT=30 times the rows of the data: 20 s on 2 cores
#   ONLY=cut_off only faults with this in their names (an underscore is a space)
set -eu
cd "$(dirname "$0")/.."
JAVA_OPTIONS="${JAVA_OPTIONS:-} -Dtrials=${TRIALS:-10} -Drounds=${ROUNDS:-300} -Drepeat=${REPEAT:-30} -Donly=${ONLY:-}"
export JAVA_OPTIONS
exec integration-tests/run.sh "${VERSIONS:-spark35-xgb340}" io.rejoin.it.FaultBench
