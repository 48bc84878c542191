#!/usr/bin/env bash
# What only a real XGBoost and a real Spark can show, against their bars. The table goes to
# build/bench/trainings.csv, every pair to figures.txt beside it, and the last line is "bars met: N
# of M". Variables choose:
#
#   BENCH=training           or fit: the whole fit on a Spark cluster; or rows: the same on 0.2 to 5 million rows
#   PAIRS=9                  repetitions of each configuration
#   ONLY=2_ranks             only configurations with this in their names (an underscore is a space)
#   ROUNDS=200               rounds of a training, instead of each configuration's own number
#   VERSIONS=spark35-xgb340  set of versions; the bars of fits are other ones for the others
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench
cargo build --release --locked -q -p rejoin-bench
JAVA_OPTIONS="${JAVA_OPTIONS:-} -Dbench=${BENCH:-training} -Dpairs=${PAIRS:-9}"
export JAVA_OPTIONS="$JAVA_OPTIONS -Donly=${ONLY:-} -Drounds=${ROUNDS:-0}"
versions=${VERSIONS:-spark35-xgb340}
[ "$versions" = spark35-xgb340 ] || JAVA_OPTIONS="$JAVA_OPTIONS -Dbench.older=true"
# On hosts in namespaces (rejoin-bench network) the driver is on the first.
hosts=${REJOIN_BENCH_HOSTS:-}
where=()
[ -n "$hosts" ] && where=(ip netns exec "${hosts%%=*}")
"${where[@]}" integration-tests/run.sh "$versions" io.rejoin.it.bench.Bench | tee build/bench/figures.txt |
  "${CARGO_TARGET_DIR:-target}/release/rejoin-bench" report
