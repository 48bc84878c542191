#!/usr/bin/env bash
# Publishes our modules, into a Maven repository of our own (build/m2), and builds the Maven projects of
# examples/ from them, as their READMEs say.
set -eu
cd "$(dirname "$0")/.."
repository=-Dmaven.repo.local=$PWD/build/m2
gradle --no-daemon --quiet "$repository" publishToMavenLocal
for example in flink spark; do
  mvn --quiet --batch-mode "$repository" -f "examples/$example/pom.xml" package
done
