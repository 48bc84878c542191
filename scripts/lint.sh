#!/usr/bin/env bash
# Formatting and lints, Rust, Java and Python; the width of prose and of code; the reference of Python's
# package. Changes nothing. Python's tools are of PyPI, in build/python/lint (80 MB, once).
set -eu
cd "$(dirname "$0")/.."
scripts/columns.py .
scripts/circles.py native/*/src
# Words that the glossary has others for.
if grep -rnwiE --include='*.rs' --include='*.java' 'seats?|naps?|strikes?|patience' native/*/src jvm-*/src/main \
  integration-tests/src | grep -v 'xgboost/Progress.java'; then
  echo "expected the words of docs/glossary.md" >&2
  exit 1
fi
scripts/python-reference.py --check
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
gradle --no-daemon --quiet checkFormat

tools=$PWD/build/python/lint
if [ ! -d "$tools" ]; then
  rm -rf "$tools.new"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: \
    --target "$tools.new" 'ruff==0.14.*' 'mypy==1.17.*' 'numpy==2.*'
  mv "$tools.new" "$tools"
fi
export PYTHONPATH=$tools
programs=(python examples/python examples/pyspark integration-tests scripts)
python3 -m ruff format --quiet --check --config python/pyproject.toml "${programs[@]}"
python3 -m ruff check --quiet --config python/pyproject.toml "${programs[@]}"
cd python
python3 -m mypy --config-file pyproject.toml --cache-dir ../build/python/mypy rejoin
