#!/usr/bin/env bash
# Checks what the build needs, and installs what Debian can give: Gradle, compilers of C and C++,
# pkg-config, numpy, pip. JDK, Rust and Python have to be there. `scripts/setup.sh tests` adds what
# only tests need: Maven, Chromium, and the launchers that they start jobs with (sshd, Open MPI,
# Slurm), and iproute2.
set -eu

wanted() {
  echo "expected $1; saw $2. $3" >&2
  exit 2
}

install="Install it: apt-get install openjdk-17-jdk-headless"
java_version=$(java -version 2>&1 | head -1) || wanted "a JDK 17" "no java" "$install"
java_major=$(echo "$java_version" | sed -E 's/.*"([0-9]+).*/\1/')
[ "${java_major:-0}" -ge 17 ] 2>/dev/null ||
  wanted "a JDK 17 or newer" "$java_version" "$install"
command -v javac >/dev/null || wanted "a JDK with javac" "only a runtime" "$install"

rust_version=$(rustc --version 2>/dev/null | cut -d' ' -f2) || true
rust_minor=$(echo "${rust_version:-0.0.0}" | cut -d. -f2)
[ "$rust_minor" -ge 95 ] || wanted "Rust 1.95 or newer" "${rust_version:-no rustc}" "Install it: https://rustup.rs"
command -v python3 >/dev/null || wanted "Python 3" "no python3" "Install it: apt-get install python3"

missing=()
command -v gradle >/dev/null || missing+=(gradle)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v c++ >/dev/null || missing+=(g++)
command -v pkg-config >/dev/null || missing+=(pkg-config)
# Any Python 3 with numpy will do; Debian's is the one that apt-get can give numpy to.
python=python3
python3 -c 'import numpy' 2>/dev/null || python=/usr/bin/python3
"$python" -c 'import numpy' 2>/dev/null || missing+=(python3-numpy)
# Fetches distributions of Spark and Flink (scripts/spark-distribution.sh, flink-distribution.sh), and
# the linker of the published library (cargo-portable.sh).
{ python3 -m pip --version && "$python" -m pip --version; } >/dev/null 2>&1 || missing+=(python3-pip)
services=()
if [ "${1:-}" = tests ]; then
  # Builds examples/.
  command -v mvn >/dev/null || missing+=(maven)
  # Looks at the tab in Spark's web UI.
  command -v chromium >/dev/null || missing+=(chromium)
  # native/cli/tests/other_launchers starts daemons of its own; Debian's services of them are neither wanted nor
  # started.
  there() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }
  there mpirun || missing+=(openmpi-bin)
  # Network namespaces as hosts.
  there ip || missing+=(iproute2)
  if ! there sshd; then
    missing+=(openssh-server openssh-client)
    services+=(ssh)
  fi
  if ! there slurmctld || ! there slurmd || ! there srun || ! there munged; then
    missing+=(slurm-wlm munge)
    services+=(slurmctld slurmd munge)
  fi
fi
if [ "${#missing[@]}" -gt 0 ]; then
  command -v apt-get >/dev/null || wanted "${missing[*]}" "no apt-get to install them" "Install them by hand"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      wanted "${missing[*]}" "neither root nor sudo" "Run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  policy=/usr/sbin/policy-rc.d
  if [ "${#services[@]}" -gt 0 ] && [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  for service in "${services[@]}"; do
    "${as_root[@]}" systemctl disable --quiet "$service" 2>/dev/null || true
  done
fi
