#!/usr/bin/env bash
# Runs a main class of the integration tests on one of the tested sets of versions, after
# `gradle :integration-tests:ready`: integration-tests/run.sh SET MAIN [argument...]
# SET: spark35-xgb340, spark35-xgb320, spark41-xgb311, flink23, flink20 or flink120.
# JAVA_OPTIONS holds further options of the JVM, for instance -Dkill=1@12.
set -eu
cd "$(dirname "$0")/.."
set_name=$1
main=$2
shift 2
class_path_file=build/classpath-$set_name.txt
if [ ! -s "$class_path_file" ]; then
  echo "expected $class_path_file; build it with: gradle :integration-tests:ready" >&2
  exit 2
fi
classes=$PWD/integration-tests/build
case $set_name in
  # A Flink job takes its jars along, so ours has to be one.
  flink*) ours=$(echo "$classes"/libs/rejoin-integration-tests-*.jar) ;;
  spark41-*) ours=$classes/classes/java/main:$classes/resources/main:$classes/classes/scala/2.13 ;;
  *) ours=$classes/classes/java/main:$classes/resources/main:$classes/classes/scala/2.12 ;;
esac
class_path=$ours:$classes/classes/java/test:$(cat "$class_path_file"):$(cat build/junit.txt)
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
