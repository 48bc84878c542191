#!/usr/bin/env bash
# Cargo's runner for a part of a workspace's tests: `scripts/test-of.sh but CRATE... -- PROGRAM ARGUMENT...`
# runs the program unless it is of one of these crates, `only` if it is. Options of cargo that choose crates
# would do the same, but build them with other features of what they depend on.
set -eu
which=$1 chosen=but
shift
while [ "$1" != -- ]; do
  [ "$1" = "$CARGO_PKG_NAME" ] && chosen=only
  shift
done
shift
[ "$which" != "$chosen" ] || exec "$@"
