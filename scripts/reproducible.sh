#!/usr/bin/env bash
# Whether the same sources give the same bytes, wherever they lie: publishes the committed sources from
# two folders of different names, and compares all that is published: scripts/reproducible.sh [OPTION of
# gradle]..., as -PskipNative for all but the native library. Ten minutes, in build/reproducible.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
work=$root/build/reproducible
rm -rf "$work"
mkdir -p "$work"
unset CARGO_TARGET_DIR

# published FOLDER OPTION...: the sums of all published files, by name.
published() {
  local folder=$work/$1
  shift
  git clone --quiet --no-hardlinks "$root" "$folder"
  mkdir -p "$folder/build"
  # Not a part of the sources: which compiler it is stands in scripts/cargo-portable.sh.
  [ ! -d "$root/build/portable" ] || cp -a "$root/build/portable" "$folder/build/portable"
  (cd "$folder" && gradle --no-daemon --quiet "-Dmaven.repo.local=$folder/m2" "$@" publishToMavenLocal) >&2
  (cd "$folder/m2" && find . -type f ! -name 'maven-metadata*' -print0 | sort -z | xargs -0 sha256sum)
}

published one "$@" >"$work/one.sums"
rm -rf "$work/one/target"
published another/folder/deeper "$@" >"$work/two.sums"
if ! diff "$work/one.sums" "$work/two.sums" >&2; then
  echo "FAIL: expected the same bytes from both folders; the above differ" >&2
  exit 1
fi
echo "the same from two folders: $(wc -l <"$work/one.sums") files"
