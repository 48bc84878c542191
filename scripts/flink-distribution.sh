#!/usr/bin/env bash
# A whole Flink distribution (bin, conf, lib with the web pages) in build/flink-<version>: scripts
# and settings come from PyPI's package apache-flink, jars (330 MB) from apache-flink-libraries. Does
# nothing when it is there.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n "s/^ext.flink23Version = '\(.*\)'/\1/p" build.gradle)
target=build/flink-$version
[ -x "$target/bin/flink" ] && exit 0
echo "fetching Flink $version from PyPI, once (340 MB)"
fresh=$target.new
rm -rf "$fresh" "$target"
mkdir -p "$fresh"
# What is used of the first package is the same for every platform and Python.
python3 -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux2014_x86_64 --python-version 3.11 \
  --dest "$fresh" "apache-flink==$version" "apache-flink-libraries==$version"
python3 - "$fresh" <<'PYTHON'
import pathlib
import sys
import zipfile

folder = pathlib.Path(sys.argv[1])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("pyflink/bin/", "pyflink/conf/", "pyflink/lib/", "pyflink/plugins/")):
                archive.extract(name, folder)
    wheel.unlink()
for script in (folder / "pyflink" / "bin").iterdir():
    script.chmod(0o755)
PYTHON
mv "$fresh/pyflink" "$target"
rm -rf "$fresh"
