#!/usr/bin/env bash
# Installs the C library with its header and pkg-config file, and the launcher `rejoin`: install.sh
# PREFIX. Under DESTDIR, if that is set. BUILT_LIBRARIES and BUILT_PROGRAMS are folders with what
# was built before; without them the release is built first.
set -eu
cd "$(dirname "$0")/.."
prefix=$(realpath -m "${1:?expected the folder to install to, as in: install.sh /usr/local}")
if [ -z "${BUILT_LIBRARIES:-}" ]; then
  cargo build --release --locked -p rejoin-capi -p rejoin-cli
  BUILT_LIBRARIES=${CARGO_TARGET_DIR:-target}/release
  BUILT_PROGRAMS=$BUILT_LIBRARIES
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
to=${DESTDIR:-}$prefix
mkdir -p "$to/bin" "$to/include" "$to/lib/pkgconfig"
install -m 755 "$BUILT_PROGRAMS/rejoin" "$to/bin/rejoin"
install -m 644 native/capi/include/rejoin.h "$to/include/rejoin.h"
install -m 755 "$BUILT_LIBRARIES/librejoin.so" "$to/lib/librejoin.so"
install -m 644 "$BUILT_LIBRARIES/librejoin.a" "$to/lib/librejoin.a"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" native/capi/rejoin.pc.in >"$to/lib/pkgconfig/rejoin.pc"
