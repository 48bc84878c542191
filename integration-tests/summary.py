#!/usr/bin/env python3
"""Adds up what all test runners of the project say, and ends with one line: N passed, N failed, N skipped.

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
# What Java says below a failure of where it came from.
CAUSE = re.compile(r"\s*(Caused by|Suppressed): ")
# One smoke per way into Spark; docs/testing.md says how long they may take.
WAYS = {
    f"io.rejoin.it.{name}" for name in ("LocalClusterIT", "SparkDistributionIT", "YarnIT", "SparkTabIT", "SuperviseIT")
}
# What Python's unittest says at its end.
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n\n(?:OK|FAILED)(?: \((.*)\))?$", re.MULTILINE)


def junit(path):
    """Counts of one XML report."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        trouble = [found for found in (case.find("failure"), case.find("error")) if found is not None]
        if trouble:
            failed += 1
            text = (trouble[0].text or "").strip()
            reason = trouble[0].get("message") or text.partition("\n")[0]
            lines = [reason, *(line.strip() for line in text.splitlines() if CAUSE.match(line))]
            shown = "\n  ".join(lines)[:REASON]
            print(f"FAILED {case.get('classname')}: {case.get('name')}\n  {shown}", file=sys.stderr)
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


def ways(path):
    """Seconds of the ways into Spark in one XML report. Where nothing else is in it, what was set up before the
    tests of a class, as YARN is, counts as well: JUnit says that of a whole report alone."""
    try:
        suite = ElementTree.parse(path).getroot()
    except ElementTree.ParseError:  # which counts as a failure already
        return 0
    cases = [(case.get("classname") in WAYS, float(case.get("time", "0"))) for case in suite.iter("testcase")]
    if cases and all(of_way for of_way, _ in cases):
        return float(suite.get("time", "0"))
    return sum(seconds for of_way, seconds in cases if of_way)


def print_ways(folders):
    """A line about them, if any was run."""
    seconds = sum(ways(file) for folder in folders if folder.is_dir() for file in folder.rglob("TEST-*.xml"))
    if seconds:
        print(f"ways into Spark, without Python: {seconds:.0f} s")


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
    print_ways(map(pathlib.Path, arguments))
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
