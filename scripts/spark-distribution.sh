#!/usr/bin/env bash
# A whole Spark distribution (bin, jars, python, sbin) in build/spark-<version>, from PyPI's package pyspark:
# scripts/spark-distribution.sh [spark35|spark41], the first one by default (320 MB, the other 460).
# Does nothing when it is there.
set -eu
cd "$(dirname "$0")/.."
set_name=${1:-spark35}
version=$(sed -n "s/^ext.${set_name}Version = '\(.*\)'/\1/p" build.gradle)
if [ -z "$version" ]; then
  echo "expected spark35 or spark41, saw $set_name" >&2
  exit 2
fi
target=build/spark-$version
[ -x "$target/bin/spark-submit" ] && [ -d "$target/python" ] && exit 0
echo "fetching Spark $version from PyPI, once (320 to 460 MB)"
fresh=$target.new
rm -rf "$fresh" "$target"
mkdir -p "$fresh"
# It is offered as a source package alone, in which deps/ is the distribution.
python3 -m pip download --quiet --no-deps --no-binary=:all: --dest "$fresh" "pyspark==$version"
tar -xzf "$fresh"/pyspark-*.tar.gz -C "$fresh" --strip-components=2 \
  "pyspark-$version/deps/bin" "pyspark-$version/deps/jars" "pyspark-$version/deps/sbin"
mkdir "$fresh/python"
tar -xzf "$fresh"/pyspark-*.tar.gz -C "$fresh/python" --strip-components=1 \
  "pyspark-$version/lib" "pyspark-$version/pyspark"
rm "$fresh"/pyspark-*.tar.gz
mv "$fresh" "$target"
