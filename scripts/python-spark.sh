#!/usr/bin/env bash
# What Python's tests of Spark need beside the package and XGBoost: a Spark distribution, and in
# build/python/arrow (200 MB) what reads its rows, and what XGBoost's estimators need:
# scripts/python-spark.sh PYTHON. SPARK_SET=spark41 for the other Spark. Does nothing when all is there.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
scripts/spark-distribution.sh "${SPARK_SET:-spark35}"
folder=build/python/arrow
[ -d "$folder" ] && exit 0
rm -rf "$folder.new"
mkdir -p build/python
"$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
  --target "$folder.new" 'numpy<3' 'pandas<3' 'pyarrow<22' 'scikit-learn<2'
mv "$folder.new" "$folder"
