#!/usr/bin/env bash
# Every decoder under cargo-fuzz for SECONDS_EACH (20), from the kept corpus on: `scripts/fuzz.sh`,
# or `scripts/fuzz.sh header segment`. A stable toolchain does; TOOLCHAIN=nightly runs them under the
# address sanitizer. Inputs that reached something new are in build/fuzz/TARGET, where the next run
# begins, and what broke a decoder is in build/fuzz/broken.
set -u
cd "$(dirname "$0")/.."
work=$PWD/build/fuzz
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
toolchain=() sanitizer=none
[ -n "${TOOLCHAIN:-}" ] && toolchain=("+$TOOLCHAIN") sanitizer=address
mkdir -p "$work/broken"

targets=("$@")
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | tail -n +2)

# counts PASSED FAILED IGNORED: in the words of cargo test, which integration-tests/summary.py adds up.
counts() {
  local word=ok
  [ "$2" -eq 0 ] || word=FAILED
  echo "test result: $word. $1 passed; $2 failed; $3 ignored; 0 measured; 0 filtered out"
  [ "$2" -eq 0 ]
  exit
}

if ! cargo fuzz --version >/dev/null 2>&1; then
  export PATH=$work/tools/bin:$PATH
  if ! cargo fuzz --version >/dev/null 2>&1 && ! cargo install --quiet --locked --root "$work/tools" cargo-fuzz; then
    echo "expected cargo-fuzz; saw none, and it can't be installed. Install it: cargo install --locked cargo-fuzz"
    counts 0 0 "${#targets[@]}"
  fi
fi
if ! cargo "${toolchain[@]}" fuzz build --sanitizer "$sanitizer" --fuzz-dir fuzz; then
  echo "error: could not compile the fuzz targets"
  counts 0 "${#targets[@]}" 0
fi

passed=0 failed=0
for target in "${targets[@]}"; do
  mkdir -p "$work/$target"
  if cargo "${toolchain[@]}" fuzz run --sanitizer "$sanitizer" --fuzz-dir fuzz "$target" \
    "$work/$target" "fuzz/corpus/$target" -- \
    -max_total_time="${SECONDS_EACH:-20}" -malloc_limit_mb=64 -rss_limit_mb=2048 \
    -artifact_prefix="$work/broken/$target-" \
    >"$work/$target.log" 2>&1; then
    passed=$((passed + 1))
    echo "test fuzz::$target ... ok ($(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$work/$target.log") inputs)"
  else
    failed=$((failed + 1))
    echo "test fuzz::$target ... FAILED: see $work/$target.log; keep what broke it as fuzz/corpus/$target/NAME"
    tail -20 "$work/$target.log"
  fi
done
counts "$passed" "$failed" 0
