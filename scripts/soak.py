#!/usr/bin/env python3
"""Random deaths for as long as you say: `make soak MINUTES=30`.

Rounds of one job each: six ranks as processes, each result checked for its value at each rank
(native/cli/examples/scenario.rs), ranks 1 to 5 killed, stopped, cut off and thrown out at random
calls, again and again. Rank 0 and the launcher live through a round: their memory and open
descriptors are watched, and must be as flat at its end as they were after its first third. The seed
decides the rules; a failing round prints it with the command.
"""

import argparse
import os
import random
import shlex
import subprocess
import sys
import threading
import time

RANKS = 6
CALLS = 11
# What a process may have more at the end than after the first third: allocators keep what they once had.
SLACK_KIB = 16 << 10
SLACK_SHARE = 0.25
SLACK_DESCRIPTORS = 8
# The launcher's exit code when the program ended well and a rule never fired.
UNFIRED = 5


def rules(draw, iterations):
    """Strikes at growing versions; each is for the incarnation that the ones before it leave."""
    out = []
    incarnations = dict.fromkeys(range(1, RANKS), 0)
    version = 1
    while version < iterations - 2:
        for rank in draw.sample(range(1, RANKS), draw.choice([1, 1, 1, 2, 3])):
            faults = ["kill", "throw", "stop:300ms", f"cut:{(rank + 1) % RANKS}", "delay:50ms"]
            what = draw.choices(faults, [60, 10, 10, 10, 10])[0]
            where = draw.choice(["entry", "completed", "sent:1"])
            # Every other kind of call sends nothing at most ranks, so only calls that all send in
            # are waited for in their middle.
            seqno = draw.choice([0, 9, 10]) if where.startswith("sent") else draw.randrange(CALLS)
            member = f"rank={rank},incarnation={incarnations[rank]}"
            out.append(f"{member},version={version},seqno={seqno},at={where},do={what}")
            incarnations[rank] += what in ("kill", "throw")
        version += draw.randrange(5, 25)
    return out


def figures(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        return rss, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, StopIteration):
        return None


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as text:
            return [int(child) for child in text.read().split()]
    except OSError:
        return []


def watch(process, samples, over):
    """Samples the launcher and every child that was there from the beginning."""
    time.sleep(1)
    pids = [process.pid, *children(process.pid)]
    began = time.monotonic()
    while not over.wait(0.25):
        for pid in pids:
            seen = figures(pid)
            if seen:
                samples.setdefault(pid, []).append((time.monotonic() - began, *seen))


def grown(samples, launcher):
    """Whoever lived through the round, with the most that it had in the second and in the last third."""
    end = max((series[-1][0] for series in samples.values()), default=0)
    for pid, series in samples.items():
        if series[-1][0] < end - 1 or end < 6:
            continue
        early = [s for s in series if end / 3 <= s[0] < 2 * end / 3]
        late = [s for s in series if s[0] >= 2 * end / 3]
        if not early or not late:
            continue
        yield (
            ("launcher" if pid == launcher else "rank that lived on"),
            *((max(s[at] for s in early), max(s[at] for s in late)) for at in (1, 2)),
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments.add_argument("--binaries", required=True, help="folder with `rejoin` and `examples/scenario`")
    arguments.add_argument("--iterations", type=int, default=400)
    arguments.add_argument("--floats", type=int, default=3000)
    options = arguments.parse_args()
    until = time.monotonic() + 60 * options.minutes
    passed = failed = 0
    fired = 0
    while passed + failed == 0 or (time.monotonic() < until and not failed):
        seed = options.seed + passed
        faults = rules(random.Random(seed), options.iterations)
        command = [f"{options.binaries}/rejoin", "run", "-n", str(RANKS)]
        command += ["--restart", "--restarts", "100000", "--timeout", "600s"]
        for fault in faults:
            command += ["--kill", fault]
        command += ["--", f"{options.binaries}/examples/scenario", str(options.iterations), str(options.floats)]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        samples, over = {}, threading.Event()
        watcher = threading.Thread(target=watch, args=(process, samples, over))
        watcher.start()
        output, _ = process.communicate()
        over.set()
        watcher.join()
        report = [f"round of seed {seed}: {len(faults)} faults in {time.monotonic() - began:.0f} s"]
        # A rank that was declared lost on a busy machine comes back as another incarnation than its
        # rules are for: those never fire, which `rejoin run` tells by this code when all else went
        # well.
        missed = output.count(" never fired")
        report.append(f"{missed} of them missed")
        bad = process.returncode not in (0, UNFIRED) or "WRONG RESULT" in output or 2 * missed > len(faults)
        for who, (rss, late_rss), (descriptors, late_descriptors) in grown(samples, process.pid):
            memory = f"{rss >> 10} then {late_rss >> 10} MiB"
            report.append(f"{who}: {memory}, {descriptors} then {late_descriptors} descriptors")
            leaks = late_rss > rss * (1 + SLACK_SHARE) + SLACK_KIB or late_descriptors > descriptors + SLACK_DESCRIPTORS
            bad = bad or leaks
        print("; ".join(report), flush=True)
        fired += len(faults) - missed
        if bad:
            failed += 1
            print(output[-4000:])
            print(f"exit code {process.returncode}; to run it again: {shlex.join(command)}")
        else:
            passed += 1
    print(f"soak: {fired} faults")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
