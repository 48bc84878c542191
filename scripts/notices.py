#!/usr/bin/env python3
"""Prints what is inside native libraries and programs, under which licences, with their texts, as these
licences want it: scripts/notices.py CRATE..., each one of the workspace (rejoin-jni). That is the crates, and
what scripts/cargo-portable.sh links from its compiler and its linker; it is the same for each machine."""

import json
import pathlib
import re
import subprocess
import sys

TEXTS = ("licen", "copying", "notice", "unlicense")
MACHINES = ("x86_64", "aarch64")
ROOT = pathlib.Path(__file__).resolve().parents[1]


def crates(roots: list) -> list:
    """What these crates are built of, for Linux, but for the workspace's own."""
    platforms = [f"--filter-platform={machine}-unknown-linux-gnu" for machine in MACHINES]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", *platforms]
    metadata = json.loads(subprocess.check_output(command))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [name for name in metadata["workspace_members"] if packages[name]["name"] in roots]
    if not roots or len(waiting) != len(roots):
        sys.exit(f"expected crates of the workspace; saw {' '.join(roots) or 'none'}")
    found = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for dependency in nodes[name]["deps"]:
                if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                    waiting.append(dependency["pkg"])
    others = [packages[name] for name in found - set(metadata["workspace_members"])]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def read(*files: pathlib.Path) -> list:
    return [path.read_text(errors="replace").strip() for path in files if path.is_file()]


def texts(package: dict) -> list:
    folder = pathlib.Path(package["manifest_path"]).parent
    return read(*sorted(path for path in folder.iterdir() if path.name.lower().startswith(TEXTS)))


def tools() -> list:
    """What the compiler and the linker put in, and the texts of its licences: not every toolchain brings these."""
    rust = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    sysroot = pathlib.Path(subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip())
    names = ("MIT", "Apache-2.0", "LLVM-exception", "Unicode-3.0")
    licences = [sysroot / "share/doc/rust/licenses" / f"{name}.txt" for name in names]
    zig = re.search(r"ziglang==([0-9.]+)", (ROOT / "scripts/cargo-portable.sh").read_text())[1]
    return [
        (
            f"Rust's standard library {rust}: MIT OR Apache-2.0, of LLVM's compiler-rt in it Apache-2.0 WITH "
            "LLVM-exception, of its tables of characters Unicode-3.0, https://github.com/rust-lang/rust",
            read(*licences),
        ),
        (
            f"LLVM's libunwind, of zig {zig}: Apache-2.0 WITH LLVM-exception, https://github.com/llvm/llvm-project",
            read(ROOT / "build/portable/ziglang/lib/libunwind/LICENSE.TXT"),
        ),
        # A permission without any condition, so the text isn't wanted.
        (
            f"glibc's stat64, fstat64, lstat64 and fstatat64, of zig {zig}: LGPL-2.1-or-later with the permission to "
            "link them with any program, https://sourceware.org/glibc",
            [],
        ),
    ]


def main(*roots: str) -> None:
    print("Rejoin is licensed under the Apache License 2.0. Its native code contains the following.")
    parts = [
        (f"{package['name']} {package['version']}: {package['license']}, {package['repository']}", texts(package))
        for package in crates(list(roots))
    ]
    numbers = {}
    for what, licences in parts + tools():
        own = [numbers.setdefault(text, len(numbers) + 1) for text in licences]
        print(f"- {what}{'; texts ' + ', '.join(map(str, own)) if own else ''}")
    for text, number in numbers.items():
        print(f"\n{'-' * 30} text {number}\n\n{text}")


main(*sys.argv[1:])
