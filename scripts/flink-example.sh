#!/usr/bin/env bash
# Builds examples/flink as its README says, but with a Maven repository of its own (build/m2).
set -eu
cd "$(dirname "$0")/.."
repository=-Dmaven.repo.local=$PWD/build/m2
gradle --no-daemon --quiet "$repository" :jvm-core:publishToMavenLocal :jvm-flink:publishToMavenLocal
mvn --quiet --batch-mode "$repository" -f examples/flink/pom.xml package
