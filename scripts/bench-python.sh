#!/usr/bin/env bash
# Whole fits of XGBoost's PySpark estimator against their bars: pyspark 4.1 with xgboost-cpu 3.4.1, then
# pyspark 3.5 with xgboost 3.2.0. The table goes to build/bench/pyspark.csv, every pair to
# pyspark-figures.txt beside it, and the last line is "bars met: N of M". PAIRS=9 repetitions,
# SETS=spark41 for one of the two.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench
cargo build --release --locked -q -p rejoin-bench -p rejoin-capi
gradle --no-daemon --quiet :jvm-core:jar :jvm-spark:assemble
for python in python3 /usr/bin/python3; do
  "$python" -c 'import numpy' 2>/dev/null && break
done
built=$(realpath "${CARGO_TARGET_DIR:-target}/release")
scripts/python-xgboost.sh "$python"
# Spark and XGBoost say a lot there, which is wanted only where something went wrong.
trap 'status=$?; [ $status -eq 0 ] || tail -20 build/bench/pyspark-errors.txt >&2' EXIT
for set_name in ${SETS:-spark41 spark35}; do
  SPARK_SET=$set_name scripts/python-spark.sh "$python"
  SPARK_SET=$set_name REJOIN_LIBRARY=$built/librejoin.so PYTHONPATH=python/tests \
    "$python" integration-tests/bench_python.py
done 2>build/bench/pyspark-errors.txt | tee build/bench/pyspark-figures.txt |
  "$built/rejoin-bench" report --out build/bench/pyspark.csv
