#!/usr/bin/env bash
# Publishes our modules, into a Maven repository of our own (build/m2), and builds the Maven projects of
# examples/ from them, as their READMEs say. The POMs say that the sources are at SOURCE_URL. The library is for
# this machine alone, where they are run.
set -eu
cd "$(dirname "$0")/.."
repository=-Dmaven.repo.local=$PWD/build/m2
gradle --no-daemon --quiet "$repository" "-PsourceUrl=${SOURCE_URL:-https://example.org/rejoin}" \
  -Pmachines="$(uname -m)" publishToMavenLocal
for example in flink spark; do
  mvn --quiet --batch-mode "$repository" -f "examples/$example/pom.xml" package
done
