#!/usr/bin/env python3
"""Adds up what all test runners of the project say, and prints one line: N passed, N failed, N skipped.

Arguments: JUnit XML reports (or folders with them), and files with the output of `cargo test` or
Python's unittest. The status is 1 when something failed, when an argument could not be read or says
nothing about tests (a runner that died must not pass for a quiet one).
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
# What cargo says when a test binary could not be built or run to its end.
CARGO_BROKEN = re.compile(r"^error: (could not compile|test failed|\d+ targets? failed)|SIGABRT|SIGSEGV", re.MULTILINE)
# So many characters of a failure's reason are shown: a log that is cut to its last lines still says why.
REASON = 2000
# What Python's unittest says at its end.
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)


def junit(path):
    """Counts of one XML report."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        trouble = [found for found in (case.find("failure"), case.find("error")) if found is not None]
        if trouble:
            failed += 1
            reason = trouble[0].get("message") or (trouble[0].text or "").strip().partition("\n")[0]
            print(f"FAILED {case.get('classname')}: {case.get('name')}\n  {reason[:REASON]}", file=sys.stderr)
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def cargo(path):
    """Counts of one log of cargo test."""
    text = path.read_text(errors="replace")
    results = [tuple(map(int, match)) for match in CARGO.findall(text)]
    passed, failed, skipped = (sum(column) for column in zip(*results)) if results else (0, 0, 0)
    if failed == 0 and CARGO_BROKEN.search(text):
        print(f"FAILED {path}: cargo reports an error", file=sys.stderr)
        failed = 1
    return passed, failed, skipped


def unittest(path):
    """Counts of one log of Python's unittest."""
    passed = failed = skipped = 0
    for ran, rest in UNITTEST.findall(path.read_text(errors="replace")):
        others = {key: int(count) for key, _, count in (part.partition("=") for part in rest.split(", ") if part)}
        ignored, bad = others.pop("skipped", 0), sum(others.values())
        passed, failed, skipped = passed + int(ran) - ignored - bad, failed + bad, skipped + ignored
    return passed, failed, skipped


def counts_of(path):
    """Counts of one argument; it must say something about tests."""
    if path.is_dir():
        reports = [junit(file) for file in sorted(path.rglob("*.xml"))]
        counts = tuple(map(sum, zip(*reports))) if reports else (0, 0, 0)
    else:
        of_python = path.suffix != ".xml" and UNITTEST.search(path.read_text(errors="replace"))
        counts = junit(path) if path.suffix == ".xml" else unittest(path) if of_python else cargo(path)
    if sum(counts) == 0:
        raise ValueError("it says nothing about tests")
    return counts


def main(arguments):
    totals = [0, 0, 0]
    for path in map(pathlib.Path, arguments):
        try:
            counts = counts_of(path)
        except (OSError, ValueError, ElementTree.ParseError) as unreadable:
            print(f"FAILED {path}: {unreadable}", file=sys.stderr)
            counts = (0, 1, 0)
        totals = [total + count for total, count in zip(totals, counts)]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
