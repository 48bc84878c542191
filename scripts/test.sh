#!/usr/bin/env bash
# The tests: units and simulator (Rust), units (Java), faults on real clusters.
# `scripts/test.sh long` is another run: the units, ten times the seeds, and the cross product of
# faults, settings and versions, told case by case. Every runner is run even if an earlier one
# failed; the last line counts them all.
#
# Of the long run: FULL=1 tries the whole product on every pair of versions, REPEAT repetitions,
# MINUTES of random kills in all, SEED of everything random;
# JAVA_OPTIONS=-Drejoin.it.recipes=DART,RANKING or -Drejoin.it.only=WORDS choose a part.
set -u
cd "$(dirname "$0")/.."
long=${1:-}
reports=build/test-reports
# What is killed can't tidy up: its temporary files go where the next run finds them.
export TMPDIR=$PWD/build/tmp
rm -rf "$reports" "$TMPDIR"
mkdir -p "$reports" "$TMPDIR"
failed=0

step() {
  echo "== $1 ($((SECONDS / 60)) min)"
}

# Whole distributions are fetched while the units run.
if [ "$long" = long ]; then
  (scripts/spark-distribution.sh && scripts/spark-distribution.sh spark41) >"$reports/distributions.log" 2>&1 &
else
  (scripts/spark-distribution.sh && scripts/flink-distribution.sh && scripts/spark-distribution.sh spark41) \
    >"$reports/distributions.log" 2>&1 &
fi
fetching=$!

step "native: units, state machines, simulator, links, bridge"
# Some of them load the real XGBoost.
gradle --no-daemon --quiet xgboostLibraries >"$reports/xgboost.log" 2>&1 || cat "$reports/xgboost.log"
[ "$long" = long ] && export REJOIN_TIMES=${REJOIN_TIMES:-10}
# tests but|only: those of all crates but what only computes, or of that alone.
tests() {
  local program="'$PWD/scripts/test-of.sh', '$1', 'rejoin-model', 'rejoin-sim', 'rejoin-sync', '--'"
  cargo test "${native[@]}" --no-fail-fast --config "target.'cfg(all())'.runner = [$program]"
}
# Not the documentation's: no crate has any, and rustdoc would look for them in each. Without those cargo
# has to be told to build the examples, which tests run.
native=(--workspace --lib --bins --tests --locked)
{
  cargo build --workspace --bins --examples --locked && cargo test "${native[@]}" --no-run
} >"$reports/cargo.log" 2>&1 || failed=1
# What waits for nothing has whatever time of the processors is left over: the library that gradle puts into the
# jars, and the jars; then, until the end, what only computes.
{
  renice -n 19 "$BASHPID" >/dev/null
  scripts/cargo-portable.sh "$(uname -m)" -p rejoin-jni
  gradle --no-daemon --quiet --parallel testClasses :integration-tests:ready
} >"$reports/compiled.log" 2>&1 &
compiling=$!
{
  # Most of them wait for processes more than they compute.
  RUST_TEST_THREADS=3 tests but &&
    # More of ssh, Open MPI and Slurm.
    { [ "$long" != long ] || cargo test -p rejoin-cli --test other_launchers --locked -- --ignored; }
} >>"$reports/cargo.log" 2>&1 || failed=1
grep -E '^test .*FAILED|^error|panicked at' "$reports/cargo.log" | sort -u

step "python: the package and its examples, killed at moments of their life"
scripts/test-python.sh >"$reports/python.log" 2>&1 || failed=1
grep -E '^(FAIL|ERROR):|^expected|skipped ' "$reports/python.log"

fuzzed=()
if [ "$long" = long ]; then
  step "native: decoders under cargo-fuzz"
  fuzzed=("$reports/fuzz.log")
  scripts/fuzz.sh >"${fuzzed[0]}" 2>&1 || failed=1
  grep -E '^test fuzz::.*FAILED|^error|^expected' "${fuzzed[0]}"
fi

