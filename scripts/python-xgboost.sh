#!/usr/bin/env bash
# The XGBoosts that Python's tests train with, from PyPI, in build/python (about 700 MB, once):
# scripts/python-xgboost.sh PYTHON. Folders to put on PYTHONPATH: xgboost-VERSION, `common` (numpy,
# scipy), and `estimators` for XGBoost's (scikit-learn). Does nothing when all is there.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=build/python

# fetched NAME OPTION...: what pip installs with these options becomes the folder of this name.
fetched() {
  local name=$1 fresh=$folder/$1.new
  shift
  [ -d "$folder/$name" ] && return
  rm -rf "$fresh"
  if ! "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --target "$fresh" "$@" >"$folder/$name.log" 2>&1; then
    tail -3 "$folder/$name.log" >&2
    echo "expected PyPI to give $*; saw the above from $python -m pip. Is the network there?" >&2
    exit 2
  fi
  mv "$fresh" "$folder/$name"
}

mkdir -p "$folder"
fetched common --only-binary=:all: 'numpy<3' 'scipy<2'
# Beside what is in `common`.
fetched estimators --only-binary=:all: --no-deps 'scikit-learn<2' joblib cloudpickle threadpoolctl narwhals
# Without its CUDA library, which trainings on the CPU don't load.
fetched xgboost-3.2.0 --no-deps 'xgboost==3.2.0'
# It says that it wants Python 3.12, and runs on older ones.
fetched xgboost-3.4.1 --no-deps --ignore-requires-python 'xgboost-cpu==3.4.1'
