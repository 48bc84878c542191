#!/usr/bin/env bash
# What Python's tests of Spark need beside the package and XGBoost: a Spark distribution, and in
# build/python/arrow (200 MB) what reads its rows, and what XGBoost's estimators need:
# scripts/python-spark.sh PYTHON [mlflow], with build/python/mlflow (120 MB) as well. SPARK_SET=spark41
# for the other Spark. Does nothing when all is there.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
scripts/spark-distribution.sh "${SPARK_SET:-spark35}"

# fetched FOLDER PACKAGE...: what pip installs becomes this folder.
fetched() {
  local folder=build/python/$1
  shift
  [ -d "$folder" ] && return
  rm -rf "$folder.new"
  mkdir -p build/python
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --target "$folder.new" "$@"
  mv "$folder.new" "$folder"
}

fetched arrow 'numpy<3' 'pandas<3' 'pyarrow<22' 'scikit-learn<2'
[ "${2:-}" = mlflow ] && fetched mlflow 'mlflow-skinny<4'
exit 0
