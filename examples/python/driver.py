"""A driver with a job's tracker in its own process: it starts two ranks, starts one that dies again, and has the model.

    python3 driver.py           undisturbed
    python3 driver.py --kill    rank 1 is killed in the middle: the digest is the same

The processes are children here, which are this same program. What a process on another host needs is the same: the
job, the tracker's address, the secret by a way that nobody else reads, its rank, and how often it was started.
"""

import subprocess
import sys
import time

import numpy as np
import rejoin

WORLD, VERSIONS, KILLED_IN, MOST_STARTS = 2, 20, 10, 5


def train(ranks, waits_to_be_killed):
    """The mean of all ranks' rows, by gradient descent."""
    rows = np.arange(1000.0) * (ranks.rank + 1) % 97
    version, model = ranks.load()
    mean = np.zeros(1) if model is None else np.frombuffer(model).copy()
    for step in range(version, VERSIONS):
        if waits_to_be_killed and step == KILLED_IN and ranks.incarnation == 0:
            time.sleep(60)
        sums = np.array([(mean[0] - rows).sum(), len(rows)])
        ranks.allreduce(sums)
        mean -= 0.5 * sums[0] / sums[1]
        ranks.checkpoint(mean)
    ranks.finish(mean)


def be_a_rank(job, address, name, rank, task, waits_to_be_killed):
    """In a child, which has the secret on standard input."""
    secret = sys.stdin.buffer.read(32)
    with rejoin.Process(job, secret, address, name) as process:
        with process.join(int(rank), "driver.py 1", task=int(task)) as ranks:
            if not ranks.over:
                train(ranks, waits_to_be_killed == "kill")


class Child:
    """One start of a rank's process."""

    def __init__(self, tracker, rank, task, is_killed):
        self.rank, self.task, self.name = rank, task, f"rank {rank}, start {task}"
        kill = "kill" if is_killed and rank == 1 else "-"
        arguments = [tracker.job, tracker.address, self.name, str(rank), str(task), kill]
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], stdin=subprocess.PIPE)
        self.process.stdin.write(tracker.secret)
        self.process.stdin.close()


def drive(is_killed):
    with rejoin.Tracker(WORLD) as tracker:
        children = [Child(tracker, rank, 0, is_killed) for rank in range(WORLD)]
        while not tracker.over:
            event = tracker.poll(0.02)
            if event is not None and event.name == "VersionEntered" and is_killed:
                if (event.fields["rank"], event.fields["version"]) == (1, KILLED_IN):
                    children[1].process.kill()
                    is_killed = False
            elif event is not None and event.name == "KillWanted":  # it was silent for too long
                children[event.fields["index"]].process.kill()
            for rank, child in enumerate(children):
                status = child.process.poll()
                if status in (None, 0):
                    continue
                tracker.executor_gone(child.name, f"its process ended with {status}")
                print(f"{child.name} has died", file=sys.stderr, flush=True)
                if child.task + 1 == MOST_STARTS:
                    tracker.cancel(f"rank {rank} has died too often", rejoin.Code.UNRECOVERABLE)
                    break
                children[rank] = Child(tracker, rank, child.task + 1, is_killed)
        for child in children:
            child.process.wait()
        print("digest", rejoin.digest(tracker.result()))


if __name__ == "__main__":
    if len(sys.argv) == 7:
        be_a_rank(*sys.argv[1:])
    else:
        drive(sys.argv[1:] == ["--kill"])