step "jvm: build and units"
wait "$compiling" # what is wrong with it, gradle says once more
{
  renice -n 19 "$BASHPID" >/dev/null
  tests only
} >"$reports/cargo-computed.log" 2>&1 &
computing=$!
# A test that fails must not keep the clusters' tests from what they need.
if gradle --no-daemon --quiet --parallel --continue check :integration-tests:ready >"$reports/gradle.log" 2>&1; then
  :
else
  failed=1
  tail -60 "$reports/gradle.log"
fi

# Waits for the distributions.
fetched() {
  step "whole distributions, from PyPI"
  wait "$fetching" || failed=1
  cat "$reports/distributions.log"
}

# suite SET NAME CLASS...: integration tests of these classes on one set of versions. What Spark or
# Flink log in the test's own process goes to a file.
suite() {
  local set=$1 name=$2 selects=()
  shift 2
  for class in "$@"; do selects+=(--select-class "io.rejoin.it.$class"); done
  step "clusters: $name on $set"
  local logs="-Dlog4j2.configurationFile=rejoin-it-log4j2.properties"
  logs="$logs -Drejoin.it.log=$PWD/$reports/$name-$set-framework.log"
  # No optimising compiler, which wouldn't pay in JVMs that live for minutes; and where there is an
  # archive of the set's classes, half of each JVM's start is saved.
  local quick="-XX:TieredStopAtLevel=1 -Drejoin.it.short=true" archive=$PWD/build/classes-$set.jsa
  if [ "${ARCHIVE:-}" = "$set" ]; then
    rm -f "$archive"
    quick="$quick -XX:ArchiveClassesAtExit=$archive -Xlog:cds=off"
  elif [ -e "$archive" ]; then
    quick="$quick -XX:SharedArchiveFile=$archive -Xlog:cds=off -Xlog:class+path=off -Drejoin.it.archive=$archive"
  fi
  JAVA_OPTIONS="${JAVA_OPTIONS:-} $logs $quick" \
    integration-tests/run.sh "$set" org.junit.platform.console.ConsoleLauncher execute "${selects[@]}" \
    --details tree --disable-ansi-colors --disable-banner --fail-if-no-tests \
    --reports-dir "$reports/$name-$set" 2>&1 | tee "$reports/$name-$set.log" | grep --line-buffered '^\[long\]'
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    failed=1
    [ "$name" = long ] && sed -n '/^Failures/,$p' "$reports/$name-$set.log" | head -120
  fi
  [ "$name" = long ] && return
  grep -E '(├─|└─|[+|'"'"']--) .*(✔|✘|↷|\[OK\]|\[X\]|\[S\])' "$reports/$name-$set.log" | grep -v 'JUnit ' ||
    tail -40 "$reports/$name-$set.log"
}

# product SET CELLS: the long run on one set of versions; each fault meets so many kinds of training, or `all`.
product() {
  local options="-Drejoin.it.long=true -Drejoin.it.cells=$2 -Drejoin.it.repetitions=${REPEAT:-1} -Drejoin.it.seed=$SEED"
  JAVA_OPTIONS="${JAVA_OPTIONS:-} $options -Drejoin.it.seconds=$((${MINUTES:-6} * 20))" suite "$1" long LongIT
}

