#!/usr/bin/env bash
# The demo: a real Spark cluster on this machine, a real kill, the same model. KILL=rank@round[,rank@round] chooses;
# CHECKPOINT_ROUNDS=1 takes a checkpoint after every round instead of by the default rhythm.
set -eu
cd "$(dirname "$0")/.."
export JAVA_OPTIONS="${JAVA_OPTIONS:-} -Dkill=${KILL:-1@240} -Dcheckpoint.rounds=${CHECKPOINT_ROUNDS:-0}"
exec integration-tests/run.sh spark35-xgb340 io.rejoin.it.Demo
