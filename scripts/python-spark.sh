#!/usr/bin/env bash
# What Python's tests of Spark need beside the package and XGBoost: a Spark distribution, and in
# build/python/arrow (200 MB) what reads its rows, and what XGBoost's estimators need:
# scripts/python-spark.sh PYTHON [mlflow|connect|torch], with build/python/mlflow (120 MB) as well, with
# build/python/connect (50 MB), or PyTorch:
# Debian's python3-torch (200 MB), as PyPI's is made for CUDA and ten times as large, and in
# build/python/torch a numpy that it works with. Where that can't be had, its test is skipped and says
# so. SPARK_SET=spark41 for the other Spark. Does nothing when all is there.
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
[ "${2:-}" = connect ] && fetched connect 'grpcio<2' 'grpcio-status<2' 'googleapis-common-protos<2' 'zstandard<1'
if [ "${2:-}" = torch ]; then
  fetched torch 'numpy<2'
  if ! "$python" -c 'import torch' 2>/dev/null && command -v apt-get >/dev/null; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
    "${as_root[@]}" apt-get update -qq &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends python3-torch >/dev/null || true
  fi
fi
exit 0
