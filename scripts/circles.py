#!/usr/bin/env python3
"""Circles among the files of each crate: files that use each other, directly or through others.

A file uses another one if it names something of it: `crate::a::b::C`, `super::C` or `self::a::C`.
A name that a module passes on (`pub use`) counts as use of the file where it comes from; `mod`
itself is no use. Tests inside a file don't count. Prints each circle with the names that make it,
and ends with 1 if there are any."""

import re
import sys
from pathlib import Path

TESTS = re.compile(r"^#\[cfg\((?:all\()?test.*\)\]\n(?:#.*\n)*(?:pub )?mod \w+ \{.*?^\}\n", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//[^\n]*")
USE = re.compile(r"\b(pub(?:\([^)]*\))? )?use ([^;]+);")
PATH = re.compile(r"\b((?:crate|self|super)(?:::(?:super|[A-Za-z_]\w*))+)")


def flat(tree):
    """The paths of a `use`: `a::{b, c::d}` is [a::b, a::c::d]; what is renamed by `as` has its new name beside it."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = (part.strip() for part in tree.partition(" as "))
        return [(path, name or path.split("::")[-1])]
    inside, depth, part, paths = tree[brace + 1 : tree.rindex("}")], 0, "", []
    for character in inside + ",":
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            paths += flat(part) if part.strip() else []
            part = ""
        else:
            part += character
    prefix = tree[:brace]
    return [
        (prefix[:-2] if path == "self" else prefix + path, prefix.split("::")[-2] if path == "self" else name)
        for path, name in paths
    ]


class Crate:
    def __init__(self, folder):
        self.modules = {}
        for file in sorted(folder.rglob("*.rs")):
            parts = list(file.relative_to(folder).with_suffix("").parts)
            if parts[-1] in ("mod", "lib", "main"):
                parts.pop()
            if file.name == "main.rs" and (folder / "lib.rs").exists():
                continue
            self.modules[tuple(parts)] = COMMENT.sub("", TESTS.sub("", file.read_text()))
        self.exports = {module: self.exported(module) for module in self.modules}

    def absolute(self, module, path):
        """The path from the crate's root, as names; None if it is of another crate."""
        names = path.split("::")
        at = list(module)
        if names[0] == "crate":
            at, names = [], names[1:]
        elif names[0] == "self":
            names = names[1:]
        elif names[0] == "super":
            while names and names[0] == "super":
                at, names = at[:-1], names[1:]
        elif (*module, names[0]) not in self.modules:
            return None
        return tuple(at + names)

    def exported(self, module):
        names = {}
        for public, tree in USE.findall(self.modules[module]):
            for path, name in flat(" ".join(tree.split())):
                target = self.absolute(module, path)
                if target is not None:
                    names[name] = target
        return names

    def home(self, target, seen=()):
        """The module where a name is written."""
        module = target
        while module not in self.modules:
            module = module[:-1]
        rest = target[len(module) :]
        if rest and rest[0] in self.exports[module] and target not in seen:
            return self.home(self.exports[module][rest[0]] + rest[1:], (*seen, target))
        return module

    def uses(self, module):
        text = self.modules[module]
        paths = [path for _, tree in USE.findall(text) for path, _ in flat(" ".join(tree.split()))]
        # What a module only passes on isn't its own use.
        passed = {path for public, tree in USE.findall(text) if public for path, _ in flat(" ".join(tree.split()))}
        rest = USE.sub("", text)
        passed = {path for path in passed if not re.search(r"\b" + re.escape(path.split("::")[-1]) + r"\b", rest)}
        paths = [path for path in paths if path not in passed] + PATH.findall(rest)
        # `module::name` of a module that was declared here or taken by `use`.
        for name in set(re.findall(r"\b([a-z_]\w*)::\w", rest)):
            if (*module, name) in self.modules or name in self.exports[module]:
                paths += [f"self::{name}::{item}" for item in re.findall(r"\b" + name + r"::(\w+)", rest)]
        found = {}
        for path in paths:
            target = self.absolute(module, path)
            if target is not None:
                home = self.home(target)
                if home != module:
                    found.setdefault(home, set()).add(target[-1])
        return found


def circles(graph):
    """Tarjan's strongly connected components with more than one member."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
                on.discard(group[-1])
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def main():
    sys.setrecursionlimit(10_000)
    bad = 0
    for folder in map(Path, sys.argv[1:]):
        crate = Crate(folder)
        graph = {module: crate.uses(module) for module in crate.modules}
        for group in circles(graph):
            bad += 1
            print(f"{folder}: files that use each other:")
            for module in group:
                for other in sorted(set(graph[module]) & set(group)):
                    names = ", ".join(sorted(graph[module][other]))
                    print(f"  {'::'.join(module) or 'crate'} uses {'::'.join(other) or 'crate'}: {names}")
    if bad:
        print(f"expected no circles among files, found {bad}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
