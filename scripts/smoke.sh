#!/usr/bin/env bash
# One release of XGBoost4J on a real cluster: the stock model, ours, and ours with an executor killed.
# scripts/smoke.sh 3.4.0 fetches it from Maven Central: on Spark 3.5 (Scala 2.12), or with SCALA=2.13
# on Spark 4.1. The last line says how the models compare, or why the release is refused.
set -eu
cd "$(dirname "$0")/.."
version=${1:-}
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
  echo "expected a release of XGBoost as 3.4.0; saw '$version'. Use: make smoke XGBOOST=3.4.0" >&2
  exit 2
fi
case ${SCALA:-2.12} in
  2.12) set_name=spark35-smoke ;;
  2.13) set_name=spark41-smoke ;;
  *) echo "expected SCALA=2.12 or 2.13; saw $SCALA" >&2 && exit 2 ;;
esac
gradle --no-daemon --quiet "-Psmoke=$version" "-PsmokeScala=${SCALA:-2.12}" :integration-tests:ready
logs="-Dlog4j2.configurationFile=rejoin-it-log4j2.properties -Drejoin.it.log=$PWD/build/smoke.log"
# Whatever it is, it is to be tried.
options="$logs -Drejoin.xgboost.untested=$version"
JAVA_OPTIONS="${JAVA_OPTIONS:-} $options" integration-tests/run.sh "$set_name" io.rejoin.it.Smoke
