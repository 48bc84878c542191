#!/usr/bin/env bash
# Builds the native library, the jars, and the class paths that demo and tests run with. Quiet unless something fails.
set -eu
cd "$(dirname "$0")/.."
log=build/build.log
mkdir -p build
if ! gradle --no-daemon --quiet :integration-tests:ready >"$log" 2>&1; then
  cat "$log" >&2
  echo "the build failed; its whole output is in $log" >&2
  exit 1
fi
