#!/usr/bin/env bash
# What needs a nightly toolchain: Miri, and the address and thread sanitizers. Whatever isn't there
# is named with how to get it, and the script fails then: nothing is passed over in silence. Parts:
# `scripts/test-nightly.sh miri`, `address`, `thread`, `fuzz`.
set -u
cd "$(dirname "$0")/.."
failed=0
missing() {
  echo "expected $1; saw none. Install it: $2"
  failed=1
}
run() {
  echo "== $*"
  "$@" || { echo "FAILED: $*"; failed=1; }
}

if ! cargo +nightly --version >/dev/null 2>&1; then
  missing "a nightly toolchain" "rustup toolchain install nightly --component miri,rust-src"
  exit 1
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
source=$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library
base=${CARGO_TARGET_DIR:-target}

# State machines and folds have neither sockets nor threads, so Miri runs them as they are.
miri() {
  if ! cargo +nightly miri --version >/dev/null 2>&1; then
    missing "Miri" "rustup component add --toolchain nightly miri rust-src"
    return
  fi
  MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=8 CARGO_TARGET_DIR=$base/miri \
    run cargo +nightly miri test --locked -p rejoin-protocol -p rejoin-collectives
}

# What shares memory, and what is called from other languages. The address sanitizer needs nothing
# but its runtime library, which every toolchain brings. Leaks are not looked for: what threads that
# are still there hold at the end of a process is none.
address() {
  RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS=detect_leaks=0 CARGO_TARGET_DIR=$base/address \
    run cargo +nightly test --locked --no-fail-fast --target "$host" \
    -p rejoin-collectives -p rejoin-transport -p rejoin-agent -p rejoin-communicator -p rejoin-capi --lib --tests
}

# The thread sanitizer has to see the standard library too: without it every lock of it would look like a race.
thread() {
  if [ ! -d "$source" ]; then
    missing "the standard library's source, for the thread sanitizer" \
      "rustup component add --toolchain nightly rust-src"
    return
  fi
  RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=$base/thread \
    run cargo +nightly test --locked --no-fail-fast -Zbuild-std --target "$host" \
    -p rejoin-transport -p rejoin-agent -p rejoin-communicator -p rejoin-capi --lib --tests
}

fuzz() {
  TOOLCHAIN=nightly run scripts/fuzz.sh
}

for part in "${@:-all}"; do
  case "$part" in
    miri | address | thread | fuzz) "$part" ;;
    all) for each in miri address thread fuzz; do "$each"; done ;;
    *)
      echo "expected miri, address, thread or fuzz; saw $part"
      failed=1
      ;;
  esac
done
exit "$failed"
