#!/usr/bin/env python3
"""Prints which crates are inside native libraries and programs, under which licences, with their texts,
as these licences want it: scripts/notices.py CRATE..., each one of the workspace (rejoin-jni)."""

import json
import pathlib
import subprocess
import sys

TEXTS = ("licen", "copying", "notice", "unlicense")


def crates(roots: list) -> list:
    """What these crates are built of, for Linux, but for the workspace's own."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform"]
    metadata = json.loads(subprocess.check_output([*command, "x86_64-unknown-linux-gnu"]))
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


def texts(package: dict) -> list:
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.name.lower().startswith(TEXTS) and path.is_file())
    return [path.read_text(errors="replace").strip() for path in files]


def main(*roots: str) -> None:
    print("Rejoin is licensed under the Apache License 2.0. Its native code contains the following crates.")
    numbers = {}
    for package in crates(list(roots)):
        own = [numbers.setdefault(text, len(numbers) + 1) for text in texts(package)]
        where = f"; texts {', '.join(map(str, own))}" if own else ""
        print(f"- {package['name']} {package['version']}: {package['license']}, {package['repository']}{where}")
    for text, number in numbers.items():
        print(f"\n{'-' * 30} text {number}\n\n{text}")


main(*sys.argv[1:])
