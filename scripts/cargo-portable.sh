#!/usr/bin/env bash
# cargo build --release for machines with any glibc from 2.17 on (RHEL 7, Debian 8), by cargo-zigbuild
# and the linker of ziglang, both from PyPI (build/portable, 100 MB, once):
# scripts/cargo-portable.sh MACHINE OPTION..., where MACHINE is x86_64 or aarch64. What is built is in
# target/MACHINE-unknown-linux-gnu/release.
set -eu
cd "$(dirname "$0")/.."
machine=$1
shift
tools=$PWD/build/portable
if [ ! -d "$tools" ]; then
  rm -rf "$tools.new"
  mkdir -p build
  if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
    --target "$tools.new" cargo-zigbuild==0.24.1 ziglang==0.17.1 >&2; then
    echo "expected PyPI to give cargo-zigbuild and ziglang; saw the above from python3 -m pip." \
      "Is the network there?" >&2
    exit 2
  fi
  mv "$tools.new" "$tools"
fi
target=$machine-unknown-linux-gnu
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
  echo "expected Rust's standard library for $target; saw none. Install it: rustup target add $target" >&2
  exit 2
fi
# Panics name their source files: those of dependencies without the folder of whoever builds.
export RUSTFLAGS="${RUSTFLAGS-} --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates"
export PATH=$tools/bin:$PATH CARGO_ZIGBUILD_ZIG_PATH=$tools/ziglang/zig
exec cargo-zigbuild zigbuild --release --locked --target "$target.2.17" "$@"
