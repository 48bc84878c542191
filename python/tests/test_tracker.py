"""`rejoin.Tracker`: the tracker of a job in a driver of the user's own, which starts real processes as ranks."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import numpy as np
import rejoin
from launching import ROOT, Launched

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
# A test that waits so long has failed.
LIMIT = 50


class Driver(Launched):
    def drive(self, *arguments):
        driver = [sys.executable, str(ROOT / "examples" / "python" / "driver.py"), *arguments]
        ended = subprocess.run(driver, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(ended.returncode, 0, f"\n{ended.stdout}\n{ended.stderr}")
        return self.digest(ended.stdout), ended.stderr

    def test_a_driver_starts_a_killed_rank_again_and_has_the_same_model(self):
        undisturbed, said = self.drive()
        self.assertEqual(said, "", "nothing is said of a job without a death")
        killed, said = self.drive("--kill")
        self.assertEqual(said, "rank 1, start 0 has died\n")
        self.assertEqual(killed, undisturbed)


class InThisProcess(unittest.TestCase):
    def rank(self, tracker, program, number=0, task=0):
        """A process that has `process`, and joins by this program; it ends before the test does."""
        begin = """
            import os, signal, sys
            import numpy as np
            import rejoin

            job, address, name, number, task = sys.argv[1:]
            process = rejoin.Process(job, sys.stdin.buffer.read(32), address, name)
            number, task = int(number), int(task)
            """
        text = textwrap.dedent(begin) + textwrap.dedent(program)
        name = f"process {number}.{task}"
        arguments = [tracker.job, tracker.address, name, str(number), str(task)]
        child = subprocess.Popen(
            [sys.executable, "-c", text, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        child.stdin.write(tracker.secret)
        child.stdin.close()
        child.stdin = None
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        return child

    def until(self, tracker, name):
        """The next event of this name."""
        for _ in range(LIMIT * 10):
            event = tracker.poll(0.1)
            if event is not None and event.name == name:
                return event.fields
            self.assertFalse(event is None and tracker.over, f"the job ended without {name}")
        self.fail(f"never happened: {name}")

    def refused(self, code, *words):
        test = self

        class Refused:
            def __enter__(self):
                return self

            def __exit__(self, kind, raised, trace):
                test.assertIsInstance(raised, rejoin.RejoinError)
                test.assertEqual(raised.code, code, raised)
                for word in words:
                    test.assertIn(word, raised.text)
                return True

        return Refused()

    def test_events_come_in_their_order_and_end_with_the_job_and_its_result(self):
        with rejoin.Tracker(1, members=LIMIT) as tracker:
            with self.refused(rejoin.Code.BAD_STATE, "has not ended"):
                tracker.result()
            self.assertIsNone(tracker.poll(0))
            child = self.rank(
                tracker,
                """
                with process.join(number, task=task) as ranks:
                    ranks.load()
                    ranks.print("hello")
                    ranks.checkpoint(b"first")
                    ranks.finish(b"the end")
                """,
            )
            events = list(tracker)
            names = [event.name for event in events]
            self.assertEqual([names.count(name) for name in ("RankJoined", "RankFinished", "JobEnded")], [1, 1, 1])
            self.assertLess(names.index("AgentJoined"), names.index("RankJoined"))
            self.assertLess(names.index("RankJoined"), names.index("JobEnded"))
            printed = next(event for event in events if event.name == "Printed")
            self.assertEqual((printed.fields["rank"], printed.fields["text"]), (0, "hello"))
            ended = next(event for event in events if event.name == "JobEnded")
            self.assertEqual(ended.fields["digest"], rejoin.digest(b"the end"))
            self.assertTrue(tracker.over)
            self.assertEqual(list(tracker), [], "and no more")
            self.assertEqual([tracker.result(), tracker.result()], [b"the end"] * 2)
            self.assertEqual(child.wait(LIMIT), 0)

    def test_a_rank_that_never_comes_ends_the_job_with_its_name(self):
        with rejoin.Tracker(2, members=0.5) as tracker:
            self.assertIn("JobFailed", [event.name for event in tracker])
            with self.refused(rejoin.Code.MEMBERS_MISSING, "rank"):
                tracker.result()
            tracker.executor_gone("nobody")
            with self.refused(rejoin.Code.MEMBERS_MISSING):
                tracker.result()

    def test_a_cancelled_job_ends_at_its_ranks_too_with_the_reason(self):
        with rejoin.Tracker(2, members=LIMIT) as tracker:
            child = self.rank(tracker, "process.join(number, task=task)")
            self.until(tracker, "AgentJoined")
            with self.refused(rejoin.Code.BAD_ARGUMENT, "64"):
                tracker.cancel("no", code=64)
            self.assertFalse(tracker.over)
            tracker.cancel("the user has seen enough")
            self.assertIn("JobFailed", [event.name for event in tracker])
            with self.refused(rejoin.Code.CANCELLED, "the user has seen enough"):
                tracker.result()
            _, said = child.communicate(timeout=LIMIT)
            self.assertIn(b"CANCELLED: ", said)
            self.assertIn(b"the user has seen enough", said)

    def test_a_death_that_is_told_counts_at_once_and_the_limit_of_deaths_ends_the_job(self):
        with rejoin.Tracker(1, deaths=1, lost_after=40, members=LIMIT) as tracker:
            # The process lives on: only what is told makes it lost.
            self.rank(
                tracker,
                """
                import time
                ranks = process.join(number, task=task)
                ranks.load()
                time.sleep(50)
                """,
            )
            self.until(tracker, "RankJoined")
            told = threading.Thread(target=tracker.executor_gone, args=("process 0.0", "it was seen to end"))
            told.start()
            lost = self.until(tracker, "RankLost")
            told.join()
            self.assertIn("it was seen to end", lost["reason"])
            list(tracker)
            with self.refused(rejoin.Code.UNRECOVERABLE, "deaths"):
                tracker.result()

    def test_a_frozen_rank_is_asked_to_be_killed_and_its_next_start_ends_the_job_with_the_same_model(self):
        program = """
            with process.join(number, task=task) as ranks:
                version, model = ranks.load()
                total = np.zeros(1) if model is None else np.frombuffer(model).copy()
                for step in range(version, 6):
                    if (number, task, step) == (1, 0, 3):
                        os.kill(os.getpid(), signal.SIGSTOP)
                    total += ranks.allreduce(np.array([number + step + 0.5]))
                    ranks.checkpoint(total)
                ranks.finish(total)
            """
        with rejoin.Tracker(2, members=LIMIT) as tracker:
            children = [self.rank(tracker, program, number) for number in range(2)]
            wanted = self.until(tracker, "KillWanted")
            self.assertEqual((wanted["index"], wanted["attempt"]["task"], wanted["executor"]), (1, 0, "process 1.0"))
            children[1].kill()
            children[1].wait(LIMIT)
            again = self.rank(tracker, program, 1, task=1)
            self.assertEqual(self.until(tracker, "RankJoined")["incarnation"], 1)
            list(tracker)
            total = sum(number + step + 0.5 for number in range(2) for step in range(6))
            self.assertEqual(np.frombuffer(tracker.result()).tolist(), [total])
            self.assertEqual([children[0].wait(LIMIT), again.wait(LIMIT)], [0, 0])

    def test_a_world_that_may_change_goes_on_without_a_task_that_leaves(self):
        # Otherwise it would be waited for beyond the test's limit.
        elastic = {"min_world": 1, "elastic_timeout": 10 * LIMIT, "members": 20 * LIMIT}
        program = """
            with process.join_as_task(number, task=task) as ranks:
                while True:
                    try:
                        version, model = ranks.load()
                        while ranks.world == 2:
                            ranks.allreduce(np.ones(1))
                            ranks.checkpoint(b"x")
                        ranks.finish(b"%d in a world of %d" % (number, ranks.world))
                        break
                    except rejoin.RejoinError as error:
                        if error.code is not rejoin.Code.RESIZED:
                            raise
                        ranks.join_again()
            """
        with rejoin.Tracker(2, **elastic) as tracker:
            stays, leaves = self.rank(tracker, program, 0), self.rank(tracker, program, 1)
            self.until(tracker, "VersionEntered")
            tracker.task_leaves(1, task=0)
            leaves.kill()
            leaves.wait(LIMIT)
            tracker.executor_gone("process 1.0", "its slot is gone")
            self.assertEqual(self.until(tracker, "Resized")["world"], 1)
            list(tracker)
            self.assertEqual(tracker.result(), b"0 in a world of 1")
            self.assertEqual(stays.wait(LIMIT), 0)

    def test_a_world_changes_no_more_often_than_it_may(self):
        elastic = {"min_world": 1, "elastic_timeout": 10 * LIMIT, "members": 20 * LIMIT, "reset_limit": 1}
        program = """
            with process.join_as_task(number, task=task) as ranks:
                while True:
                    try:
                        ranks.load()
                        while True:
                            ranks.allreduce(np.ones(1))
                            ranks.checkpoint(b"x")
                    except rejoin.RejoinError as error:
                        if error.code is not rejoin.Code.RESIZED:
                            raise
                        ranks.join_again()
            """
        with rejoin.Tracker(3, **elastic) as tracker:
            ranks = [self.rank(tracker, program, number) for number in range(3)]
            self.until(tracker, "VersionEntered")
            for number in (2, 1):
                tracker.task_leaves(number, task=0)
                ranks[number].kill()
                ranks[number].wait(LIMIT)
                tracker.executor_gone(f"process {number}.0", "its slot is gone")
                if number == 2:
                    self.assertEqual(self.until(tracker, "Resized")["world"], 2)
                    # Both have joined again, and train.
                    for _ in range(2):
                        self.until(tracker, "VersionEntered")
            list(tracker)
            with self.refused(rejoin.Code.UNRECOVERABLE, "changed once, and may not change again"):
                tracker.result()

    def test_a_launcher_starts_ranks_by_the_join_file_which_is_gone_at_the_end(self):
        program = """
            import numpy as np, rejoin
            with rejoin.join("by a file") as ranks:
                ranks.load()
                ranks.finish(ranks.allreduce(np.array([ranks.rank + 1.0])))
            """
        with tempfile.TemporaryDirectory() as folder:
            join = pathlib.Path(folder, "training.join")
            with rejoin.Tracker(2, join_file=join, name="by a file", members=LIMIT) as tracker:
                self.assertEqual(join.stat().st_mode & 0o777, 0o600)
                with self.refused(rejoin.Code.BAD_ARGUMENT, "is there already", "by a file"):
                    rejoin.Tracker(2, join_file=join)
                rejoin_command = os.environ.get("REJOIN_COMMAND", "rejoin")
                status = subprocess.run([rejoin_command, "status", "--join", str(join)], capture_output=True, text=True)
                self.assertIn("job by a file: 2 ranks, 2 missing", status.stdout, status.stderr)
                command = [rejoin_command, "run", "--join", str(join), "--ranks", "0-1", "--timeout", "50s"]
                run = [*command, "--", sys.executable, "-c", textwrap.dedent(program)]
                launcher = subprocess.Popen(run, env=ENVIRONMENT)
                self.addCleanup(launcher.kill)
                self.assertIn("JobEnded", [event.name for event in tracker])
                self.assertEqual(launcher.wait(LIMIT), 0)
                self.assertEqual(len(tracker.result()), 8)
            self.assertFalse(join.exists())

    def test_what_cannot_be_is_refused_and_says_what_is_expected(self):
        for arguments, words in (
            ({"world": 0}, "world is 0"),
            ({"world": 1 << 20}, "4096"),
            ({"world": 2, "job": "12"}, "32 hexadecimal digits"),
            ({"world": 2, "secret": b"short"}, "the secret has 5 bytes; expected 32"),
            ({"world": 2, "listen": "somewhere"}, "an IP address"),
            ({"world": 2, "listen": "0.0.0.0"}, "the address that the ranks' processes reach"),
            ({"world": 2, "ports": "9-8"}, "9-8"),
            ({"world": 2, "deaths": 0}, "deaths is 0"),
            ({"world": 2, "lost_after": 0.001}, "silence"),
            ({"world": 2, "members": -1}, "seconds above 0"),
            ({"world": 2, "max_world": 3}, "the world is fixed"),
            ({"world": 2, "reset_limit": 3}, "config.most_resizes is 3, but config.min is 0, so the world is fixed"),
            ({"world": 2, "own_may_be_lost": True}, "config.own_may_be_lost is 1"),
            ({"world": 2, "min_world": 2, "reset_limit": 0}, "reset_limit is 0"),
            ({"world": 2, "min_world": 3}, "1 to 2 are expected"),
            ({"world": 2, "min_world": 1, "max_world": 1}, "2 or more are expected"),
            ({"world": 2, "min_world": 1, "elastic_timeout": 99}, "the wait for missing members"),
        ):
            with self.subTest(arguments), self.refused(rejoin.Code.BAD_ARGUMENT, words):
                rejoin.Tracker(**arguments).close()
        with self.refused(rejoin.Code.IO, "/nowhere/join"):
            rejoin.Tracker(2, join_file="/nowhere/join")

    def test_after_the_close_every_call_is_refused_and_one_under_way_is_let_end(self):
        tracker = rejoin.Tracker(2, members=LIMIT)
        polled = []

        def poll():
            try:
                polled.append(tracker.poll())
            except rejoin.RejoinError as error:
                polled.append(error.code)

        poller = threading.Thread(target=poll)
        poller.start()
        tracker.close()
        poller.join(LIMIT)
        self.assertEqual(polled, [rejoin.Code.BAD_STATE])
        tracker.close()
        for call in (
            lambda: tracker.poll(0),
            lambda: next(iter(tracker)),
            tracker.result,
            lambda: tracker.over,
            lambda: tracker.executor_gone("x"),
            lambda: tracker.task_leaves(1, task=0),
            lambda: tracker.cancel("x"),
        ):
            with self.refused(rejoin.Code.BAD_STATE, "this Tracker is closed"):
                call()

    def test_a_tracker_that_a_signal_handler_closes_in_the_middle_of_a_poll_is_closed(self):
        program = """
            import signal, rejoin
            tracker = rejoin.Tracker(2, members=50)
            signal.signal(signal.SIGALRM, lambda *_: tracker.close())
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                for event in tracker:
                    print(event)
            except rejoin.RejoinError as error:
                print(error)
            """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT)
        said = (ended.returncode, ended.stdout.strip())
        self.assertEqual(said, (0, "BAD_STATE: this Tracker is closed"), ended.stderr)

    def test_a_signal_handler_that_polls_inside_of_a_poll_is_refused_and_may_ask_for_the_result(self):
        program = """
            import signal, rejoin
            def handler(*_):
                for call in (lambda: tracker.poll(0), tracker.result):
                    try:
                        call()
                    except rejoin.RejoinError as error:
                        print(error)
                tracker.cancel("enough")
            tracker = rejoin.Tracker(2, members=50)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            print([event.name for event in tracker])
            """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        polled, asked, events = ended.stdout.splitlines()
        self.assertIn("BAD_STATE: a signal handler polls this Tracker inside of a poll", polled)
        self.assertIn("BAD_STATE: ", asked)
        self.assertIn("JobFailed", events)

    def test_what_is_refused_while_another_thread_polls_says_why(self):
        with rejoin.Tracker(2, members=LIMIT) as tracker:
            poller = threading.Thread(target=lambda: list(tracker))
            poller.start()
            for _ in range(20):
                with self.refused(rejoin.Code.BAD_ARGUMENT, "status 99 is unknown"):
                    tracker.cancel("why", 99)
            tracker.cancel("it is enough")
            with self.refused(rejoin.Code.CANCELLED, "it is enough"):
                while not tracker.over:
                    pass
                tracker.result()
            poller.join(LIMIT)


if __name__ == "__main__":
    unittest.main()
