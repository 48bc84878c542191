#!/usr/bin/env bash
# Runs a main class of the integration tests on one of the tested sets of versions, after
# `gradle :integration-tests:ready`: integration-tests/run.sh SET MAIN [argument...]
# SET: spark35-xgb340, spark35-xgb320, spark41-xgb311, flink23, flink20 or flink120; pypi35-xgb340 and
# pypi41-xgb311 have the jars of the whole distribution of Spark that scripts/spark-distribution.sh fetches,
# and of the former ones' class path our modules and XGBoost alone.
# JAVA_OPTIONS holds further options of the JVM, for instance -Dkill=1@12.
set -eu
cd "$(dirname "$0")/.."
set_name=$1
main=$2
shift 2
made=${set_name/#pypi/spark}
class_path_file=build/classpath-$made.txt
if [ ! -s "$class_path_file" ]; then
  echo "expected $class_path_file; build it with: gradle :integration-tests:ready" >&2
  exit 2
fi
classes=$PWD/integration-tests/build
libraries=$(cat "$class_path_file")
if [ "$made" != "$set_name" ]; then
  scripts/spark-distribution.sh "${made%%-*}" >&2
  version=$(sed -n "s/^ext.${made%%-*}Version = '\(.*\)'/\1/p" build.gradle)
  libraries=$(tr : '\n' <<<"$libraries" | grep -E '/(rejoin-|xgboost4j)[^/]*$' | paste -sd:)
  libraries=$libraries:$PWD/build/spark-$version/jars/*
fi
# A Flink job takes its jars along, and the JVM archives classes of jars alone: so ours are in one.
case $set_name in
  flink*)
    ours=$(echo "$classes"/libs/rejoin-integration-tests-*.jar):$classes/classes/java/test
    ;;
  *)
    case $made in spark41-*) scala=2.13 ;; *) scala=2.12 ;; esac
    ours=$PWD/build/integration-tests-$scala.jar
    compiled=$classes/classes
    folders=("$compiled/java/main" "$classes/resources/main" "$compiled/scala/$scala" "$compiled/java/test")
    if [ ! -e "$ours" ] || [ -n "$(find "${folders[@]}" -newer "$ours" -print -quit)" ]; then
      inputs=()
      for folder in "${folders[@]}"; do inputs+=(-C "$folder" .); done
      jar --create --no-compress --file "$ours.$$" "${inputs[@]}"
      # Who runs with the former one keeps it.
      mv "$ours.$$" "$ours"
    fi
    ;;
esac
class_path=$libraries:$(cat build/junit.txt):$ours
opens=()
for package in lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic; do
  opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED")
done
for package in nio.ch nio.cs security.action util.calendar; do
  opens+=("--add-opens=java.base/sun.$package=ALL-UNNAMED")
done
mkdir -p build/tmp
# shellcheck disable=SC2086 # several options are several words
exec java "${opens[@]}" -Xmx1g -XX:+UseSerialGC "-Djava.io.tmpdir=$PWD/build/tmp" ${JAVA_OPTIONS:-} \
  -cp "$class_path" "$main" "$@"
