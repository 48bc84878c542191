#!/usr/bin/env bash
# The Python package's tests, by the first Python that has numpy, with the library and the launcher
# that `cargo test` has built, and with XGBoosts of PyPI (scripts/python-xgboost.sh). Arguments are
# the tests to run, as test_xgboost.Bridged; all of them without any, but for those on Spark, as
# spark.test_run, for which the jars have to be built (gradle :jvm-core:jar :jvm-spark:assemble;
# SPARK_SET=spark41 for the other Spark), and published.test_wheel and test_modules, which want
# scripts/wheel.sh and examples.sh before them.
set -eu
cd "$(dirname "$0")/.."
folder=${BUILT:-${CARGO_TARGET_DIR:-target}/debug}
folder=$(realpath "$folder")
export REJOIN_COMMAND=$folder/rejoin REJOIN_LIBRARY=$folder/deps/librejoin.so
# What is compiled lies beside nobody's sources, but is kept: each of Spark's workers would compile them anew.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPATH=$PWD/python PYTHONPYCACHEPREFIX=$PWD/build/python/compiled
for python in python3 /usr/bin/python3; do
  if "$python" -c 'import numpy' 2>/dev/null; then
    # Without them the tests that need them fail, and say so.
    more=
    case ${1:-} in
      spark.test_mlflow*) more=mlflow ;;
      spark.test_connect*) more=connect ;;
      spark.test_examples*) more=torch ;;
    esac
    case ${1:-} in
      spark.* | published.test_wheel*)
        PYTHONPATH='' scripts/python-spark.sh "$python" $more || true
        # JVMs that live for a minute: what optimises costs them as much as their work.
        export JAVA_TOOL_OPTIONS="${JAVA_TOOL_OPTIONS-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        ;;
    esac
    PYTHONPATH='' scripts/python-xgboost.sh "$python" || true
    if [ $# -gt 0 ]; then
      cd python/tests
      exec "$python" -m unittest -v "$@"
    fi
    exec "$python" -m unittest discover -v -s python/tests
  fi
done
echo "expected a Python 3 with numpy; saw none. Install it: apt-get install python3-numpy" >&2
exit 2
