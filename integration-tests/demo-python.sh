#!/usr/bin/env bash
# The demo in Python: XGBoost's own PySpark estimator on executors of this machine, one of which, or its
# Python worker, is killed; the same model. KILL=round chooses when, ROUNDS=n how long the training is,
# SPARK_SET=spark35 the other Spark, with XGBoost 3.2.0.
set -eu
cd "$(dirname "$0")/.."
export SPARK_SET=${SPARK_SET:-spark41}
cargo build --release --locked --quiet -p rejoin-capi
gradle --no-daemon --quiet :jvm-core:jar :jvm-spark:assemble
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy' 2>/dev/null && break
done
scripts/python-spark.sh "$python"
scripts/python-xgboost.sh "$python"
REJOIN_LIBRARY=$(realpath "${CARGO_TARGET_DIR:-target}/release/librejoin.so")
export REJOIN_LIBRARY PYTHONPATH=$PWD/python/tests
exec "$python" integration-tests/demo.py