if [ "$long" = long ]; then
  export SEED=${SEED:-$(date +%s)}
  some=2
  [ "${FULL:-}" = 1 ] && some=all
  product spark35-xgb340 all
  product spark35-xgb320 $some
  product spark41-xgb311 $some
  fetched
  step "python: estimators on Spark, and the wheel"
  { scripts/wheel.sh && scripts/test-python.sh published.test_wheel; } >"$reports/pywheel.log" 2>&1 || failed=1
  SPARK_SET=spark41 scripts/test-python.sh published.test_wheel.OnSpark >"$reports/pywheel41.log" 2>&1 || failed=1
  scripts/test-python.sh spark.test_run spark.test_secret spark.test_estimator spark.test_progress \
    spark.test_standalone >"$reports/pyspark.log" 2>&1 || failed=1
  scripts/test-python.sh spark.test_spot_notice >"$reports/pynotice.log" 2>&1 || failed=1
  scripts/test-python.sh spark.test_mlflow >"$reports/pysparkmlflow.log" 2>&1 || failed=1
  SPARK_SET=spark41 scripts/test-python.sh spark.test_connect >"$reports/pysparkconnect.log" 2>&1 || failed=1
  scripts/test-python.sh spark.test_examples >"$reports/pysparkexamples.log" 2>&1 || failed=1
  # With the PyTorch that these have fetched.
  scripts/test-python.sh test_torch test_elastic >"$reports/pytorch.log" 2>&1 || failed=1
  PYTHON_WORKER_REUSE=false scripts/test-python.sh spark.test_estimator.TheSameModel \
    spark.test_estimator.AtOtherMoments spark.test_run.OnACluster >"$reports/pysparkreuse.log" 2>&1 || failed=1
  SPARK_SET=spark41 scripts/test-python.sh spark.test_estimator spark.test_run spark.test_secret \
    spark.test_progress spark.test_standalone >"$reports/pyspark41.log" 2>&1 || failed=1
  SPARK_SET=spark41 PYTHON_WORKER_REUSE=false scripts/test-python.sh spark.test_estimator.TheSameModel \
    spark.test_estimator.AtOtherMoments spark.test_run.OnACluster >"$reports/pysparkreuse41.log" 2>&1 || failed=1
  for set in spark35 spark41; do
    SPARK_SET=$set scripts/test-python.sh spark.test_faults >"$reports/pyfaults-$set.log" 2>&1 || failed=1
  done
  # Those that are skipped say why.
  grep -hE '^(FAIL|ERROR):|^expected|skipped' \
    "$reports"/py{wheel,wheel41,torch,spark,notice,sparkmlflow,sparkconnect,sparkexamples,sparkreuse,spark41,sparkreuse41,faults-spark35,faults-spark41}.log
  # With the library for aarch64, too, whose symbols are read; no test runs it.
  rustup target add aarch64-unknown-linux-gnu >"$reports/aarch64.log" 2>&1 || failed=1
  gradle --no-daemon --quiet "-Dmaven.repo.local=$PWD/build/m2" -Pmachines=x86_64,aarch64 publishToMavenLocal \
    :jvm-core:test >"$reports/published.log" 2>&1 || failed=1
  more="${JAVA_OPTIONS:-} -Drejoin.it.long=true"
  JAVA_OPTIONS="$more" suite spark35-xgb340 distribution SparkDistributionIT YarnIT DurableIT CopiesIT AddressesIT
  JAVA_OPTIONS="$more" suite spark41-xgb311 distribution SparkDistributionIT YarnIT LocalClusterIT SparkTabIT DurableIT
  JAVA_OPTIONS="$more" suite spark41-xgb311 secret SecretIT AddressesIT SparkSettingsIT ModesIT
  suite spark41-xgb311 inputs BreadthIT BadSurroundingsIT LocalModeIT
  suite pypi41-xgb311 faults SparesIT LostInputIT SignsOfLifeIT GangIT FencedIT NetworkCutIT
  suite spark35-xgb340 network NetworkCutIT
  suite spark35-xgb320 stock StockModelsIT
  JAVA_OPTIONS="${JAVA_OPTIONS:-} -Xmx6g" suite spark35-xgb340 large LargePartitionIT
  suite spark41-xgb311 stock StockModelsIT
  suite spark41-xgb311 yarn YarnLongIT SuperviseIT
  suite spark35-xgb340 yarn YarnLongIT SuperviseIT
  for set in spark35-xgb340 spark41-xgb311; do
    JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.long=true" suite "$set" notices SpotNoticeIT
    JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.long=true" suite "$set" elastic ElasticSparkIT
  done
  for set in spark35-xgb340 spark35-xgb320 spark41-xgb311; do
    JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.long=true" suite "$set" attacked AttackedIT
  done
  step "releases of XGBoost4J that nothing else runs: 3.0.4 on Spark 3.5, 3.1.0 on Spark 4.1"
  scripts/smoke.sh 3.0.4 >"$reports/smoke-3.0.4.log" 2>&1 || failed=1
  SCALA=2.13 scripts/smoke.sh 3.1.0 >"$reports/smoke-3.1.0.log" 2>&1 || failed=1
  tail -qn 1 "$reports"/smoke-*.log
  JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.seed=$SEED" suite flink23 long flink.FlinkLongIT
  suite flink23 clusters flink.FlinkHighAvailabilityIT flink.FlinkSlotsIT
  JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.seed=$SEED" suite flink120 main flink.FlinkFaultsIT
  for set in flink120 flink20; do
    JAVA_OPTIONS="${JAVA_OPTIONS:-} -Drejoin.it.long=true" suite "$set" kill flink.FlinkKillIT
  done
  step "published modules: the same bytes from two folders"
  scripts/reproducible.sh >"$reports/reproducible.log" 2>&1 || failed=1
  grep -E '^(FAIL|the same|[<>])' "$reports/reproducible.log"
