#!/usr/bin/env bash
# The Python wheel, for any Python from 3.9 on and any glibc from 2.17 on: the package, the C library, the launcher
# `rejoin`, and the jars for Scala 2.12 and 2.13. In build/wheel: scripts/wheel.sh [MACHINE], which is
# x86_64 or aarch64, this one if it isn't given.
set -eu
cd "$(dirname "$0")/.."
machine=${1:-$(uname -m)}
scripts/cargo-portable.sh "$machine" -p rejoin-capi -p rejoin-cli
gradle --no-daemon --quiet -Pmachines="$machine" :jvm-core:jar :jvm-spark:jar :jvm-spark:jarScala213
built=${CARGO_TARGET_DIR:-target}/$machine-unknown-linux-gnu/release
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)

stage=build/wheel/stage
rm -rf build/wheel
mkdir -p "$stage/rejoin/bin" "$stage/rejoin/jars"
cp python/pyproject.toml LICENSE "$stage"
cp python/rejoin/*.py python/rejoin/py.typed "$stage/rejoin"
install -m 755 "$built/librejoin.so" "$stage/rejoin"
install -m 755 "$built/rejoin" "$stage/rejoin/bin"
cp "jvm-core/build/libs/rejoin-core-$version.jar" jvm-spark/build/libs/rejoin-spark_2.1[23]-"$version".jar \
  "$stage/rejoin/jars"
python3 scripts/notices.py rejoin-capi rejoin-cli >"$stage/NOTICE"
# Nothing in it is compiled for one version of Python: setuptools would name it "any" platform's.
printf '[bdist_wheel]\npython_tag = py3\nplat_name = manylinux2014_%s\n' "$machine" >"$stage/setup.cfg"
python3 -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --wheel-dir build/wheel "$stage"
ls build/wheel/*.whl
