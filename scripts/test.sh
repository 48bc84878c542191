#!/usr/bin/env bash
# All tests: units and simulator (Rust), units (Java), faults on real clusters. `scripts/test.sh long` adds the cross product of
# faults, settings and versions. Every runner is run even if an earlier one failed; the last line counts them all.
set -u
cd "$(dirname "$0")/.."
long=${1:-}
reports=build/test-reports
rm -rf "$reports"
mkdir -p "$reports"
failed=0

step() {
  echo "== $1"
}

step "native: units, state machines, simulator, links, bridge"
cargo test --workspace --locked --no-fail-fast >"$reports/cargo.log" 2>&1 || failed=1
grep -E '^test .*FAILED|^error|panicked at' "$reports/cargo.log" | sort -u

step "jvm: build and units"
if gradle --no-daemon --quiet check :integration-tests:ready >"$reports/gradle.log" 2>&1; then
  :
else
  failed=1
  tail -60 "$reports/gradle.log"
fi

# suite SET NAME CLASS...: integration tests of these classes on one set of versions. Spark's own log goes to a file.
suite() {
  local set=$1 name=$2 selects=()
  shift 2
  for class in "$@"; do selects+=(--select-class "io.rejoin.it.$class"); done
  step "clusters: $name on $set"
  JAVA_OPTIONS="${JAVA_OPTIONS:-} -Dlog4j2.configurationFile=rejoin-it-log4j2.properties -Drejoin.it.log=$PWD/$reports/$name-$set-spark.log" \
    integration-tests/run.sh "$set" org.junit.platform.console.ConsoleLauncher execute "${selects[@]}" \
    --details tree --disable-ansi-colors --disable-banner --fail-if-no-tests \
    --reports-dir "$reports/$name-$set" >"$reports/$name-$set.log" 2>&1 || failed=1
  grep -E '(├─|└─|[+|'"'"']--) .*(✔|✘|↷|\[OK\]|\[X\]|\[S\])' "$reports/$name-$set.log" | grep -v 'JUnit ' || tail -40 "$reports/$name-$set.log"
}

suite spark35-xgb340 faults FaultsIT PairsIT LocalModeIT EndingsIT LostInputIT
suite spark35-xgb340 inputs BadInputIT BadSurroundingsIT BreadthIT ModesIT SecretIT ScalaIT CtrlCIT LocalClusterIT
suite spark35-xgb320 main MainFaultsIT
suite spark41-xgb311 main MainFaultsIT ScalaIT
if [ "$long" = long ]; then
  export JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.long=true -Drejoin.it.minutes=${MINUTES:-10}"
  for set in spark35-xgb340 spark35-xgb320 spark41-xgb311; do suite "$set" long LongIT; done
fi

mapfile -t results < <(find "$reports" -mindepth 1 -maxdepth 1 -type d; find jvm-core jvm-spark integration-tests -type d -name test-reports)
python3 integration-tests/summary.py "$reports/cargo.log" "${results[@]}" || failed=1
exit "$failed"