else
  # Mostly downloads; SparkDistributionIT and FlinkDistributionIT need what it builds.
  scripts/examples.sh >"$reports/examples.log" 2>&1 &
  examples=$!
  fetched
  # On the jars of a whole distribution; on those from Maven the main faults, below. The first one's
  # classes are archived for those that follow.
  ARCHIVE=pypi35-xgb340 suite pypi35-xgb340 local LocalModeIT
  suite pypi35-xgb340 faults FaultsIT PairsIT OneProcessIT EndingsIT LostInputIT EarlyStartIT CopiesIT SparesIT \
    FencedIT DurableIT SpotNoticeIT ElasticSparkIT
  suite pypi35-xgb340 inputs BadInputIT BadSurroundingsIT BreadthIT ModesIT SecretIT ScalaIT CtrlCIT LocalClusterIT \
    TrackerLossIT GangIT SparkSettingsIT SignsOfLifeIT AddressesIT AttackedIT StockModelsIT
  step "published modules, and examples/ built from them by Maven"
  wait "$examples" || failed=1
  cat "$reports/examples.log"
  scripts/test-python.sh published.test_modules >"$reports/pymodules.log" 2>&1 || failed=1
  grep -E '^(FAIL|ERROR):|^expected' "$reports/pymodules.log"
  suite spark35-xgb340 distribution SparkDistributionIT YarnIT SparkTabIT
  step "python on Spark: functions and XGBoost on a cluster, with real kills"
  scripts/test-python.sh spark.test_run.OnACluster spark.test_estimator.TheSameModel \
    >"$reports/pyspark.log" 2>&1 || failed=1
  # XGBoost 3.4.1 there, and the hook.
  hooked=spark.test_estimator.TheSameModel.test_a_python_worker_that_is_killed_after_a_checkpoint_rejoins
  SPARK_SET=spark41 scripts/test-python.sh "$hooked" >"$reports/pyspark41.log" 2>&1 || failed=1
  grep -hE '^(FAIL|ERROR):|^expected' "$reports/pyspark.log" "$reports/pyspark41.log"
  suite spark35-xgb320 main MainFaultsIT
  suite spark41-xgb311 main MainFaultsIT ScalaIT
  suite flink23 flink flink.FlinkClusterIT flink.FlinkFaultsIT flink.FlinkEndingsIT flink.FlinkDrainIT \
    flink.FlinkRestoreIT flink.FlinkSourceIT flink.FlinkXgboostIT flink.FlinkDistributionIT
  suite flink120 kill flink.FlinkKillIT
fi

step "native: models and simulator, which have run beside all that"
wait "$computing" || failed=1
grep -E '^test .*FAILED|^error|panicked at' "$reports/cargo-computed.log" | sort -u

mapfile -t results < <(
  find "$reports" -mindepth 1 -maxdepth 1 -type d
  find jvm-core jvm-spark jvm-flink integration-tests -type d -name test-reports
)
python3 integration-tests/summary.py \
  "$reports"/cargo*.log "$reports"/py*.log "${fuzzed[@]}" "${results[@]}" || failed=1
exit "$failed"
